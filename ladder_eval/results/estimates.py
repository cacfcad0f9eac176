"""One metric's value over documents, with what is known of its uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ladder_eval.results.means import mean_interval, mean_stderr
from ladder_eval.results.metrics import Term, is_fraction, over
from ladder_eval.results.resampling import bootstrap
from ladder_eval.results.statistics import Interval

__all__ = ["Estimate", "estimate", "mean_of_strata", "mean_of_tasks"]

_NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A value and its uncertainty.

    Attributes:
        value: The metric over all documents.
        n: Documents.
        stderr: Its standard error; None where it can't be estimated, such as when all documents
            agree.
        interval: Its 95 % interval, or None.
    """

    value: float
    n: int
    stderr: float | None
    interval: Interval | None


def estimate(metric: str, terms: Sequence[Term]) -> Estimate:
    """A metric over one or more documents: a mean or a perplexity."""
    values, weights = [each.value for each in terms], [each.weight for each in terms]
    value, n = over(metric, terms), len(terms)
    if not is_fraction(metric):
        found = bootstrap(metric, np.asarray(values), np.asarray(weights))
        stderr, interval = found or (None, None)
        return Estimate(value=value, n=n, stderr=stderr, interval=interval)
    counted = None if set(weights) == {1.0} else weights
    return Estimate(
        value=value,
        n=n,
        stderr=mean_stderr(values, counted),
        interval=mean_interval(values, counted) if _are_fractions(values) else None,
    )


def mean_of_strata(strata: Sequence[Estimate]) -> Estimate:
    """The unweighted mean over parts, each a sample of its own, such as MMLU's over subjects.

    The variance of a mean of K independent means is sum(se²) / K² (Cochran, Sampling Techniques,
    1977, 5.3, with equal weights). It is unknown if that of one part is.
    """
    value, stderr = mean_of_tasks([(each.value, each.stderr) for each in strata])
    interval = None
    if stderr is not None:
        low, high = (min(1.0, max(0.0, value + side * stderr)) for side in (-_NORMAL, _NORMAL))
        interval = Interval(low=low, high=high, method="normal, stratified")
    return Estimate(value=value, n=sum(each.n for each in strata), stderr=stderr, interval=interval)


def mean_of_tasks(scores: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """Unweighted mean of independent values, and its standard error sqrt(sum(se²)) / k.

    The standard error is None if one of theirs is.
    """
    known = [stderr for _, stderr in scores if stderr is not None]
    stderr = math.hypot(*known) / len(scores) if len(known) == len(scores) else None
    return sum(value for value, _ in scores) / len(scores), stderr


def _are_fractions(values: Sequence[float]) -> bool:
    return all(0 <= value <= 1 for value in values)
