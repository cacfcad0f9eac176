"""One program from start to end: its results as they come, and then nothing left of it."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from ladder_eval.harness.code.inside.values import decode, encode
from ladder_eval.harness.code.limits import Limits, wall_limit
from ladder_eval.harness.code.sandbox import Sandbox

__all__ = ["Failure", "Job", "NoValueError", "Output", "run"]

Failure = Literal["syntax", "exception", "timeout", "memory", "output"]

_CHUNK = 2**16
_FAREWELL = 10.0  # seconds; the kernel ends a killed namespace at once, if it isn't very busy


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A program and what to call it with.

    Attributes:
        code: Python.
        entry_point: The function's name.
        inputs: Its arguments, a test each.
        seconds: CPU time that each test may take.
        total: CPU time that all may take.
    """

    code: str
    entry_point: str
    inputs: Sequence[Sequence[Any]]
    seconds: Sequence[float]
    total: float


@dataclass(frozen=True, slots=True)
class Output:
    """What a test returned, and in how much CPU time."""

    value: Any
    seconds: float


class NoValueError(Exception):
    """A program that gave no (further) value.

    Attributes:
        kind: What kind of end it was.
    """

    def __init__(self, kind: Failure, detail: str) -> None:
        super().__init__(detail)
        self.kind: Failure = kind


def run(job: Job, sandbox: Sandbox) -> Generator[Output]:
    """Run a program, and yield what its tests return. When it is over, no process is left.

    Raises:
        NoValueError: As soon as a test gives nothing.
    """
    with _started(job, sandbox) as process:
        lines = _Lines(process, sandbox.limits.output, job.total + sandbox.limits.load_seconds)
        lines.take("ready", wall_limit(sandbox.limits.load_seconds))
        lines.take("loaded", wall_limit(sandbox.limits.load_seconds))
        for seconds in job.seconds:
            yield lines.take("value", wall_limit(seconds))


@contextmanager
def _started(job: Job, sandbox: Sandbox) -> Iterator[subprocess.Popen[bytes]]:
    """A file holds the job, since a pipe would block where a program reads nothing."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(_plain(job, sandbox.limits)).encode())
        file.seek(0)
        with sandbox.start(file) as process:
            try:
                yield process
            finally:
                _end(process)


def _plain(job: Job, limits: Limits) -> dict[str, Any]:
    return {
        "code": job.code,
        "entry_point": job.entry_point,
        "inputs": [encode(list(given)) for given in job.inputs],
        "seconds": list(job.seconds),
        "load_seconds": limits.load_seconds,
        "limits": {
            "memory": limits.memory,
            "file": limits.disk,
            "files": limits.files,
            "output": limits.output,
            "cpu": int(job.total + limits.load_seconds) + 1,
        },
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group, and wait until whatever held the pipe is gone.

    bubblewrap's end is that of its namespace, whose processes the kernel then kills.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    deadline = time.monotonic() + _FAREWELL
    with process.stdout as pipe:
        while (left := deadline - time.monotonic()) > 0 and _readable(pipe.fileno(), left):
            if not os.read(pipe.fileno(), _CHUNK):
                break


def _readable(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


class _Lines:
    """Lines from a program, each within its time, none too long, and none believed."""

    def __init__(self, process: subprocess.Popen[bytes], most: int, total: float) -> None:
        assert process.stdout is not None
        self._process, self._most = process, most
        self._descriptor = process.stdout.fileno()
        self._last = time.monotonic() + wall_limit(total)
        self._held = bytearray()

    def take(self, kind: str, seconds: float) -> Output:
        """The next line, which has to be of this kind."""
        line = self._line(min(time.monotonic() + seconds, self._last))
        try:
            found, value, spent = json.loads(line)
            if found == kind:
                return Output(decode(value), float(spent))
        except (ValueError, TypeError, RecursionError):
            raise NoValueError("output", "its results can't be read") from None
        if found in {"syntax", "exception", "memory", "output"}:
            raise NoValueError(found, str(value)[:300])
        raise NoValueError("output", "its results can't be read")

    def _line(self, deadline: float) -> bytes:
        start = 0
        while (end := self._held.find(b"\n", start)) < 0:
            start = len(self._held)
            if start > self._most:
                raise NoValueError("output", f"a result of more than {self._most:,} bytes")
            self._held += self._more(deadline)
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line

    def _more(self, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0 or not _readable(self._descriptor, left):
            raise NoValueError("timeout", "no result in time")
        return os.read(self._descriptor, _CHUNK) or self._ended()

    def _ended(self) -> bytes:
        code = self._process.wait()
        number = -code if code < 0 else code - 128 if code > 128 else 0  # bubblewrap's form
        if number in {signal.SIGPROF, signal.SIGXCPU}:
            raise NoValueError("timeout", "no result in its CPU time")
        if number == signal.SIGKILL:
            raise NoValueError("memory", "killed by the system")
        how = f"by signal {number}" if number else "of its own accord"
        raise NoValueError("exception", f"the process ended {how}")
