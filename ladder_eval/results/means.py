"""Standard errors and intervals of means of fractions, weighted where documents count unequally."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from ladder_eval.results.statistics import Interval, exact_binomial_interval

__all__ = ["MEAN_METHODS", "mean_interval", "mean_stderr", "paired_mean_interval"]

Floats = npt.NDArray[np.float64]

MEAN_METHODS: Final = ("paired t", "Hoeffding", "paired t by document (ratio estimator)")
"""Methods of `paired_mean_interval`, whose comparisons are of means rather than of counts."""


def mean_stderr(
    values: Sequence[float],
    weights: Sequence[float] | None = None,
    sources: Sequence[str] | None = None,
) -> float | None:
    """Standard error of a mean; None where it can't be estimated.

    That is where there are fewer than two values, or all are equal: a spread of none would claim
    certainty.

    Args:
        values: A document's mean each.
        weights: How much each counts, such as its number of instructions. What stands in one
            document isn't independent, so documents are the clusters of a ratio estimator
            (Cochran, Sampling Techniques, 1977, 6.4): with r = sum(w x) / sum(w),
            sqrt(n / (n - 1) sum(w² (x - r)²)) / sum(w). Without weights, s / sqrt(n).
        sources: What each document shares with others. The sources are the clusters then, and n
            their number: the sum runs over the squared totals of w (x - r) of each (Miller, Adding
            Error Bars to Evals, arXiv:2411.00640, 2.2, with the factor n / (n - 1)).
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0:
        return None
    if weights is None and sources is None:
        return float(np.std(x, ddof=1) / math.sqrt(len(x)))
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    totals = w * (x - w @ x / w.sum())
    if sources is not None:
        totals = np.bincount(np.unique(sources, return_inverse=True)[1], weights=totals)
    n = len(totals)
    # Totals that cancel in every source show no spread either, but for rounding.
    if n < 2 or not np.abs(totals).max() > 1e-12 * w.sum():
        return None
    return float(math.sqrt(n / (n - 1) * (totals @ totals)) / w.sum())


def mean_interval(
    values: Sequence[float], weights: Sequence[float] | None = None, confidence: float = 0.95
) -> Interval:
    """Interval for a mean of fractions: exact where each is right or wrong.

    Any other gets Student's t interval over documents, or Hoeffding's where all are equal.

    Raises:
        ValueError: Without values, or with one outside of [0, 1].
    """
    if weights is None and values and set(values) <= {0.0, 1.0}:
        return exact_binomial_interval(round(sum(values)), len(values), confidence)
    return _bounded(values, weights, (0.0, 1.0), ("t", "Hoeffding", "t by document"), confidence)


def paired_mean_interval(
    differences: Sequence[float],
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
) -> Interval:
    """Interval for the mean of paired differences that may take any value from -1 to 1.

    Student's t interval, cut to [-1, 1]. Where all differences are equal, there's no spread to
    estimate and t would claim certainty; Hoeffding's inequality stands in for it.

    Raises:
        ValueError: Without differences, or with one outside of [-1, 1].
    """
    return _bounded(differences, weights, (-1.0, 1.0), MEAN_METHODS, confidence)


def _bounded(
    values: Sequence[float],
    weights: Sequence[float] | None,
    limits: tuple[float, float],
    methods: Sequence[str],
    confidence: float,
) -> Interval:
    """The mean ± t standard errors, or ± (b - a) sqrt(ln(2 / alpha) sum(w²) / 2) / sum(w).

    The latter is Hoeffding's (1963) inequality for values in [a, b].
    """
    x = np.asarray(values, dtype=np.float64)
    least, most = limits
    if not len(x) or not np.all((least <= x) & (x <= most)) or not 0 < confidence < 1:
        raise ValueError(
            f"{len(x)} values and confidence={confidence} allow no interval: values "
            f"lie between {least:g} and {most:g}"
        )  # also catches NaN
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    mean = float(x.mean()) if weights is None else float(w @ x / w.sum())
    stderr = mean_stderr(values, weights)
    if stderr is not None:
        half = float(stats.t.ppf((1 + confidence) / 2, len(x) - 1)) * stderr
        method = methods[0] if weights is None else methods[2]
    else:
        spread = math.sqrt(float(w @ w) / 2 * math.log(2 / (1 - confidence))) / float(w.sum())
        half, method = (most - least) * spread, methods[1]
    return Interval(low=max(least, mean - half), high=min(most, mean + half), method=method)
