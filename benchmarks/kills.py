"""Kills random processes of a run at random moments, goes on, and compares with a run left alone.

    python benchmarks/kills.py --kills 50 --out kills -- --tasks arc_easy,gsm8k_cot --tp 2

What stands after `--` are options of `ladder-eval run`. One run is left alone first. Then runs are
begun, a process of each is killed by SIGKILL at a moment drawn from the time that the first one
took, and the run is gone on with, by the same command and by `--resume` in turn, until it ends by
itself; then another is begun, until there have been enough kills. Each that ends has to have the
same scores, comparisons, samples and answers as the one left alone, to the last bit.

To count what was computed more than once, each rank notes each batch that it scores and each text
that it writes in a file as the computing begins, before the answers can be on disk; those of each
replica's first rank are counted. At most one begun batch may be lost to a kill, and of texts those
that are written at a time; of replicas, as many of each. Prints JSON. Needs Linux.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from ladder_eval.results.requests import read_answers

HELPER = "helper"
_BEGUN = "LADDER_EVAL_BEGUN"
_BATCH, _TEXT = "batch", "text"
# What a worker's command has in it: this module, as `noting` lets it be started.
_WORKER = b"-m\0kills\0"
# One failure ends all within 15 seconds; a busy machine gets twice that.
_END_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """One kill.

    Attributes:
        after: Seconds from the start of the process that was gone on with.
        victim: The driver, a worker, or a helper that either had started.
        code: Exit code of the driver; negative for a signal.
        seconds: From the kill to the end of all processes.
        said: The driver's last line on standard error.
        answers: Answers on disk afterwards.
        by: How the run is gone on with: `same command` or `--resume`.
    """

    after: float
    victim: str
    code: int
    seconds: float
    said: str
    answers: int
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run that has ended, whatever befell it.

    Attributes:
        kills: The kills that it survived.
        equal: Whether scores, comparisons, tasks, samples and answers are those of the one left
            alone.
        differing: Answers that aren't.
        batches_again: Batches that began to be scored more often than in the one left alone.
        texts_again: The same of texts that are written.
        answered_twice: Answers that were on disk and were computed once more.
    """

    kills: tuple[Kill, ...]
    equal: bool
    differing: int
    batches_again: int
    texts_again: int
    answered_twice: int


def main() -> None:
    """Kill, go on, compare, and print what was found; exit code 1 if anything isn't as it was."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    clock = time.monotonic()
    alone = given.out / "alone"
    code = start(alone, given.options).wait()
    if code:
        raise SystemExit(f"The run that is left alone ended with code {code}.")
    whole = time.monotonic() - clock
    rng, runs = random.Random(given.seed), list[Run]()
    while (left := given.kills - sum(len(run.kills) for run in runs)) > 0:
        place = given.out / f"killed-{len(runs) + 1}"
        kills = tuple(killed(place, given.options, whole, left, rng))
        runs.append(compared(alone, place, kills))
        say(asdict(runs[-1]))
    found = summary(runs, whole, alone)
    say(found)
    sys.exit(not found["sound"])


def say(what: dict[str, Any]) -> None:
    """Print as JSON."""
    sys.stdout.write(json.dumps(what, indent=1) + "\n")
    sys.stdout.flush()


def summary(runs: Sequence[Run], whole: float, alone: Path) -> dict[str, Any]:
    """All kills together."""
    kills = [kill for run in runs for kill in run.kills]
    again = sum(run.batches_again for run in runs)
    texts = sum(run.texts_again for run in runs)
    twice = sum(run.answered_twice for run in runs)
    equal = sum(run.equal for run in runs)
    replicas = int(of_model(alone, "dp_size"))
    return {
        "kills": len(kills),
        "victims": Counter(kill.victim for kill in kills),
        "runs": len(runs),
        "equal": equal,
        "answers_of_a_run": len(answers(alone)),
        "differing": sum(run.differing for run in runs),
        "batches_of_a_run": begun(alone, _BATCH),
        "texts_of_a_run": begun(alone, _TEXT),
        "batches_again": again,
        "texts_again": texts,
        "answered_twice": twice,
        "seconds_alone": round(whole, 1),
        "longest_end": max(kill.seconds for kill in kills),
        "sound": equal == len(runs)
        and again <= len(kills) * replicas
        and texts <= len(kills) * replicas * int(of_model(alone, "batch_size"))
        and not twice,
    }


def killed(
    place: Path, options: Sequence[str], whole: float, most: int, rng: random.Random
) -> Iterator[Kill]:
    """Kill a run at random moments until it has ended by itself, or was killed often enough."""
    for number in range(most):
        by = "--resume" if number % 2 and folder_of(place) else "same command"
        process = start(place, options, resume=by == "--resume")
        moment, begun = rng.uniform(0, whole), time.monotonic()
        while time.monotonic() - begun < moment and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:
            require_end(process)
            return
        found = kill(process, rng)
        if found is None:
            require_end(process)
            return
        victim, code, seconds = found
        yield Kill(
            after=round(moment, 2),
            victim=victim,
            code=code,
            seconds=round(seconds, 2),
            said=last_line(place),
            answers=len(answers(place)),
            by=by,
        )
    require_end(start(place, options))


def kill(process: subprocess.Popen[bytes], rng: random.Random) -> tuple[str, int, float] | None:
    """Kill one of a run's processes, and wait until all have ended; None if it had ended itself.

    Returns:
        What was killed, the driver's exit code, and the seconds until the end of all.
    """
    every = [process.pid, *descendants(process.pid)]
    begun, victim = time.monotonic(), rng.choice(every)
    name = "driver" if victim == process.pid else kind(victim)
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
        code = process.wait(None if name == HELPER else _END_SECONDS)
        while any(map(is_alive, every)):
            if time.monotonic() - begun > _END_SECONDS:
                raise SystemExit(f"Of the processes {every}, some outlive {victim}, a {name}.")
            time.sleep(0.02)
        ended_itself = name == "driver" and code != -signal.SIGKILL
        return None if ended_itself else (name, code, time.monotonic() - begun)
    return None


def kind(pid: int) -> str:
    """What a process below the driver is: a rank, or something that it asked for."""
    command = Path(f"/proc/{pid}/cmdline")
    return "worker" if command.exists() and _WORKER in command.read_bytes() else HELPER


def last_line(place: Path) -> str:
    """What the last process of a place said last."""
    lines = (place / "stderr").read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def start(place: Path, options: Sequence[str], *, resume: bool = False) -> subprocess.Popen[bytes]:
    """Start or go on with the run of a place."""
    place.mkdir(parents=True, exist_ok=True)
    what = ["--output-dir", str(place / "runs"), *options]
    if resume:
        what = ["--resume", str(folder_of(place))]
    with (place / "stderr").open("wb") as err, (place / "stdout").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, __file__, "run", *what],
            stdout=out,
            stderr=err,
            env=os.environ | {_BEGUN: str((place / "begun").absolute())},
        )


def require_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a run that isn't killed any more."""
    if code := process.wait():
        raise SystemExit(f"A run that went on ended with code {code}.")


