"""Intervals for proportions and for differences of paired answers, as small pure functions.

All values are fractions. Two models that answer the same n documents disagree on few of them: on
`gains` only the candidate is right, on `losses` only the baseline is. The difference of their
accuracies is (gains - losses) / n, and its uncertainty depends on the disagreements alone, which
is why a paired interval is much narrower than two separate ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

__all__ = [
    "EXACT_DISAGREEMENTS",
    "EXACT_LIMIT",
    "Interval",
    "exact_binomial_interval",
    "paired_difference_interval",
]

EXACT_LIMIT: Final = 1000
"""Largest number of pairs for which the exact interval of a paired difference is computed."""

EXACT_DISAGREEMENTS: Final = 40
"""With at most as many disagreements it is exact for more pairs, too: a score interval of about
four of them covers too rarely, 93 % instead of 95 %."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Counts = int | Integers

NUISANCE_POINTS: Final = 201
"""Grid points for the unknown rate of disagreement, over about eight of its standard errors."""

NEGLIGIBLE_MASS: Final = 1e-9
"""Probability of numbers of disagreements left out on either side; added to every p-value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A confidence interval and the method that gave it.

    Attributes:
        low: Lower end, a fraction.
        high: Upper end, a fraction.
        method: Name of the method, fit to print.
    """

    low: float
    high: float
    method: str


def exact_binomial_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Clopper and Pearson's (1934) interval for a proportion: it covers at least `confidence`.

    Its ends are quantiles of beta distributions, beta(x, n - x + 1) and beta(x + 1, n - x).

    Raises:
        ValueError: Unless 0 <= successes <= n, 0 < n and 0 < confidence < 1.
    """
    _check(confidence, n, successes)
    tail = (1 - confidence) / 2
    failures = n - successes
    low = stats.beta.ppf(tail, successes, failures + 1) if successes else 0.0
    high = stats.beta.isf(tail, successes + 1, failures) if failures else 1.0
    return Interval(low=float(low), high=float(high), method="exact binomial (Clopper–Pearson)")


def paired_difference_interval(
    gains: int, losses: int, n: int, confidence: float = 0.95
) -> Interval:
    """Interval for the difference of two paired proportions, estimated by (gains - losses) / n.

    Up to `EXACT_LIMIT` pairs, or `EXACT_DISAGREEMENTS` disagreements, the interval is exact:
    whatever the true proportions, it covers the true difference with at least the stated
    confidence. Above, it is Tango's (1998) score interval, whose coverage is close to the stated
    confidence.

    Exchanging gains and losses negates the interval, and the estimate lies in it.

    Args:
        gains: Pairs in which only the candidate is right.
        losses: Pairs in which only the baseline is right.
        n: All pairs.
        confidence: The wanted coverage.

    Raises:
        ValueError: Unless gains and losses are at least 0 and together at most n, 0 < n, and
            0 < confidence < 1.
    """
    _check(confidence, n, gains, losses, gains + losses)
    if n <= EXACT_LIMIT or gains + losses <= EXACT_DISAGREEMENTS:
        limit, method = _exact_lower_limit, "exact unconditional (Tango score, Berger–Boos)"
    else:
        limit, method = _score_lower_limit, "Tango score (asymptotic)"
    low = limit(gains, losses, n, confidence)
    high = 0.0 - limit(losses, gains, n, confidence)
    return Interval(low=low, high=high, method=method)


def _check(confidence: float, n: int, *counts: int) -> None:
    if not (n > 0 and all(0 <= count <= n for count in counts)):
        raise ValueError(f"counts {counts} don't fit n={n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} isn't between 0 and 1")


def _score(gains: Counts, losses: Counts, n: int, difference: float) -> Floats:
    """Tango's (1998) score statistic for the hypothesis that the true difference is `difference`.

    z = (gains - losses - n d) / sqrt(n (2 q + d (1 - d))), where q, the rate of losses that is
    likeliest under the hypothesis, is the larger root of
    2 n q² + ((2 n - gains + losses) d - gains - losses) q - losses d (1 - d) = 0.

    `gains` and `losses` may be arrays; the answer has their shape.
    """
    spread = difference * (1 - difference)
    linear = (2 * n - gains + losses) * difference - gains - losses
    root = np.sqrt(np.maximum(linear**2 + 8 * n * losses * spread, 0.0))
    variance = n * ((root - linear) / (2 * n) + spread)
    # A hypothesis that leaves no variance is refuted by any other outcome, however large n is.
    z = (gains - losses - n * difference) / np.sqrt(np.maximum(variance, 1e-12))
    return np.asarray(z, dtype=np.float64)


def _score_lower_limit(gains: int, losses: int, n: int, confidence: float) -> float:
    """The difference below the estimate at which Tango's statistic reaches the normal quantile."""
    if losses == n:
        return -1.0
    quantile = float(stats.norm.ppf((1 + confidence) / 2))
    return _root(
        lambda difference: quantile - float(_score(gains, losses, n, difference)),
        -1.0,
        (gains - losses) / n,
    )


