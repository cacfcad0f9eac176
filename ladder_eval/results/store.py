"""The folder of one run: its lock, its answers, its result, its samples and its report."""

import hashlib
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import filelock
import pandas as pd
import pyarrow as pa

from ladder_eval.errors import RecordError, brief
from ladder_eval.parquet import read_parquet
from ladder_eval.results.files import atomic_write, make_folder, remove_unfinished
from ladder_eval.results.lines import LineFile, Record, read_lines
from ladder_eval.results.recorded_work import RecordedBatch, recorded_batches
from ladder_eval.results.records import RunResult, from_json, to_json
from ladder_eval.results.requests import Answer, RequestLog
from ladder_eval.results.samples import SAMPLE_COLUMNS, SAMPLE_SCHEMA

__all__ = [
    "RESULT_NAME",
    "SAMPLES_NAME",
    "SAMPLE_COLUMNS",
    "RunFolder",
    "atomic_write",
    "find_runs",
    "read_batches",
    "read_result",
    "read_samples",
    "requests_file",
    "slug",
]

RESULT_NAME: Final = "results.json"
"""Name of the file with the `RunResult`; a folder that has one is a run."""

SAMPLES_NAME: Final = "samples.parquet"
"""Name of the file with one row per model, document and filter."""

BATCHES_NAME: Final = "batches"
"""Name of the folder with the lengths of what each model has computed."""

BATCH_TOKENS_NAME: Final = "batch_tokens.jsonl"
"""Name of the file with the number of tokens that batches have at most."""

LOCK_NAME: Final = "run.lock"


