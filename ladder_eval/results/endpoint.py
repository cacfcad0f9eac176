"""The primary endpoint: the difference of two models' means over tasks, against a margin.

It is declared before anything is seen: the mean of the tasks' differences in their headline
metrics, each task weighing the same. It says whether the candidate is worse by more than a margin.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ladder_eval.results.claims import LEVEL, detectable, reach
from ladder_eval.results.differences import difference_interval, differences
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.pairing import Pair, by_task
from ladder_eval.results.statistics import Interval

__all__ = [
    "Endpoint",
    "Size",
    "Verdict",
    "documents_needed",
    "endpoint",
    "endpoint_tasks",
    "stratified",
    "verdict_of",
]

Verdict = str
"""PASS, FAIL or INCONCLUSIVE."""

METHOD: Final = "square-and-add of the tasks' intervals"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How many documents a task has.

    Attributes:
        documents: Evaluated ones.
        available: All that its benchmark has.
    """

    documents: int
    available: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """The difference of two models' means over tasks, tested against a margin.

    Attributes:
        tasks: The tasks that it is the mean of.
        difference: The mean of their differences, each task weighing the same (macro).
        stderr: sqrt(sum(se²)) / k; a task without spread adds the guarded standard error.
        interval: The interval whose ends are each at the one-sided level of this look.
        micro: The same over documents: each task weighs as much as it has documents.
        micro_interval: Its interval.
        level: The one-sided level of either end.
        margin: The drop that is tolerated, a fraction.
        verdict: PASS if the interval lies above minus the margin, FAIL if it lies below,
            INCONCLUSIVE if it holds it.
        detectable: The smallest true drop that is found, as `TaskClaim.detectable`.
        needed: Documents a task at most (the `--limit`) with which a candidate that is no worse
            would PASS with a power of 80 %; None where its benchmarks don't have as many.
        needed_documents: The same over all tasks.
    """

    tasks: tuple[str, ...]
    difference: float
    stderr: float
    interval: Interval
    micro: float
    micro_interval: Interval
    level: float
    margin: float
    verdict: Verdict
    detectable: float
    needed: int | None
    needed_documents: int | None


def endpoint_tasks(pairs: Sequence[Pair], tasks: Sequence[str]) -> tuple[str, ...]:
    """The tasks among `tasks` whose metric is a fraction, which the endpoint is the mean of."""
    fractions = {name for name, each in by_task(pairs).items() if is_fraction(each[0].metric)}
    return tuple(name for name in tasks if name in fractions)


def endpoint(
    pairs: Sequence[Pair],
    tasks: Sequence[str],
    sizes: Mapping[str, Size],
    *,
    margin: float,
    level: float = LEVEL,
    next_level: float = LEVEL,
) -> Endpoint | None:
    """The primary endpoint over tasks whose metric is a fraction; None if there are none.

    Args:
        pairs: What `pair` returned.
        tasks: The tasks of the mean; those without pairs, or with perplexities, are left out.
        sizes: Documents of each task.
        margin: The drop that is tolerated, a fraction.
        level: The one-sided level of the test.
        next_level: That of a test with more documents.
    """
    groups = by_task(pairs)
    found = {name: differences(groups[name]) for name in endpoint_tasks(pairs, tasks)}
    if not found:
        return None
    each, own = list(found.values()), [sizes[name] for name in found]
    intervals = [difference_interval(one, 1 - 2 * level) for one in each]
    means, stderrs = [one.mean for one in each], [one.planning_stderr for one in each]
    difference, interval = stratified(means, intervals, [1.0] * len(each))
    micro, micro_interval = stratified(means, intervals, [len(one.values) for one in each])
    stderr = math.hypot(*stderrs) / len(each)
    needed = documents_needed(stderrs, own, margin, next_level)
    return Endpoint(
        tasks=tuple(found),
        difference=difference,
        stderr=stderr,
        interval=interval,
        micro=micro,
        micro_interval=micro_interval,
        level=level,
        margin=margin,
        verdict=verdict_of(interval, -margin),
        detectable=detectable(stderr),
        needed=needed,
        needed_documents=needed and sum(min(needed, size.available) for size in own),
    )


def stratified(
    means: Sequence[float], intervals: Sequence[Interval], weights: Sequence[float]
) -> tuple[float, Interval]:
    """The weighted mean of independent strata, and its interval by square-and-add.

    With shares c = w / sum(w), the lower end is sum(c x) - sqrt(sum(c² (x - low)²)), the upper one
    likewise (Newcombe, Statistics in Medicine 17, 1998; Zou and Donner, Statistics in Medicine 27,
    2008). With intervals of x ± z se it is the usual stratified one, z sqrt(sum(c² se²)). Those of
    proportions near none are asymmetric and wider, which it keeps.
    """
    c = np.asarray(weights, dtype=np.float64) / sum(weights)
    x = np.asarray(means)
    low, high = (np.asarray([getattr(each, end) for each in intervals]) for end in ("low", "high"))
    mean = float(c @ x)
    down, up = (float(np.linalg.norm(c * distance)) for distance in (x - low, high - x))
    method = METHOD if len(means) > 1 else intervals[0].method
    return mean, Interval(low=mean - down, high=mean + up, method=method)


def verdict_of(interval: Interval, bound: float) -> Verdict:
    """PASS above the bound, FAIL below it, INCONCLUSIVE if the interval holds it."""
    if interval.low > bound:
        return "PASS"
    return "FAIL" if interval.high < bound else "INCONCLUSIVE"


def documents_needed(
    stderrs: Sequence[float], sizes: Sequence[Size], margin: float, level: float = LEVEL
) -> int | None:
    """Documents a task with which a true difference of zero gives PASS with `POWER`.

    The variance of a task's difference is s² / n, with s² = n se² as measured. Needed is the least
    common limit L with sqrt(sum(s² / min(L, available))) / k <= margin / (z(1 - level) + z(0.8)).
    None if all documents there are don't suffice.
    """
    wanted = (len(stderrs) * margin / reach(level)) ** 2
    spreads = [stderr**2 * size.documents for stderr, size in zip(stderrs, sizes, strict=True)]

    def suffices(limit: int) -> bool:
        n = [min(limit, size.available) for size in sizes]
        return sum(spread / each for spread, each in zip(spreads, n, strict=True)) <= wanted

    low, high = 0, max(size.available for size in sizes)
    if not suffices(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
