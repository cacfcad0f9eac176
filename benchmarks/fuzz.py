"""2,000 spoiled files of every kind that is read, each given to the function that reads it.

    nice python benchmarks/fuzz.py > fuzz.md     # a few minutes on one core

Prints Markdown: how often what came of it, by kind of file, and the first file of every bad kind.
A file may be accepted (such as weights in which a bit has flipped), or refused by an error of
`ladder_eval.errors`, in one line. Bad are any other exception, a death of the process, ten seconds
of CPU time without an answer, and 300 MB above what the process held before. All is seeded:
`--only N --keep FOLDER` reads the file of that number again, in this process, and leaves it there.
"""

import argparse
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from time import monotonic, process_time

from fuzz_targets import TARGETS

from ladder_eval.errors import LadderEvalError

FILES = 2000
SECONDS = 10.0  # of CPU time: the machine may be busy
PATIENCE = 120.0  # seconds on the clock, for what waits
MEMORY = 300 * 10**6
ADDRESS_SPACE = 64 * 2**30  # above what the process has mapped: what isn't touched costs nothing
MOST_RESIDENT = 4 * 2**30  # of a process, at which it is killed
LONGEST = 2000  # characters of an error
GOOD = ("accepted", "refused")
BAD = ("exception", "unclear", "memory", "hang", "crash")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a file: one of GOOD or BAD, and its details."""

    number: int
    target: str
    mutation: str
    kind: str
    said: str
    peak_bytes: int
    seconds: float


class _TooLongError(BaseException):
    """Raised inside of whatever has not answered in time."""


# ------------------------------------------------------------------ one process


def read_one(number: int, seed: int, work: Path) -> Outcome:
    """Spoil the file of a number in a fresh copy of its folder, and read it."""
    target = TARGETS[number % len(TARGETS)]
    rng = Random(f"{seed} {number}")
    folder = work / "case"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_healthy(number % len(TARGETS), work), folder)
    mutation = rng.choice(target.mutations)
    file = next(folder.glob(target.file))
    file.write_bytes(mutation(file.read_bytes(), rng))
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    start = process_time()
    kind, said = _outcome(target.read, folder)
    peak = _resident("VmHWM") - before
    if kind in GOOD and peak > MEMORY:
        kind = "memory"
    return Outcome(
        number=number,
        target=target.name,
        mutation=mutation.__name__,
        kind=kind,
        said=said,
        peak_bytes=peak,
        seconds=process_time() - start,
    )


def _outcome(read: Callable[[Path], None], folder: Path) -> tuple[str, str]:
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read(folder)
    except LadderEvalError as error:
        return _judged(error)
    except _TooLongError:
        return "hang", traceback.format_exc()
    except MemoryError:
        return "memory", traceback.format_exc()
    except BaseException:  # a library in Rust panics with one
        return "exception", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted", ""


def _judged(error: BaseException) -> tuple[str, str]:
    said, cause = str(error), error.__context__
    while cause is not None:
        if isinstance(cause, MemoryError):
            return "memory", said
        cause = cause.__context__
    clear = 0 < len(said) <= LONGEST and len(said.splitlines()) == 1
    return ("refused" if clear else "unclear"), said


def _too_long(*_: object) -> None:
    raise _TooLongError


def _resident(name: str, process: int | str = "self") -> int:
    """Bytes of a process that /proc counts under a name; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


@cache
def _healthy(index: int, work: Path) -> Path:
    """A target's folder as it should be, which is read without an error."""
    target, folder = TARGETS[index], work / f"healthy{index}"
    folder.mkdir()
    target.make(folder)
    kind, said = _outcome(target.read, folder)
    if kind != "accepted":
        raise AssertionError(f"a healthy {target.name} is {kind}: {said}")
    shutil.rmtree(folder)
    folder.mkdir()
    target.make(folder)
    return folder


