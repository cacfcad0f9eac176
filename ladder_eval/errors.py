"""The errors that a user can meet: one clear sentence each, no traceback, exit code 2."""

_LONGEST = 300


def brief(said: object) -> str:
    """What a file or another library said, in one line for a sentence, and cut where it is long."""
    text = " ".join(str(said).split())
    text = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def flag(name: str) -> str:
    """An option by its name in Python, as it stands on a command line: `--batch-size`."""
    return f"--{name.replace('_', '-')}"


class LadderEvalError(Exception):
    """Something that the user can put right; the message says how.

    The command line prints the message alone and exits with `exit_code`.
    """

    exit_code = 2


class UsageError(LadderEvalError):
    """An option, a name or a combination of options that makes no sense."""


class CheckpointError(LadderEvalError):
    """A checkpoint that is missing, damaged, or not what its configuration says."""


class DataError(LadderEvalError):
    """Benchmark data that is missing, damaged, or not of the expected shape."""


class FetchError(LadderEvalError):
    """A download that failed, or whose content is not the pinned one."""


class ScoringError(LadderEvalError):
    """A model that gave an answer which can't be a score, such as NaN."""


class RecordError(LadderEvalError):
    """A run folder that can't be written, read, or trusted."""


class PairingError(LadderEvalError):
    """Two models whose answers can't be paired, because their requests differ."""


class WorkerError(LadderEvalError):
    """Another rank of the group has died; the message is its own."""

    exit_code = 1
