"""One task's difference between two models: arrays of its pairs, interval, and p-value.

All documents are drawn independently of each other, but for those of one source: the subjects of
MMLU, or the samples of one problem. Where sources are shared, whatever reaches further counts: what
holds for independent documents, or what holds for independent sources.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from ladder_eval.results.means import mean_stderr
from ladder_eval.results.metrics import is_fraction, log_ratios
from ladder_eval.results.pairing import Pair, is_binary
from ladder_eval.results.statistics import Interval, paired_difference_interval

__all__ = ["Differences", "PValue", "difference_interval", "differences", "holm", "p_value"]

Floats = npt.NDArray[np.float64]

GUARDED: Final = "t with a gain and a loss added (conservative)"
"""The method of an interval of fractions that are neither right nor wrong."""

SHARED: Final = "widened to t over sources"
"""What is added to the method of an interval where documents share sources."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """The paired differences of one task.

    Attributes:
        values: Candidate minus baseline, [documents]; of perplexities `metrics.log_ratios`.
        weights: What each document counts, [documents].
        sources: What it shares with others, [documents]; None where nothing is shared.
        mean: sum(w x) / sum(w). Of perplexities it is the logarithm of their ratio.
        stderr: Its standard error over documents; None where there's no spread.
        source_stderr: The same over sources; None where nothing is shared, or there's no spread.
        gains: Documents with a higher value of the candidate's.
        losses: Documents with a lower one.
        binary: Whether all values are right or wrong, and each document counts the same.
    """

    values: Floats
    weights: Floats
    sources: tuple[str, ...] | None
    mean: float
    stderr: float | None
    source_stderr: float | None
    gains: int
    losses: int
    binary: bool

    @property
    def clusters(self) -> int:
        """How many sources there are, or documents where nothing is shared."""
        return len(set(self.sources)) if self.sources else len(self.values)

    @property
    def planning_stderr(self) -> float:
        """The larger of both standard errors; where there's none, the guarded one."""
        known = [each for each in (self.stderr, self.source_stderr) if each is not None]
        return max(known) if known else _guarded_stderr(self, None)


def differences(pairs: Sequence[Pair]) -> Differences:
    """The differences of one task's pairs, of which there is at least one."""
    candidate = np.asarray([each.candidate for each in pairs])
    baseline = np.asarray([each.baseline for each in pairs])
    weights = np.asarray([each.weight for each in pairs])
    metric = pairs[0].metric
    values = candidate - baseline
    if not is_fraction(metric):
        values = log_ratios(metric, candidate, baseline, weights)
    named = tuple(each.source or f"document {i}" for i, each in enumerate(pairs))
    sources = named if 1 < len(set(named)) < len(named) else None
    counted = None if set(weights) == {1.0} else weights.tolist()
    return Differences(
        values=values,
        weights=weights,
        sources=sources,
        mean=float(weights @ values / weights.sum()),
        stderr=mean_stderr(values.tolist(), counted),
        source_stderr=mean_stderr(values.tolist(), counted, sources) if sources else None,
        gains=int((candidate > baseline).sum()),
        losses=int((candidate < baseline).sum()),
        binary=is_binary(pairs),
    )


def difference_interval(found: Differences, confidence: float = 0.95) -> Interval:
    """Interval of the mean difference of fractions; each method is conservative where it is short.

    Right and wrong get the interval of paired proportions, other fractions the mean ± Student's t
    standard errors. Where few documents changed, t would be much too narrow, and so one document
    that was gained and one that was lost are added for the standard error, as Bonett and Price
    (British Journal of Mathematical and Statistical Psychology 65, 2012) do for proportions. If
    sources are shared, each end is the outer one of this and of the same t over sources.
    """
    if found.binary:
        n = len(found.values)
        interval = paired_difference_interval(found.gains, found.losses, n, confidence)
    else:
        interval = _guarded_t(found, None, confidence, GUARDED)
    if found.sources is None:
        return interval
    wide = _guarded_t(found, found.sources, confidence, "")
    return Interval(
        low=min(interval.low, wide.low),
        high=max(interval.high, wide.high),
        method=f"{interval.method}, {SHARED}",
    )


def _guarded_t(
    found: Differences, sources: Sequence[str] | None, confidence: float, method: str
) -> Interval:
    """The mean ± t guarded standard errors, cut to [-1, 1]; n - 1 degrees of freedom."""
    n = len(set(sources)) if sources else len(found.values)
    quantile = float(stats.t.ppf((1 + confidence) / 2, max(1, n - 1)))
    half = quantile * _guarded_stderr(found, sources)
    return Interval(
        low=max(-1.0, found.mean - half), high=min(1.0, found.mean + half), method=method
    )


def _guarded_stderr(found: Differences, sources: Sequence[str] | None) -> float:
    """The standard error with a gained and a lost document of mean weight, each its own source.

    It is the plain one where that is larger.
    """
    weight = float(found.weights.mean())
    stderr = mean_stderr(
        [*found.values, 1.0, -1.0],
        [*found.weights, weight, weight],
        [*sources, "gained", "lost"] if sources else None,
    )
    plain = found.source_stderr if sources else found.stderr
    return max(stderr or 0.0, plain or 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PValue:
    """The two-sided p-value of no difference, and the test that gave it."""

    value: float
    test: str


def p_value(found: Differences) -> PValue:
    """Exact McNemar of right and wrong, paired t of anything else.

    McNemar's test (1947) is exact as a sign test: given the number of documents on which the models
    disagree, gains are binomial with probability 1/2. Where sources are shared, the larger of it
    and the p-value of t over sources counts. Without any change p is 1, without spread in the
    changes t is not defined, and the sign test stands in for it.
    """
    if not found.gains + found.losses:
        return PValue(value=1.0, test="no change")
    if found.binary or found.stderr is None:
        name = "McNemar" if found.binary else "sign test"
        plain = PValue(value=_sign_test(found.gains, found.losses), test=name)
    else:
        plain = PValue(value=_t_test(found.mean, found.stderr, len(found.values)), test="paired t")
    if found.source_stderr is None:
        return plain
    clustered = _t_test(found.mean, found.source_stderr, found.clusters)
    return max(plain, PValue(value=clustered, test="cluster t"), key=lambda each: each.value)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p-values, in the given order.

    The i-th smallest of m is multiplied by m - i + 1, and none is less than a smaller one's. To
    reject where they are at most alpha errs in any of the m tests with probability at most alpha,
    however the tests depend on each other.
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    steps = np.maximum.accumulate(np.asarray(p_values, dtype=np.float64)[order] * factors)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, steps)
    return [float(each) for each in adjusted]


def _sign_test(gains: int, losses: int) -> float:
    return float(stats.binomtest(gains, gains + losses, 0.5).pvalue)


def _t_test(mean: float, stderr: float, n: int) -> float:
    return 2 * float(stats.t.sf(abs(mean) / stderr, n - 1)) if math.isfinite(mean) else 1.0
