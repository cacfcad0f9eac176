"""Standard errors and intervals of means against scipy, hand calculation and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from ladder_eval.results.means import mean_interval, mean_stderr, paired_mean_interval


def test_mean_stderr_is_scipys():
    values = [0.0, 1.0, 1.0, 0.25, 0.5]
    assert mean_stderr(values) == pytest.approx(stats.sem(values))
    assert mean_stderr([1.0]) is None


def test_mean_interval_is_scipys_t():
    differences = [0.1, -0.2, 0.4, 0.3, 0.0]
    expected = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    interval = paired_mean_interval(differences)
    assert (interval.low, interval.high) == pytest.approx(tuple(expected))
    assert interval.method == "paired t"


def test_mean_interval_of_equal_differences_is_hoeffdings():
    interval = paired_mean_interval([0.25] * 200)
    half = math.sqrt(2 * math.log(40) / 200)
    assert (interval.low, interval.high) == pytest.approx((0.25 - half, 0.25 + half))
    assert interval.method == "Hoeffding"
    alone = paired_mean_interval([0.5])
    assert (alone.low, alone.high) == (-1.0, 1.0)


@pytest.mark.parametrize("values", [[1.0], [0.25, 0.25], [1.0] * 9, []])
def test_no_spread_is_no_certainty(values):
    assert mean_stderr(values) is None


def test_weighted_stderr_by_hand():
    """Three prompts with 1, 2 and 3 instructions, of which 1, 1 and 0 are followed."""
    rate = 2 / 6
    residuals = [1 * (1 - rate), 2 * (0.5 - rate), 3 * (0 - rate)]
    expected = math.sqrt(3 / 2 * sum(each**2 for each in residuals)) / 6
    assert mean_stderr([1.0, 0.5, 0.0], [1.0, 2.0, 3.0]) == pytest.approx(expected, rel=1e-12)


def test_equal_weights_change_nothing():
    values = [0.0, 1.0, 1.0, 0.25, 0.5]
    assert mean_stderr(values, [7.0] * 5) == pytest.approx(stats.sem(values), rel=1e-12)
    weighted, plain = paired_mean_interval(values, 0.95, [7.0] * 5), paired_mean_interval(values)
    assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high), rel=1e-12)
    assert weighted.method == "paired t by document (ratio estimator)"


def test_clustered_stderr_is_that_of_repeated_draws():
    """A prompt's instructions are followed together: 834 answers, but not 834 independent ones."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 4, size=(2000, 400))
    follows = rng.beta(0.5, 0.5, size=sizes.shape)  # how easy a prompt is
    true = rng.binomial(sizes, follows)
    rates = true.sum(axis=1) / sizes.sum(axis=1)
    estimates = [
        mean_stderr(list(t / s), list(s)) for t, s in zip(true[:50], sizes[:50], strict=True)
    ]
    assert np.mean(estimates) == pytest.approx(rates.std(), rel=0.05)
    naive = np.sqrt(rates.mean() * (1 - rates.mean()) / sizes.sum(axis=1).mean())
    assert naive < 0.8 * rates.std()


@pytest.mark.parametrize(("right", "n"), [(0, 20), (20, 20), (13, 20), (1, 1)])
def test_right_and_wrong_get_the_exact_interval(right, n):
    expected = stats.binomtest(right, n).proportion_ci(method="exact")
    interval = mean_interval([1.0] * right + [0.0] * (n - right))
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_graded_values_get_scipys_t_within_their_range():
    values = [0.9, 0.2, 0.4, 0.35]
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    interval = mean_interval(values)
    assert (interval.low, interval.high) == pytest.approx((max(0, expected.low), expected.high))
    assert mean_interval([0.99, 1.0, 0.9]).high == 1.0


def test_equal_graded_values_get_hoeffdings_interval():
    interval = mean_interval([0.5] * 100)
    half = math.sqrt(math.log(40) / 200)
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half))
    weights = [1.0, 2.0, 3.0] * 20
    interval = mean_interval([1.0] * 60, weights)
    half = math.sqrt(math.log(40) * 280 / 2) / 120  # sum of squares 20 * 14, sum 20 * 6
    assert (interval.low, interval.high, interval.method) == (
        pytest.approx(1 - half),
        1.0,
        "Hoeffding",
    )


@pytest.mark.parametrize("values", [[], [1.5], [math.nan, 0.0], [-1.5]])
def test_impossible_values_are_refused(values):
    with pytest.raises(ValueError, match="between -1 and 1"):
        paired_mean_interval(values)
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval(values)
