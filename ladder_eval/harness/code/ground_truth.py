"""What the canonical solutions return, and how long they take here; kept in the cache."""

import gzip
import json
import platform
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from ladder_eval.errors import DataError
from ladder_eval.fetch import cache_folder
from ladder_eval.harness.code.inside.values import decode, encode
from ladder_eval.harness.code.problems import Level, Problem, Problems
from ladder_eval.harness.code.running import Job, NoValueError, Output, run
from ladder_eval.harness.code.sandbox import Sandbox
from ladder_eval.results.files import atomic_write

__all__ = ["GroundTruth", "Truth"]

_VERSION: Final = 1  # of the files
_TEST_SECONDS: Final = 120.0
_TOTAL_SECONDS: Final = 900.0
_LEVELS: Final[tuple[Level, Level]] = ("base", "plus")


@dataclass(frozen=True, slots=True)
class Truth:
    """What one problem's tests expect.

    Attributes:
        values: The results of the canonical solution.
        seconds: The CPU time that each took.
    """

    values: Mapping[Level, Sequence[Any]]
    seconds: Mapping[Level, Sequence[float]]


class GroundTruth:
    """Expected results by problem, computed when first asked for, one file a problem.

    They depend on the tests, on Python (which sums floats better since 3.12) and, for the times, on
    the machine.
    """

    def __init__(self, problems: Problems, sandbox: Sandbox) -> None:
        python = f"{platform.python_implementation()}-{platform.python_version()}"
        name = f"{problems.dataset}-{problems.sha256[:16]}-{python}-{platform.node()}-v{_VERSION}"
        self.folder = cache_folder() / "code" / name
        self._sandbox = sandbox
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._lock = Lock()

    def of(self, problem: Problem) -> Truth:
        """What a problem's tests expect.

        Raises:
            DataError: If the canonical solution doesn't run here.
            RecordError: If the cache can't be written.
        """
        with self._lock:
            lock = self._locks[problem.task_id]
        path = self.folder / f"{problem.task_id.replace('/', '-')}.json.gz"
        with lock:
            return _read(path, problem) or self._compute(path, problem)

    def _compute(self, path: Path, problem: Problem) -> Truth:
        outputs = {level: self._outputs(problem, level) for level in _LEVELS}
        stored = {
            level: [[encode(output.value), output.seconds] for output in outputs[level]]
            for level in _LEVELS
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"Expected results can't be kept in {path.parent} ({error.strerror}); set "
                "LADDER_EVAL_CACHE to a folder that can be written."
            ) from error
        atomic_write(path, gzip.compress(json.dumps(stored).encode(), compresslevel=1, mtime=0))
        return _truth(outputs)

    def _outputs(self, problem: Problem, level: Level) -> list[Output]:
        inputs = problem.inputs[level]
        job = Job(
            code=problem.canonical,
            entry_point=problem.entry_point,
            inputs=inputs,
            seconds=[_TEST_SECONDS] * len(inputs),
            total=_TOTAL_SECONDS,
        )
        try:
            with closing(run(job, self._sandbox)) as outputs:
                return [_expected(problem, output) for output in outputs]
        except NoValueError as error:
            raise DataError(
                f"The canonical solution of {problem.task_id} doesn't run here ({error.kind}: "
                f"{error}), so nothing can be judged; make room for it, or get the data again."
            ) from error


def _expected(problem: Problem, output: Output) -> Output:
    if problem.only_none_counts:  # match objects can't leave the sandbox
        return Output(output.value is not None, output.seconds)
    return output


def _truth(outputs: Mapping[Level, Sequence[Output]]) -> Truth:
    return Truth(
        values={level: [output.value for output in found] for level, found in outputs.items()},
        seconds={level: [output.seconds for output in found] for level, found in outputs.items()},
    )


def _read(path: Path, problem: Problem) -> Truth | None:
    """What is kept; None if that is nothing, or nothing whole."""
    try:
        stored = json.loads(gzip.decompress(path.read_bytes()))
        outputs = {
            level: [Output(decode(value), float(seconds)) for value, seconds in stored[level]]
            for level in _LEVELS
        }
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError):
        return None
    whole = all(len(outputs[level]) == len(problem.inputs[level]) for level in _LEVELS)
    return _truth(outputs) if whole else None