class RunFolder:
    """One run's folder, held by one process at a time.

    Every file is replaced as a whole or grows by whole lines, so a crash never leaves half of one
    that would be taken for all of it.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path, lock: filelock.BaseFileLock) -> None:
        """Take over a folder whose lock is held; `RunFolder.open` is the way to get one."""
        self.path = path
        self._lock = lock
        self._lines: dict[str, LineFile] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Make the folder if need be, make sure that it can be written, and lock it.

        Raises:
            RecordError: If the folder can't be made or written, or another process holds it.
        """
        lock = filelock.FileLock(path / LOCK_NAME)
        try:
            make_folder(path)
            # Permission bits say too little: root ignores them, and a mount may be read-only.
            tempfile.TemporaryFile(dir=path).close()
            lock.acquire(blocking=False)
            remove_unfinished(path)
        except filelock.Timeout as error:
            raise RecordError(
                f"another process is writing to {path}; wait for it, or choose another folder."
            ) from error
        except OSError as error:
            raise RecordError(
                f"can't write to {path} ({error.strerror or error}); choose another folder."
            ) from error
        return cls(path, lock)

    def requests(self, name: str, lent: Mapping[str, Answer] | None = None) -> RequestLog:
        """The log of answers under a name, such as a model's; it knows the lent ones, too."""
        return RequestLog(requests_file(self.path, name), lent)

    def batches(self, name: str) -> RequestLog:
        """The log of what was computed together for the answers under a name."""
        return RequestLog(self.path / BATCHES_NAME / f"{slug(name)}.jsonl")

    def batch_tokens(self) -> RequestLog:
        """The log of how many tokens batches have at most, by the size of the model."""
        return RequestLog(self.path / BATCH_TOKENS_NAME)

    def write_result(self, result: RunResult) -> None:
        """Write the result, which makes the folder a run.

        Raises:
            RecordError: If it can't be written, or holds a number that is NaN or infinite.
        """
        atomic_write(self.path / RESULT_NAME, to_json(result))

    def write_samples(self, samples: pd.DataFrame) -> None:
        """Write the samples, one row per model, document and filter.

        Raises:
            RecordError: If the columns aren't `SAMPLE_COLUMNS`, a cell doesn't fit its column, or
                the file can't be written.
        """
        if tuple(samples.columns) != SAMPLE_COLUMNS:
            raise RecordError(
                f"samples have the columns {', '.join(map(str, samples.columns))}; "
                f"give them {', '.join(SAMPLE_COLUMNS)}."
            )
        buffer = io.BytesIO()
        try:
            samples.to_parquet(buffer, index=False, schema=SAMPLE_SCHEMA, write_page_checksum=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise RecordError(f"a sample doesn't fit its column ({error}); correct it.") from error
        atomic_write(self.path / SAMPLES_NAME, buffer.getvalue())

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file such as report.md, and return its path.

        Raises:
            RecordError: If it can't be written.
        """
        atomic_write(self.path / name, text)
        return self.path / name

    def append(self, name: str, record: Record) -> None:
        """Add a record to a file of lines, on disk before this returns.

        Raises:
            RecordError: If it can't be written.
        """
        path = self.path / name
        try:
            if name not in self._lines:
                self._lines[name] = LineFile(path)
            self._lines[name].append([record])
        except OSError as error:
            raise RecordError(
                f"can't write to {path} ({error.strerror or error}); "
                "free some space there, or choose another folder."
            ) from error

    def close(self) -> None:
        """Let other processes have the folder."""
        for lines in self._lines.values():
            lines.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def requests_file(folder: Path, name: str) -> Path:
    """Where a run's folder has the answers of a model."""
    return folder / "requests" / f"{slug(name)}.jsonl"


def read_result(path: Path) -> RunResult:
    """Read the result of a run, given its folder or its results.json.

    Raises:
        RecordError: If there's no result, or it can't be trusted.
    """
    file = path / RESULT_NAME if path.is_dir() else path
    with _reading(file):
        text = file.read_text(encoding="utf-8")
    try:
        return from_json(text)
    except RecordError as error:
        raise RecordError(f"{file}: {error}") from error


def read_samples(folder: Path) -> pd.DataFrame:
    """Read the samples of a run; the columns are `SAMPLE_COLUMNS`.

    Raises:
        RecordError: If there are no samples, or the file isn't one that `write_samples` wrote.
    """
    file = folder / SAMPLES_NAME
    with _reading(file):
        samples = read_parquet(file)
    if samples.schema != SAMPLE_SCHEMA:
        raise RecordError(
            f"{file} has other columns than this ladder-eval writes; "
            "use the ladder-eval that wrote it, or run the evaluation again."
        )
    frame: pd.DataFrame = samples.to_pandas()
    return frame


def read_batches(folder: Path, name: str) -> list[RecordedBatch]:
    """Read what a run has computed together for the answers under a name, in that order.

    Raises:
        RecordError: If nothing is recorded, or it can't be read.
    """
    file = folder / BATCHES_NAME / f"{slug(name)}.jsonl"
    if folder.is_dir() and not file.is_file():
        raise RecordError(
            f"{folder} doesn't say how long the requests of {name} were; "
            "run the evaluation again, in a new folder."
        )
    with _reading(file):
        lines = read_lines(file)
    if lines.damaged and not lines.torn:  # without it, other work would be timed
        raise RecordError(f"{file} has {lines}; run the evaluation again, in a new folder.")
    return recorded_batches(lines.records)


def find_runs(folder: Path) -> list[Path]:
    """All folders at or below `folder` that hold a result, sorted.

    Raises:
        RecordError: If `folder` isn't a folder.
    """
    if not folder.is_dir():
        raise RecordError(f"{folder} isn't a folder; give one that holds runs.")
    return sorted(file.parent for file in folder.rglob(RESULT_NAME) if file.is_file())


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise RecordError(
            f"there's no {file}, so {file.parent} isn't a finished run; give a run's folder."
        ) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RecordError(
            f"can't read {file} ({brief(error)}); restore it, or run the evaluation again."
        ) from error


def slug(name: str) -> str:
    """A file name for any name; a hash keeps apart what replaced characters would make equal."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
    if plain == name:
        return name
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
