"""The median of a few values, with an interval that makes no assumption about them."""

import statistics
from collections.abc import Sequence

from scipy.stats import binom

from ladder_eval.results.speed_records import Estimate

__all__ = ["median"]

CONFIDENCE = 0.95


def median(values: Sequence[float]) -> Estimate:
    """The median, and an interval between two of the values that holds the true one.

    The k-th smallest and the k-th largest of n independent values enclose their distribution's
    median with probability 1 - 2 P(X < k), X binomial with n and 1/2, whatever the distribution.
    The narrowest such interval with at least 0.95 is taken; with fewer than six values there is
    none, and the whole range is, with the coverage that it has.

    Raises:
        ValueError: if there are no values.
    """
    ordered, n = sorted(values), len(values)
    if not ordered:
        raise ValueError("no round, no median")
    covers = [1 - 2 * float(binom.cdf(k, n, 0.5)) for k in range((n + 1) // 2)]
    k = max((k for k, cover in enumerate(covers) if cover >= CONFIDENCE), default=0)
    return Estimate(
        value=statistics.median(ordered),
        low=ordered[k],
        high=ordered[n - 1 - k],
        confidence=max(0.0, covers[k]),
        rounds=n,
    )
