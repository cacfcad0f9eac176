"""What may be claimed of a candidate on each task, corrected for there being several.

These claims are secondary to the one in `results.endpoint`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from scipy import stats

from ladder_eval.results.differences import (
    Differences,
    PValue,
    difference_interval,
    differences,
    holm,
    p_value,
)
from ladder_eval.results.pairing import Pair, by_task
from ladder_eval.results.records import POOLED, Comparison
from ladder_eval.results.resampling import bca_interval
from ladder_eval.results.statistics import Interval

__all__ = ["LEVEL", "POWER", "TaskClaim", "detectable", "reach", "task_claims"]

LEVEL: Final = 0.05
"""Probability of a wrong PASS at the margin: the level of a one-sided test."""

POWER: Final = 0.8
"""Probability of finding what is called detectable, or of a PASS with the documents needed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskClaim:
    """One task of a comparison, with what is known beside its interval.

    Attributes:
        comparison: Values, difference, interval and counts. Where sources are shared, the interval
            is widened to them.
        sources: Independent sources of documents; as many as documents where nothing is shared.
        stderr: Standard error of the difference over documents (of perplexities, of the logarithm
            of the ratio); None where there's no spread.
        source_stderr: The same over sources; None where nothing is shared.
        p_value: The p-value of no difference, and its test.
        adjusted_p: Holm's p-value among the tasks.
        bca: Bootstrap interval of the difference (of perplexities, of the ratio); None for right
            and wrong, and where there's no spread.
        detectable: The smallest true drop that a one-sided 5 % test finds with a power of 80 %; of
            perplexities the smallest ratio above 1.
    """

    comparison: Comparison
    sources: int
    stderr: float | None
    source_stderr: float | None
    p_value: PValue
    adjusted_p: float
    bca: Interval | None
    detectable: float


def task_claims(compared: Sequence[Comparison], pairs: Sequence[Pair]) -> tuple[TaskClaim, ...]:
    """All tasks of a comparison.

    Args:
        compared: What `compare` returned for these pairs; the pooled comparison is no task.
        pairs: What `pair` returned.
    """
    tasks, groups = [each for each in compared if each.task != POOLED], by_task(pairs)
    found = [differences(groups[each.task]) for each in tasks]
    tests = [p_value(each) for each in found]
    adjusted = holm([each.value for each in tests])
    return tuple(_task_claim(*each) for each in zip(tasks, found, tests, adjusted, strict=True))


def _task_claim(
    compared: Comparison, found: Differences, test: PValue, adjusted: float
) -> TaskClaim:
    ratio, drop = compared.ratio is not None, detectable(found.planning_stderr)
    bca = None if found.binary else bca_interval(found.values, found.weights)
    if ratio and bca is not None:
        bca = replace(bca, low=math.exp(bca.low), high=math.exp(bca.high))
    kept = ratio or (found.binary and found.sources is None)
    return TaskClaim(
        comparison=compared if kept else _with_interval(compared, difference_interval(found)),
        sources=found.clusters,
        stderr=found.stderr,
        source_stderr=found.source_stderr,
        p_value=test,
        adjusted_p=adjusted,
        bca=bca,
        detectable=math.exp(drop) if ratio else drop,
    )


def _with_interval(compared: Comparison, interval: Interval) -> Comparison:
    low, high = interval.low, interval.high
    decided = not low <= 0 <= high
    return replace(compared, low=low, high=high, method=interval.method, decided=decided)


def detectable(stderr: float) -> float:
    """The true drop that a one-sided test at `LEVEL` finds with `POWER`.

    (z(0.95) + z(0.8)) standard errors, 2.49 of them: the usual normal approximation (Chow, Shao and
    Wang, Sample Size Calculations in Clinical Research, 2008, 3.1; for evaluations Miller,
    arXiv:2411.00640, 5).
    """
    return reach(LEVEL) * stderr


def reach(level: float) -> float:
    """z(1 - level) + z(0.8): standard errors from a bound at which a test finds what is true."""
    return float(stats.norm.isf(level) + stats.norm.ppf(POWER))
