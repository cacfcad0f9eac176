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

from ladder_eval.results.means import mean_stderr
from ladder_eval.results.metrics import combine, log_ratios
from ladder_eval.results.statistics import Interval

__all__ = [
    "RESAMPLES",
    "bca_interval",
    "bootstrap",
    "bootstrap_ratio",
    "bootstrap_speedup",
    "resample",
]

Floats = npt.NDArray[np.float64]

RESAMPLES: Final = 1000
"""Number of samples that are drawn."""

BCA_RESAMPLES: Final = 2000
"""The same for BCa intervals, whose corrected percentiles lie further out."""

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
    model cancels. Few documents, or some much longer than others, make it too narrow, and so
    neither end is nearer than Student's t of the logarithm, with one degree of freedom less than
    the effective number of documents, sum(w)² / sum(w²) (Kish, Survey Sampling, 1965). Arguments
    are as for `bootstrap`.
    """

    def statistic(counts: Floats) -> Floats:
        both = (
            combine(metric, counts @ (v * weights), counts @ weights) for v in (candidate, baseline)
        )
        above, below = both
        return above / below

    method = f"paired bootstrap of documents ({RESAMPLES:,}), or t where it is wider"
    found = resample(statistic, len(weights), confidence, method)
    logs = log_ratios(metric, candidate, baseline, weights)
    stderr = mean_stderr(logs.tolist(), weights.tolist())
    if found is None or stderr is None:
        return None
    mean, effective = weights @ logs / weights.sum(), weights.sum() ** 2 / (weights @ weights)
    half = float(stats.t.ppf((1 + confidence) / 2, max(1.0, effective - 1))) * stderr
    low, high = min(found[1].low, math.exp(mean - half)), max(found[1].high, math.exp(mean + half))
    return Interval(low=low, high=high, method=method)


def bootstrap_speedup(
    baseline: Floats, candidate: Floats, confidence: float = 0.95
) -> tuple[float, Interval] | None:
    """Geometric mean over rounds of baseline / candidate seconds, and its interval.

    The studentised bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 12.5)
    of the mean logarithm, over rounds, so that what slows both trials of one cancels. Few rounds
    make it too narrow, and so neither end is nearer than that of Student's t. None where there's
    no spread.

    Args:
        baseline: The baseline's seconds, [rounds].
        candidate: The candidate's seconds in the same rounds, [rounds].
        confidence: The interval's coverage.
    """
    x = np.log(baseline / candidate)
    n, mean = len(x), float(x.mean())
    if n < 2 or not np.ptp(x) > 1e-12:
        return None
    stderr, tail = float(x.std(ddof=1)) / math.sqrt(n), (1 - confidence) / 2
    least, most = np.quantile(_studentised(x - mean), [tail, 1 - tail], method="inverted_cdf")
    t = float(stats.t.isf(tail, n - 1))
    low, high = mean - max(t, float(most)) * stderr, mean - min(-t, float(least)) * stderr
    method = f"studentised bootstrap of rounds ({RESAMPLES:,}), or t where it is wider"
    # Where most rounds agree to the last bit, an end may be infinite, which can't be written.
    low, high = (math.exp(min(20.0, max(-20.0, end))) for end in (low, high))
    return math.exp(mean), Interval(low=low, high=high, method=method)


def _studentised(centred: Floats) -> Floats:
    """Each draw's mean of centred values in its own standard errors, [resample]."""
    n = len(centred)
    counts = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    means = counts @ centred
    variances = np.maximum(counts @ centred**2 - means**2, 0.0)
    stderrs = np.sqrt(variances / (n - 1))
    # Draws of one value alone have no spread; they are as far out as any.
    alone = stderrs <= 1e-7 * np.abs(centred).max()
    return np.where(alone, np.copysign(np.inf, means), means / np.where(alone, 1.0, stderrs))


def bca_interval(values: Floats, weights: Floats, confidence: float = 0.95) -> Interval | None:
    """The BCa bootstrap interval (Efron 1987) of sum(w x) / sum(w); None where there's no spread.

    Documents are drawn with their weights. It corrects the percentiles for bias and skewness;
    Student's t doesn't.

    Args:
        values: Each document's value a unit of weight, [documents].
        weights: Each document's weight, [documents].
        confidence: The interval's coverage.
    """
    if len(values) < 2 or not np.ptp(values * weights):
        return None

    def statistic(totals: Floats, counted: Floats, axis: int) -> Floats:
        return np.asarray(totals.sum(axis=axis) / counted.sum(axis=axis), dtype=np.float64)

    found = stats.bootstrap(
        (values * weights, weights),
        statistic,
        paired=True,
        confidence_level=confidence,
        n_resamples=BCA_RESAMPLES,
        batch=200,
        method="BCa",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    if not math.isfinite(found.low + found.high):
        return None
    method = f"BCa bootstrap of documents ({BCA_RESAMPLES:,})"
    return Interval(low=float(found.low), high=float(found.high), method=method)


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
