"""Going on with a run in its folder: how it was started, and what may be different now.

Needs no torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ladder_eval.errors import RecordError, UsageError, flag
from ladder_eval.models.hub_id import HubId, find_place
from ladder_eval.models.models_file import read_models_file
from ladder_eval.models.registry import MODELS
from ladder_eval.options import RunOptions, run_options
from ladder_eval.results.decoding import decode
from ladder_eval.results.lines import read_lines
from ladder_eval.results.looks import now
from ladder_eval.results.store import RunFolder

if TYPE_CHECKING:
    from ladder_eval.models.choice import ResidualChoice

__all__ = ["STARTS_NAME", "RunName", "Start", "Started", "read_starts", "resumed", "started"]

STARTS_NAME: Final = "starts.jsonl"
"""File of a run's folder with a line each time that the run was begun or gone on with."""

# What is asked doesn't depend on these; a checkpoint elsewhere has to have the same weights.
_FREE: Final = (
    *("batch_size", "device", "tp", "dp", "no_tp_check", "no_speed"),
    *("checkpoint", "baseline_checkpoint", "baseline_run", "models_file"),
    *("model_dir", "data_dir", "prefer_hub"),
)
# What a user agrees to or pays for is never taken from a folder, which may be another's.
_OWN: Final = ("execute_code", "unsafe_execution", "judge_url", "judge_model")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunName:
    """What a run is called, and what it asks.

    Attributes:
        run_id: The name of its folder where none is given.
        asked_sha256: Hash of the models, documents and computation; tp_size isn't part of it.
    """

    run_id: str
    asked_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One start of a run.

    Attributes:
        run_id: The run's name.
        asked_sha256: As `RunName.asked_sha256`.
        started_at: When, ISO 8601 with an offset from UTC.
        tp_size: Ranks that compute answers, which are no part of an answer's key.
        batch_size: Different contexts in one forward; neither.
        options: The options, as `run_options` takes them, without what a user agrees to.
    """

    run_id: str
    asked_sha256: str
    started_at: str
    tp_size: int
    batch_size: int
    options: dict[str, bool | int | str | list[int | str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A run that goes on.

    Attributes:
        folder: Its folder, held by this process.
        run_id: Its name, whatever its folder is called by now.
        starts: All starts, the present one last.
    """

    folder: RunFolder
    run_id: str
    starts: Sequence[Start]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of answers that other starts have computed."""
        sizes = [sorted({start.tp_size for start in self.starts})]
        sizes += [sorted({start.batch_size for start in self.starts})]
        if all(len(each) == 1 for each in sizes):
            return ()
        tp, batch = (" and ".join(map(str, each)) for each in sizes)
        return (
            f"This run was started {len(self.starts)} times, at tp_size {tp} and batch_size "
            f"{batch}; recorded answers are of any of these.",
        )


def resumed(run: Path, given: Mapping[str, Any]) -> RunOptions:
    """The options of a run that goes on: those of its last start, and what is given beside.

    Args:
        run: Its folder, wherever that is by now.
        given: Other options by name; None or an empty list means that the option was not given.

    Raises:
        UsageError: If one of these would change what is asked.
        RecordError: If the folder doesn't say how the run was started.
    """
    beside = {name: value for name, value in given.items() if value not in (None, [], ())}
    fixed = [name for name in beside if name not in (*_FREE, *_OWN)]
    if fixed:
        flags = " and ".join(flag(name) for name in fixed)
        raise UsageError(
            f"{flags} can't be given beside --resume: {run} is asked what it was; leave it out, or "
            "start a run of its own."
        )
    starts = read_starts(run)
    if not starts:
        raise RecordError(
            f"{run} doesn't say how its run was started; give the folder of a run, or the command "
            "that started it."
        )
    known = {*(each.name for each in fields(RunOptions)), "ladder_layers"} - {*_OWN, "resume"}
    if unknown := sorted(starts[-1].options.keys() - known):
        raise RecordError(
            f"{run / STARTS_NAME} has the unknown options {', '.join(unknown)}; use the "
            "ladder-eval that started the run, or start a run of its own."
        )
    return replace(run_options(starts[-1].options | beside, None), resume=run)


@contextmanager
def started(options: RunOptions, name: RunName, tp_size: int) -> Iterator[Started]:
    """Hold the run's folder, which is the one that goes on or is named after what is asked.

    How the run is started is on disk before anything is computed.

    Raises:
        RecordError: If the folder can't be written, or another process holds it.
        UsageError: If the run that is to go on asked something else.
    """
    with RunFolder.open(options.resume or options.output_dir / name.run_id) as folder:
        earlier = read_starts(folder.path)
        if options.resume is not None and earlier[-1].asked_sha256 != name.asked_sha256:
            raise UsageError(
                f"{options.resume} can't go on: its models, data, device or versions aren't what "
                "they were, so that none of its answers would count; put them back, or start a run "
                "of its own."
            )
        start = Start(
            run_id=earlier[-1].run_id if options.resume is not None else name.run_id,
            asked_sha256=name.asked_sha256,
            started_at=now(),
            tp_size=tp_size,
            batch_size=options.batch_size,
            options=_plain(options),
        )
        folder.append(STARTS_NAME, asdict(start))
        yield Started(folder=folder, run_id=start.run_id, starts=(*earlier, start))


def read_starts(run: Path) -> tuple[Start, ...]:
    """All starts of a run, in order; none where nothing says so.

    Raises:
        RecordError: If they can't be read.
    """
    file = run / STARTS_NAME
    try:
        records = read_lines(file).records if file.exists() else ()
    except OSError as error:
        raise RecordError(
            f"{file} can't be read ({error}); give the command that started the run."
        ) from None
    found = (decode(Start, each, f"{file}, line {i}") for i, each in enumerate(records, 1))
    return tuple(cast("Start", each) for each in found)


def _plain(options: RunOptions) -> dict[str, Any]:
    """Options as a configuration file has them, its paths whole."""
    names = [f.name for f in fields(options) if f.name not in (*_OWN, "resume", "output_dir")]
    values = {name: getattr(options, name) for name in names}
    choice: ResidualChoice = values.pop("residual")
    values |= {"residual": choice.residual, "ladder_layers": choice.ladder_layers}
    known = {*MODELS, *(read_models_file(options.models_file) if options.models_file else ())}
    values["model"] = [_whole(name, known) for name in options.model]
    if options.baseline is not None:
        values["baseline"] = _whole(options.baseline, known)
    return {name: _json(value) for name, value in values.items() if value not in (None, ())}


def _whole(name: str, known: set[str]) -> str:
    """A model as it was typed, with its whole path if it is a folder or file."""
    place = None if name in known else find_place(name)
    return str(place.absolute()) if isinstance(place, Path) else name


def _json(value: object) -> object:
    match value:
        case Path():
            return str(value.absolute())
        case HubId():
            return str(value)
        case tuple():
            return list(value)
    return value
