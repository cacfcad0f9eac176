"""What the values of a metric mean: how documents are combined, and which way is better.

Every metric here is a function of one ratio over documents, sum(total) / sum(weight). Right
answers are totals of 0 or 1 with weight 1; instructions followed in a prompt have the number of
instructions as weight; a document's negative log-likelihood has its words or bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["LOWER_IS_BETTER", "Term", "combine", "is_fraction", "log_ratios", "over", "term"]

Floats = npt.NDArray[np.float64]

_PERPLEXITIES: Final = frozenset({"word_perplexity", "byte_perplexity", "perplexity"})

LOWER_IS_BETTER: Final = _PERPLEXITIES | {"bits_per_byte"}
"""Metrics that are no fractions of right answers; models are compared by their ratio."""


@dataclass(frozen=True, slots=True)
class Term:
    """What one document adds to a metric.

    Attributes:
        value: Its own value: a fraction; for `LOWER_IS_BETTER`, nats (bits for `bits_per_byte`) a
            unit of weight.
        weight: What it counts: 1, its instructions, or its words or bytes.
    """

    value: float
    weight: float = 1.0


def is_fraction(metric: str) -> bool:
    """Whether values of the metric lie between 0 and 1, so that differences are in points."""
    return metric not in LOWER_IS_BETTER


def term(metric: str, raw: Any) -> Term:
    """What a document adds, from the value that lm-eval gives it.

    Args:
        metric: The metric's name.
        raw: A number; a (log-likelihood, words or bytes) pair; a log-likelihood for `perplexity`;
            or one boolean an instruction.

    Raises:
        TypeError: If the value is none of these.
    """
    if metric in LOWER_IS_BETTER:
        logprob, weight = map(float, raw if isinstance(raw, Sequence) else (raw, 1))
        nats = -logprob / weight if weight else 0.0  # an empty page has no bytes
        return Term(nats / math.log(2) if metric == "bits_per_byte" else nats, weight)
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return Term(sum(map(bool, raw)) / max(1, len(raw)), float(len(raw)))
    if isinstance(raw, bool | int | float | np.number | np.bool_):
        return Term(float(raw))
    raise TypeError(f"the metric {metric} has the value {raw!r}, which is no number")


def combine(metric: str, totals: Floats, weights: Floats) -> Floats:
    """The metric from sums over documents, both of shape [...], or of any one sample's.

    A perplexity is exp(sum of negative log-likelihoods / sum of words or bytes), as lm-eval's
    `weighted_perplexity`; any other is the ratio itself.
    """
    ratio = totals / weights
    with np.errstate(over="ignore"):  # what is infinite can't be written, and is refused there
        return np.exp(ratio) if metric in _PERPLEXITIES else ratio


def over(metric: str, terms: Sequence[Term]) -> float:
    """The metric over documents whose weights aren't all zero."""
    total = sum(each.weight * each.value for each in terms)
    weight = sum(each.weight for each in terms)
    return float(combine(metric, np.asarray(total), np.asarray(weight)))


def log_ratios(metric: str, candidate: Floats, baseline: Floats, weights: Floats) -> Floats:
    """Each document's share in log(candidate / baseline) of a metric of `LOWER_IS_BETTER`.

    Their weighted mean is the logarithm of the ratio. Of perplexities they are differences of nats;
    of a ratio of means, its linearisation (Cochran, Sampling Techniques, 1977, 6.4). All arguments
    and the answer are [documents].
    """
    if metric in _PERPLEXITIES:
        return candidate - baseline
    own, theirs = (float(weights @ each / weights.sum()) for each in (candidate, baseline))
    return math.log(own / theirs) + candidate / own - baseline / theirs
