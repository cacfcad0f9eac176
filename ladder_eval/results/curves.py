"""A family of models as a curve of accuracy over time, and what is read off it between its points.

The curve joins the measured points, the baseline among them, by straight lines over time as a share
of the baseline's (1 / speed-up). A layer more with a ladder residual saves about as much time as
the one before it, so that depths between measured ones lie on such lines as far as time goes; that
accuracy does, too, is an assumption. Nothing is read beyond the fastest or slowest point.

What is read has the interval of joint draws. Each draw takes rounds anew, for all arms together,
and documents anew, for all arms together, task by task; then the whole curve is read again. What
slows all arms of a round, and what makes a document hard for all, so cancels as it does in the
measurement. Times and answers are drawn independently of each other, since they are measured so.
The bootstrap is Efron's (1979), its percentiles are stretched for small samples as Hesterberg's
(The American Statistician 69, 2015).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from ladder_eval.results.pairing import Pair, by_task

__all__ = [
    "DRAWS",
    "Curve",
    "Reading",
    "difference_at",
    "difference_draws",
    "read",
    "speedup_at",
    "speedup_draws",
]

Floats = npt.NDArray[np.float64]

DRAWS: Final = 2000
"""Number of draws that an interval is of."""

_CONFIDENCE: Final = 0.95
_SEED: Final = 0
_CHUNK: Final = 100  # draws at a time, to bound the memory that many documents take


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A number that was read off a curve, with the ends of its 95 % interval.

    Attributes:
        value: What the measured points say.
        low: Lower end; None where too many draws left the measured range on that side.
        high: Upper end; None likewise.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Points of a family, as measured and in every draw; the baseline is the first one.

    Attributes:
        arms: Names of the points.
        speedups: Over the baseline, [1 + draws, arms]; the first row is measured.
        differences: Mean differences from the baseline, likewise.
    """

    arms: tuple[str, ...]
    speedups: Floats
    differences: Floats

    def of(self, arms: Sequence[str]) -> "Curve":
        """The curve through some of the points, in the given order."""
        columns = [self.arms.index(arm) for arm in arms]
        return Curve(
            arms=tuple(arms),
            speedups=self.speedups[:, columns],
            differences=self.differences[:, columns],
        )

    def differences_at(self, speedups: Sequence[float]) -> list[float]:
        """`difference_at` of each row, each read at its own speed-up."""
        rows = zip(self.speedups, self.differences, speedups, strict=True)
        return [difference_at(*row) for row in rows]

    def speedups_at(self, differences: Sequence[float]) -> list[float]:
        """`speedup_at` of each row, each read at its own difference."""
        rows = zip(self.speedups, self.differences, differences, strict=True)
        return [speedup_at(*row) for row in rows]


def read(values: Sequence[float]) -> Reading | None:
    """A reading of every row of a curve; None if the first, the measured one, isn't finite.

    A row of NaN says nothing, and counts as far out on both sides; an infinite one on its own.
    """
    every = np.asarray(values, dtype=np.float64)
    if not math.isfinite(every[0]):
        return None
    tail, drawn = (1 - _CONFIDENCE) / 2, every[1:]
    ends = (
        float(np.quantile(np.where(np.isnan(drawn), out, drawn), q, method="inverted_cdf"))
        for out, q in ((-np.inf, tail), (np.inf, 1 - tail))
    )
    low, high = (end if math.isfinite(end) else None for end in ends)
    return Reading(value=float(every[0]), low=low, high=high)


def difference_at(speedups: Floats, differences: Floats, speedup: float) -> float:
    """The difference that one row of a curve has at a speed-up; NaN outside of its range.

    Args:
        speedups: Of the points, [arms].
        differences: Of the points, [arms].
        speedup: Where the curve is read.
    """
    times = 1 / speedups
    order = np.lexsort((differences, times))
    x, y = times[order], differences[order]
    if not x[0] <= 1 / speedup <= x[-1]:
        return math.nan
    return float(np.interp(1 / speedup, x, y))


