"""Runs one program on its inputs, and writes what comes out, a line a test, for others to judge.

A line is JSON, `[kind, value, seconds]`: `ready` when limits are in force, `loaded`, `value`, or
what went wrong: `syntax`, `exception`, `memory`, `output`. Seconds are CPU time. The first failure
is the last line.
"""

import json
import os
import signal
import sys
import types
from contextlib import suppress
from time import process_time
from typing import Any

from .guards import lay_on
from .values import decode, encode

_DETAIL = 200  # characters


class _Report:
    """The pipe to the judge, which the program's own output can't reach by accident."""

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor, self._most = descriptor, most

    def line(self, kind: str, value: Any = None, seconds: float = 0.0) -> bool:
        """Write a line; returns whether the program may go on."""
        data = json.dumps([kind, value, seconds], separators=(",", ":")).encode() + b"\n"
        if len(data) > self._most:
            return self.line("output", f"a value of {len(data):,} bytes", seconds)
        while data:
            data = data[os.write(self._descriptor, data) :]
        return kind in {"ready", "loaded", "value"}


def main() -> None:
    """Read a job from standard input, run it, and leave without the program's own farewell."""
    job = json.load(sys.stdin)
    report = _Report(_silence(), job["limits"]["output"])
    report.line("ready", lay_on(job["limits"]))
    with suppress(BaseException):
        _run(job, report)
    os._exit(0)


def _silence() -> int:
    """Point standard streams nowhere; returns where results go."""
    results = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return results


def _run(job: dict[str, Any], report: _Report) -> None:
    scope = types.ModuleType("solution")
    sys.modules["solution"] = scope  # dataclasses look themselves up there
    function = _watched(report, "loaded", job["load_seconds"], lambda: _load(job, scope))
    if function is None:
        return
    for given, seconds in zip(job["inputs"], job["seconds"], strict=True):
        arguments = decode(given)
        value = _watched(report, "value", seconds, lambda a=arguments: function(*a))
        if value is None:
            return
        del value


def _load(job: dict[str, Any], scope: types.ModuleType) -> Any:
    exec(compile(job["code"], "solution.py", "exec", dont_inherit=True), scope.__dict__)
    return scope.__dict__[job["entry_point"]]


def _watched(report: _Report, kind: str, seconds: float, call: Any) -> Any:
    """Make a call within its CPU time, past which the kernel ends the process; None: it failed."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    begun = process_time()
    try:
        value = call()
    except SyntaxError as error:
        return _failed(report, "syntax" if kind == "loaded" else "exception", error, begun)
    except MemoryError as error:
        return _failed(report, "memory", error, begun)
    except BaseException as error:
        return _failed(report, "exception", error, begun)
    spent = process_time() - begun
    signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        sent = report.line(kind, encode(value) if kind == "value" else None, spent)
    except MemoryError as error:
        return _failed(report, "memory", error, begun)
    return (value,) if sent and kind == "value" else value if sent else None


def _failed(report: _Report, kind: str, error: BaseException, begun: float) -> None:
    spent = process_time() - begun
    try:
        said = str(error)[:_DETAIL]
    except Exception:
        said = ""
    signal.setitimer(signal.ITIMER_PROF, 0)
    report.line(kind, f"{type(error).__name__}: {said}".removesuffix(": "), spent)
