"""A file of samples from end to end: verdicts as they fall, and then the scores."""

import json
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from ladder_eval.harness.code.ground_truth import GroundTruth
from ladder_eval.harness.code.judging import Verdict, judge
from ladder_eval.harness.code.problems import Problems
from ladder_eval.harness.code.samples import Sample
from ladder_eval.harness.code.sandbox import Sandbox
from ladder_eval.harness.code.scoring import Scores, score
from ladder_eval.results.files import atomic_write
from ladder_eval.results.requests import RequestLog, request_key

__all__ = ["RESULT_NAME", "VERDICTS_NAME", "Checked", "check", "run_name", "verdicts"]

CODE_VERSION: Final = 1
"""Raised by whatever may change a verdict, so that old ones aren't taken for new ones."""

VERDICTS_NAME: Final = "verdicts.jsonl"
RESULT_NAME: Final = "code.json"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file of samples with its verdicts.

    Attributes:
        problems: What was answered.
        sandbox: Where it ran.
        verdicts: Each sample's.
        scores: Of all of them.
    """

    problems: Problems
    sandbox: Sandbox
    verdicts: Sequence[tuple[Sample, Verdict]]
    scores: Scores

    def plain(self) -> dict[str, Any]:
        """As JSON: the scores, their conditions, and the verdict on every sample."""
        return {
            "dataset": self.problems.dataset,
            "data_sha256": self.problems.sha256,
            **self.scores.plain(),
            "sandbox": self.sandbox.kind,
            "limits": asdict(self.sandbox.limits),
            "python": platform.python_version(),
            "evalplus": version("evalplus"),
            "verdicts": [
                {"task_id": sample.task_id, "sample": sample.place, **verdict.plain()}
                for sample, verdict in self.verdicts
            ],
        }


def run_name(path: Path, samples: Sequence[Sample], problems: Problems, sandbox: Sandbox) -> str:
    """The name of a run's folder: the same samples, tests and sandbox have the same."""
    keys = [_key(sample, problems, sandbox) for sample in samples]
    return f"code-{problems.dataset}-{path.stem}-{request_key(*keys)[:8]}"


def check(
    samples: Sequence[Sample],
    problems: Problems,
    sandbox: Sandbox,
    *,
    folder: Path,
    workers: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Checked:
    """Judge samples as `verdicts` does, and write the result into the same folder.

    Raises:
        DataError: If a canonical solution doesn't run.
        RecordError: If the folder can't be written.
    """
    found = verdicts(samples, problems, sandbox, folder=folder, workers=workers, advance=advance)
    return _finish(list(zip(samples, found, strict=True)), problems, sandbox, folder)


def verdicts(
    samples: Sequence[Sample],
    problems: Problems,
    sandbox: Sandbox,
    *,
    folder: Path,
    workers: int,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Verdict]:
    """The verdict on each sample, several at a time.

    Each is on disk before it counts, and is not computed twice. A program that took too long runs
    again at the end, with no other beside it.

    Args:
        samples: Programs.
        problems: What they answer.
        sandbox: Where they run.
        folder: Where verdicts are kept.
        workers: Programs that run at a time.
        advance: Called with the number of samples that have got their verdict.

    Raises:
        DataError: If a canonical solution doesn't run.
        RecordError: If the folder can't be written.
    """
    keys = [_key(sample, problems, sandbox) for sample in samples]
    with RequestLog(folder / VERDICTS_NAME) as log:
        wanted = {key: s for key, s in zip(keys, samples, strict=True) if key not in log}
        advance(len(samples) - len(wanted))
        truths = GroundTruth(problems, sandbox)

        def verdict_on(sample: Sample) -> Verdict:
            problem = problems.by_id[sample.task_id]
            return judge(problem, sample.code, truths.of(problem), sandbox)

        late = []
        for key, verdict in _all(wanted.items(), verdict_on, workers):
            if verdict.timed_out:
                late.append(key)
            else:
                log.append({key: verdict.plain()})
                advance(1)
        for key in late:
            log.append({key: verdict_on(wanted[key]).once_more().plain()})
            advance(1)
        return [Verdict(**cast("dict[str, Any]", log.get(key))) for key in keys]


def _finish(
    found: Sequence[tuple[Sample, Verdict]], problems: Problems, sandbox: Sandbox, folder: Path
) -> Checked:
    by_problem: defaultdict[str, list[Verdict]] = defaultdict(list)
    for sample, verdict in found:
        by_problem[sample.task_id].append(verdict)
    checked = Checked(problems, sandbox, found, score(by_problem, len(problems.by_id)))
    atomic_write(folder / RESULT_NAME, json.dumps(checked.plain(), indent=1) + "\n")
    return checked


def _key(sample: Sample, problems: Problems, sandbox: Sandbox) -> str:
    """SHA-256 of all that a verdict depends on."""
    limits = json.dumps(asdict(sandbox.limits))
    python = platform.python_version()
    where = (sandbox.kind, limits, python, version("evalplus"))
    return request_key(CODE_VERSION, problems.sha256, sample.task_id, sample.code, *where)


def _all(
    wanted: Iterable[tuple[str, Sample]], verdict_on: Callable[[Sample], Verdict], workers: int
) -> Iterable[tuple[str, Verdict]]:
    """Verdicts in the order in which they fall. What hasn't begun when one fails never begins."""
    pool = ThreadPoolExecutor(workers)
    try:
        running: dict[Future[Verdict], str] = {
            pool.submit(verdict_on, sample): key for key, sample in wanted
        }
        for future in as_completed(running):
            yield running.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)
