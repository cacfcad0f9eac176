"""A candidate's mean difference over tasks, from a run's result alone.

It is the difference that `results.endpoint` tests, each task weighing the same; here with the
intervals that the run recorded, without a margin, and without spending a look at a claim.
"""

import math
from dataclasses import dataclass

from ladder_eval.results.averages import average_tasks
from ladder_eval.results.endpoint import stratified
from ladder_eval.results.records import Comparison, RunResult
from ladder_eval.results.statistics import Interval

__all__ = ["MeanDifference", "candidates", "mean_difference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanDifference:
    """The mean of the tasks' differences, each weighing the same (macro).

    Attributes:
        candidate: The candidate's name.
        baseline: The baseline's name.
        tasks: The tasks that it is of, those of the suite's average that were compared.
        missing: Tasks of the average that weren't.
        n: Pairs of documents.
        difference: Candidate minus baseline, a fraction.
        interval: Its interval, by square-and-add of the tasks' intervals.
        confidence: The interval's coverage, such as 0.95.
    """

    candidate: str
    baseline: str
    tasks: tuple[str, ...]
    missing: tuple[str, ...]
    n: int
    difference: float
    interval: Interval
    confidence: float

    @property
    def decided(self) -> bool:
        """Whether the interval excludes a difference of zero."""
        return not self.interval.low <= 0 <= self.interval.high


def candidates(result: RunResult) -> tuple[str, ...]:
    """Names of the models that were compared with the baseline, in order."""
    return tuple(dict.fromkeys(each.candidate for each in result.comparisons))


def mean_difference(result: RunResult, candidate: str) -> MeanDifference | None:
    """A candidate's mean difference; None if no task whose metric is a fraction was compared."""
    names = average_tasks(result)
    compared = {each.task: each for each in result.comparisons if each.candidate == candidate}
    found = [compared[name] for name in names if name in compared]
    if not found:
        return None
    means = [each.difference for each in found]
    _, interval = stratified(means, list(map(_interval, found)), [1.0] * len(found))
    return MeanDifference(
        candidate=candidate,
        baseline=found[0].baseline,
        tasks=tuple(each.task for each in found),
        missing=tuple(name for name in names if name not in compared),
        n=sum(each.n for each in found),
        difference=math.fsum(means) / len(means),
        interval=interval,
        confidence=found[0].confidence,
    )


def _interval(found: Comparison) -> Interval:
    return Interval(low=found.low, high=found.high, method=found.method)