def folder_of(place: Path) -> Path | None:
    """The run's folder, once a start is recorded there."""
    return next((file.parent for file in place.glob("runs/*/starts.jsonl")), None)


def answers(place: Path) -> dict[tuple[str, str], Any]:
    """All answers of a run, by the log's name and key."""
    logs = place.glob("runs/*/requests/*.jsonl")
    return {(log.stem, key): answer for log in logs for key, answer in read_answers(log).items()}


def begun(place: Path, word: str) -> int:
    """How often the computing of a batch or a text began, by the first rank of a replica."""
    lines = (line.split() for line in (place / "begun").read_text().splitlines())
    tp_size = int(of_model(place, "tp_size"))
    return sum(what == word and int(rank) % tp_size == 0 for what, rank in lines)


def of_model(place: Path, name: str) -> Any:
    """What the result of a run says of its first model."""
    (file,) = place.glob("runs/*/results.json")
    return json.loads(file.read_text())["models"][0][name]


def compared(alone: Path, place: Path, kills: tuple[Kill, ...]) -> Run:
    """What a run that was killed has in common with the one that was left alone."""
    logs = place.glob("runs/*/requests/*.jsonl")
    lines = [(log.stem, json.loads(line)["key"]) for log in logs for line in log.open()]
    here, there = answers(alone), answers(place)
    differing = sum(here.get(key) != there.get(key) for key in {*here, *there})
    return Run(
        kills=kills,
        equal=not differing and scored(alone) == scored(place),
        differing=differing,
        batches_again=begun(place, _BATCH) - begun(alone, _BATCH),
        texts_again=begun(place, _TEXT) - begun(alone, _TEXT),
        answered_twice=len(lines) - len(set(lines)),
    )


def scored(place: Path) -> tuple[str, bytes]:
    """What a run has found: the records without times, as text, and the samples, as bytes."""
    (file,) = place.glob("runs/*/results.json")
    result = json.loads(file.read_text())
    kept = {name: result[name] for name in ("run_id", "tasks", "scores", "comparisons")}
    return json.dumps(kept), (file.parent / "samples.parquet").read_bytes()


def descendants(pid: int) -> list[int]:
    """Processes below one."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        children = [int(child) for child in file.read_text().split()]
        found += [each for child in children for each in (child, *descendants(child))]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet doesn't."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def noting() -> None:
    """Be `ladder-eval` or one of its workers, with each batch and text noted as it is begun."""
    from ladder_eval import execution  # noqa: PLC0415 - imports torch
    from ladder_eval.__main__ import app  # noqa: PLC0415 - imports torch
    from ladder_eval.engine import worker  # noqa: PLC0415 - imports torch
    from ladder_eval.engine.schedule import Schedule  # noqa: PLC0415 - imports torch
    from ladder_eval.engine.scoring import BatchScorer  # noqa: PLC0415 - imports torch

    file = os.open(os.environ[_BEGUN], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for owner, name, word in ((BatchScorer, "score", _BATCH), (Schedule, "admit", _TEXT)):
        setattr(owner, name, noted(getattr(owner, name), word, file))
    if "RANK" in os.environ:
        worker.main(sys.argv[1])
    else:
        execution._WORKER = Path(__file__).stem
        app(sys.argv[1:])


def noted(compute: Callable[..., Any], word: str, file: int) -> Callable[..., Any]:
    """The same computation, which notes that it begins, and on which rank."""

    @wraps(compute)
    def both(*what: Any) -> Any:
        os.write(file, f"{word} {os.environ.get('RANK', '0')}\n".encode())
        return compute(*what)

    return both


if __name__ == "__main__":
    noting() if _BEGUN in os.environ else main()