def _exact_lower_limit(gains: int, losses: int, n: int, confidence: float) -> float:
    """The largest lower limit of exact coverage that ranks outcomes as Tango's limits do.

    Outcomes (gains, losses) are ranked by Tango's lower limit, as Buehler (1957) does with any
    ranking. Those ranked at least as high as the observed one are a fixed set, and the p-value of
    a true difference d is the probability of that set under d. It also depends on the unknown rate
    of disagreement, so it is maximised over the rate's interval of confidence 1 - gamma and gamma
    is added (Berger and Boos 1994). At a given rate the set only becomes likelier as d rises.
    So the p-value rises with d up to the estimate, and the limit is where it passes
    (1 - confidence) / 2.
    """
    if losses == n:
        return -1.0
    tail = (1 - confidence) / 2
    gamma = tail / 250  # 0.0001 at 95 %: a negligible loss of power
    rates = exact_binomial_interval(gains + losses, n, 1 - gamma)
    first = int(stats.binom.ppf(NEGLIGIBLE_MASS, n, rates.low))
    last = int(stats.binom.isf(NEGLIGIBLE_MASS, n, rates.high))
    disagreements = np.arange(first, last + 1)
    least = _least_gains(disagreements, gains, losses, n, confidence)

    def excess(difference: float) -> float:
        rate = np.linspace(max(rates.low, abs(difference)), rates.high, NUISANCE_POINTS)
        probability = _probability(disagreements, least, n, difference, rate)
        return float(probability.max()) + gamma + 2 * NEGLIGIBLE_MASS - tail

    return _root(excess, -rates.high, (gains - losses) / n)


def _least_gains(
    disagreements: Integers, gains: int, losses: int, n: int, confidence: float
) -> Integers:
    """For each number of disagreements, the fewest gains ranked as high as the observed outcome.

    An outcome's limit by Tango is at least the observed one's if, at that very limit, its
    statistic is at least as large. At a given number of disagreements it rises with the gains.
    """
    limit = _score_lower_limit(gains, losses, n, confidence)
    observed = _score(gains, losses, n, limit)
    candidates = np.arange(disagreements[-1] + 1)  # [gain]
    z = _score(candidates, disagreements[:, None] - candidates, n, limit)  # [disagreement, gain]
    possible = candidates <= disagreements[:, None]
    ranked = possible & (z >= observed - 1e-9)  # a tie counts as ranked, whatever the rounding
    return np.where(ranked.any(axis=1), ranked.argmax(axis=1), disagreements + 1)


def _probability(
    disagreements: Integers,
    least: Integers,
    n: int,
    difference: float,
    rate: Floats,
) -> Floats:
    """Probability of at least `least` gains, for each rate of disagreement in `rate`.

    Disagreements are binomial(n, rate); given their number, gains are binomial with probability
    (rate + difference) / (2 rate). Summing over the first leaves one tail of the second per term.
    """
    rate = rate[:, None]  # [rate, 1]
    share = np.clip((rate + difference) / np.maximum(2 * rate, 1e-300), 0.0, 1.0)
    log_mass = (
        special.gammaln(n + 1)
        - special.gammaln(disagreements + 1)
        - special.gammaln(n - disagreements + 1)
        + special.xlogy(disagreements, rate)
        + special.xlog1py(n - disagreements, -rate)
    )
    tails = special.bdtrc(least - 1, disagreements, share)  # [rate, disagreement]
    return np.asarray((np.exp(log_mass) * tails).sum(axis=1), dtype=np.float64)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises from `low` to `high` passes zero; `low` if it is never below."""
    if function(low) >= 0:
        return low
    return float(optimize.brentq(function, low, high, xtol=1e-10))