def serve(numbers: Sequence[int], seed: int) -> None:
    """Read the files of some numbers, and print an outcome a line."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library in Rust prints past Python
    warnings.simplefilter("ignore")
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as work,
        open(os.devnull, "w") as null,
        redirect_stdout(null),
        redirect_stderr(null),
    ):
        os.environ |= {"LADDER_EVAL_CACHE": str(Path(work) / "cache"), "HF_HUB_OFFLINE": "1"}
        os.environ["HF_DATASETS_CACHE"] = str(Path(work) / "datasets")
        for number in numbers:
            _healthy(number % len(TARGETS), Path(work))
        limit = _resident("VmSize") + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in numbers:
            found = read_one(number, seed, Path(work))
            out.write(json.dumps({n: getattr(found, n) for n in Outcome.__slots__}) + "\n")
            out.flush()


# -------------------------------------------------------------- their supervisor


def outcomes(numbers: Sequence[int], seed: int) -> Iterator[Outcome]:
    """The outcome of each file, in processes that are replaced when they die."""
    left = list(numbers)
    while left:
        for outcome in _of_one_process(tuple(left), seed):
            left.remove(outcome.number)
            yield outcome


def _of_one_process(numbers: Sequence[int], seed: int) -> Iterator[Outcome]:
    command = [sys.executable, __file__, "--serve", ",".join(map(str, numbers)), f"--seed={seed}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    left = iter(numbers)
    answered = False
    try:
        while line := _next_line(process, PATIENCE if answered else 3 * PATIENCE):
            answered, found = True, Outcome(**json.loads(line))
            next(left)
            yield found
        number = next(left, None)
        if number is None:
            return
        code = process.poll()
        kind = "crash" if code is not None else "hang"
        if _resident("VmRSS", process.pid) > MOST_RESIDENT:
            kind = "memory"
        if not answered:
            raise SystemExit(f"the process that reads ended with {code} before the first file")
        yield Outcome(
            number=number,
            target=TARGETS[number % len(TARGETS)].name,
            mutation="",
            kind=kind,
            said=f"the process ended with {code}",
            peak_bytes=0,
            seconds=0.0,
        )
    finally:
        process.kill()
        process.wait()


def _next_line(process: "subprocess.Popen[str]", seconds: float) -> str:
    """What it prints next; nothing if it has ended, takes too long or too much memory."""
    deadline = monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout or sys.stdin, selectors.EVENT_READ)
        while monotonic() < deadline:
            if selector.select(0.05) and process.stdout:
                return process.stdout.readline()
            if _resident("VmRSS", process.pid) > MOST_RESIDENT:
                return ""
    return ""


# ------------------------------------------------------------------- the report


def table(found: Sequence[Outcome]) -> Iterator[str]:
    """Counts by kind of file, as Markdown."""
    yield f"| file | files | {' | '.join((*GOOD, *BAD))} | MB at most | seconds at most |"
    yield "|---|" + "--:|" * (len(GOOD) + len(BAD) + 3)
    names = list(dict.fromkeys(target.name for target in TARGETS))
    for name in (*names, ""):
        own = [each for each in found if name in ("", each.target)]
        counts = Counter(each.kind for each in own)
        cells = [str(len(own)), *(str(counts[kind]) for kind in (*GOOD, *BAD))]
        cells += [f"{max(each.peak_bytes for each in own) / 1e6:.0f}"]
        cells += [f"{max(each.seconds for each in own):.1f}"]
        yield f"| {name or 'all'} | {' | '.join(cells)} |"


def complaints(found: Sequence[Outcome]) -> Iterator[str]:
    """Each bad outcome, with the end of what it said."""
    for each in found:
        if each.kind in BAD:
            yield f"\n#{each.number} {each.target}, {each.mutation}: {each.kind}"
            yield each.said[-LONGEST:]


def main() -> None:
    """Read the options, and all files or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the file of this number alone")
    parser.add_argument("--keep", type=Path, help="a folder for --only's file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve([int(number) for number in given.serve.split(",")], given.seed)
        return
    if given.only is not None and given.keep:
        given.keep.mkdir(parents=True)
        sys.stdout.write(f"{read_one(given.only, given.seed, given.keep)}\n")
        return
    numbers = range(given.files)
    # A process makes the healthy folders of its own kinds of files once.
    order = sorted(numbers, key=lambda number: number % len(TARGETS))
    found = list(outcomes(order, given.seed))
    sys.stdout.writelines(f"{line}\n" for line in (*table(found), *complaints(found)))
    if any(each.kind in BAD for each in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