def speedup_at(speedups: Floats, differences: Floats, difference: float) -> float:
    """The speed-up at which one row of a curve first falls to a difference, from the baseline on.

    Where a faster point is the better one by chance, this is the cautious side: nothing beyond the
    first fall counts. Infinite if even the fastest point isn't as low; minus infinity if the
    baseline itself is lower, so that nothing measured is slow enough. Arguments are as for
    `difference_at`; the baseline is the point of speed-up 1.
    """
    if difference > 0:
        return -math.inf
    faster = speedups >= 1
    order = np.lexsort((-differences[faster], speedups[faster]))
    x, y = 1 / speedups[faster][order], differences[faster][order]
    low = np.flatnonzero(y <= difference)
    if not len(low):
        return math.inf
    at = int(low[0])
    if at == 0 or y[at] == difference:
        return float(1 / x[at])
    share = (y[at - 1] - difference) / (y[at - 1] - y[at])
    return float(1 / (x[at - 1] + share * (x[at] - x[at - 1])))


def speedup_draws(baseline: Floats, candidates: Floats, draws: int = DRAWS) -> Floats:
    """Median speed-ups, as measured and in draws of rounds, [1 + draws, 1 + candidates].

    Args:
        baseline: The baseline's seconds, [rounds].
        candidates: The candidates' seconds in the same rounds, [rounds, candidates].
        draws: How many.
    """
    ratios = np.column_stack((np.ones(len(baseline)), baseline[:, None] / candidates))
    rounds = len(ratios)
    chosen = np.random.default_rng(_SEED).integers(rounds, size=(draws, rounds))
    measured = np.median(ratios, axis=0)
    drawn = np.median(ratios[chosen], axis=1)  # [draw, arm]
    stretched = measured * (drawn / measured) ** _stretch(rounds)
    return np.vstack((measured, stretched))


def difference_draws(pairs: Sequence[Sequence[Pair]], draws: int = DRAWS) -> Floats:
    """Mean differences over tasks, as measured and in draws of documents, [1 + draws, 1 + arms].

    As for a single difference, a document that was gained and one that was lost are added to each
    task's spread, so that a task in which hardly anything changed doesn't look certain. Where
    documents share sources, sources are drawn.

    Args:
        pairs: Each candidate's pairs with the baseline, about the same documents in one order.
        draws: How many.
    """
    groups = [by_task(each) for each in pairs]
    rng = np.random.default_rng(_SEED)
    found = [_task_draws([group[task] for group in groups], draws, rng) for task in groups[0]]
    mean = np.mean(found, axis=0)
    return np.column_stack((np.zeros(1 + draws), mean))


def _task_draws(pairs: Sequence[Sequence[Pair]], draws: int, rng: np.random.Generator) -> Floats:
    """One task's differences, [1 + draws, arms]."""
    values = np.asarray([[one.candidate - one.baseline for one in each] for each in pairs]).T
    weights = np.asarray([each.weight for each in pairs[0]])
    totals, sizes = _by_source(values * weights[:, None], weights, [p.source for p in pairs[0]])
    measured = totals.sum(axis=0) / sizes.sum()
    guard = np.full((1, values.shape[1]), weights.mean())
    totals = np.vstack((totals, guard, -guard))
    sizes = np.append(sizes, [weights.mean()] * 2)
    centre = totals.sum(axis=0) / sizes.sum()
    drawn = np.vstack(
        [
            (counts @ totals) / (counts @ sizes)[:, None]
            for counts in _counts(len(sizes), draws, rng)
        ]
    )
    return np.vstack((measured, measured + (drawn - centre) * _stretch(len(sizes))))


def _by_source(totals: Floats, sizes: Floats, sources: Sequence[str]) -> tuple[Floats, Floats]:
    """Sums by source where documents share them, else what was given."""
    names, index = np.unique(sources, return_inverse=True)
    if not 1 < len(names) < len(sources):
        return totals, sizes
    summed = np.zeros((len(names), totals.shape[1]))
    np.add.at(summed, index, totals)
    return summed, np.bincount(index, weights=sizes).astype(np.float64)


def _counts(units: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each unit is drawn, [draws of a chunk, units], chunk by chunk."""
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        yield rng.multinomial(units, np.full(units, 1 / units), size=size).astype(np.float64)


def _stretch(n: int) -> float:
    """By how much draws of n units are too near to each other: sqrt(n / (n - 1)) t / z."""
    if n < 2:
        return 1.0
    tail = (1 - _CONFIDENCE) / 2
    return math.sqrt(n / (n - 1)) * float(stats.t.isf(tail, n - 1) / stats.norm.isf(tail))
