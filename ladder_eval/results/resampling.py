"""Uncertainty by drawing documents anew: for perplexities, whose values are no right or wrong.

The bootstrap (Efron 1979) with documents as units, which are independent where words aren't. It is
seeded, so that a result repeats to the last bit.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from ladder_eval.results.metrics import combine
from ladder_eval.results.statistics import Interval

__all__ = ["RESAMPLES", "bootstrap", "bootstrap_ratio", "resample"]

Floats = npt.NDArray[np.float64]

RESAMPLES: Final = 1000
"""Number of samples that are drawn."""

_SEED: Final = 0


def bootstrap(
    metric: str, values: Floats, weights: Floats, confidence: float = 0.95
) -> tuple[float, Interval] | None:
    """Standard error and interval of a metric over documents; None where there's no spread.

    Args:
        metric: Its name, which says how sums become values.
        values: Each document's value a unit of weight, [documents].
        weights: Each document's weight, [documents].
        confidence: The interval's coverage.
    """

    def statistic(counts: Floats) -> Floats:
        return combine(metric, counts @ (values * weights), counts @ weights)

    return resample(statistic, len(values), confidence, f"bootstrap of documents ({RESAMPLES:,})")


def bootstrap_ratio(
    metric: str, candidate: Floats, baseline: Floats, weights: Floats, confidence: float = 0.95
) -> Interval | None:
    """Interval of the ratio candidate / baseline of a metric; None where there's no spread.

    Both are computed on the same drawn documents, so that what makes a document hard for either
    model cancels. Arguments are as for `bootstrap`.
    """

    def statistic(counts: Floats) -> Floats:
        both = (
            combine(metric, counts @ (v * weights), counts @ weights) for v in (candidate, baseline)
        )
        above, below = both
        return above / below

    method = f"paired bootstrap of documents ({RESAMPLES:,}, expanded percentiles)"
    found = resample(statistic, len(weights), confidence, method)
    return found[1] if found else None


def resample(
    statistic: Callable[[Floats], Floats], n: int, confidence: float, method: str
) -> tuple[float, Interval] | None:
    """Standard deviation and percentiles of a statistic of how often each unit is drawn.

    Units are documents, or whatever else is independent; without any spread there is none.
    Plain percentiles are too narrow for few documents. They are expanded as Hesterberg (The
    American Statistician 69, 2015) does: the normal quantile at which they are taken becomes
    sqrt(n / (n - 1)) times that of Student's t.

    Args:
        statistic: One value a row of [resamples, n], how often each unit was drawn.
        n: Units.
        confidence: The interval's coverage.
        method: What the interval says of itself.
    """
    if n < 2:
        return None
    counts = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    drawn = statistic(counts.astype(np.float64))  # [resample]
    if not np.ptp(drawn) > 1e-12 * abs(float(drawn[0])):
        return None
    quantile = math.sqrt(n / (n - 1)) * stats.t.ppf((1 + confidence) / 2, n - 1)
    tail = float(stats.norm.sf(quantile))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    interval = Interval(low=float(low), high=float(high), method=method)
    return float(drawn.std(ddof=1)), interval
