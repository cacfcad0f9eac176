"""Differences of a task against scipy, statsmodels, and hand calculation."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from ladder_eval.results.differences import difference_interval, differences, holm, p_value
from ladder_eval.results.means import mean_stderr
from ladder_eval.results.pairing import Pair
from ladder_eval.results.resampling import BCA_RESAMPLES, bca_interval
from ladder_eval.results.statistics import paired_difference_interval


def pairs(values, metric="f1", sources=None, weights=None):
    """Pairs of (baseline, candidate)."""
    return [
        Pair(
            task="t",
            metric=metric,
            baseline=b,
            candidate=c,
            source=sources[i] if sources else "",
            weight=weights[i] if weights else 1.0,
        )
        for i, (b, c) in enumerate(values)
    ]


def binary(gains, losses, same, sources=None):
    return pairs([(0.0, 1.0)] * gains + [(1.0, 0.0)] * losses + [(1.0, 1.0)] * same, "acc", sources)


def graded(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return list(zip(rng.uniform(size=n).tolist(), rng.uniform(size=n).tolist(), strict=True))


@pytest.mark.parametrize(("gains", "losses"), [(3, 9), (0, 5), (20, 31), (7, 7)])
def test_mcnemar_is_statsmodels_and_scipys(gains, losses):
    found = p_value(differences(binary(gains, losses, 40)))
    table = [[40, losses], [gains, 0]]
    assert found.test == "McNemar"
    assert found.value == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert found.value == pytest.approx(stats.binomtest(gains, gains + losses).pvalue)


def test_mcnemar_of_five_losses_by_hand():
    assert p_value(differences(binary(0, 5, 35))).value == pytest.approx(2 * 0.5**5)


def test_paired_t_is_scipys():
    values = graded()
    baseline, candidate = zip(*values, strict=True)
    found = p_value(differences(pairs(values)))
    assert found.test == "paired t"
    assert found.value == pytest.approx(stats.ttest_rel(candidate, baseline).pvalue)


@pytest.mark.parametrize("weighted", [False, True])
def test_stderrs_are_statsmodels(weighted):
    """Least squares on a constant, with errors that are robust, and clustered."""
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 9, 60).astype(float).tolist() if weighted else None
    sources = [f"s{i}" for i in rng.integers(0, 12, 60)]
    found = differences(pairs(graded(), sources=sources, weights=weights))
    model = sm.WLS(found.values, np.ones(60), weights=found.weights)
    groups = np.unique(sources, return_inverse=True)[1]
    clustered = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    robust = model.fit(cov_type="HC1")
    assert found.mean == pytest.approx(clustered.params[0])
    assert found.stderr == pytest.approx(robust.bse[0])
    assert found.source_stderr == pytest.approx(clustered.bse[0])


def test_clustered_stderr_by_hand():
    # Mean 0.25; totals of the deviations are 1 and -1; sqrt(2 / 1 * 2) / 4.
    stderr = mean_stderr([1.0, 0.5, 0.0, -0.5], sources=["a", "a", "b", "b"])
    assert stderr == pytest.approx(math.sqrt(2 * 2) / 4)


def test_a_source_of_one_document_each_changes_nothing():
    values = graded()
    alone = differences(pairs(values, sources=[f"s{i}" for i in range(60)]))
    assert alone.source_stderr is None
    assert alone.stderr == pytest.approx(mean_stderr(alone.values.tolist()))
    assert differences(pairs(values, sources=["one"] * 60)).sources is None


def test_sources_that_cancel_show_no_spread():
    assert mean_stderr([1.0, -1.0, 1.0, -1.0], sources=["a", "a", "b", "b"]) is None


def test_right_and_wrong_have_the_paired_interval():
    found = difference_interval(differences(binary(3, 9, 40)), 0.9)
    assert found == paired_difference_interval(3, 9, 52, 0.9)


def test_shared_sources_only_widen():
    # All losses are in one subject of three: it may be the subject, not 9 documents.
    sources = ["a"] * 3 + ["b"] * 9 + ["c"] * 18
    shared = difference_interval(differences(binary(3, 9, 18, sources)))
    alone = difference_interval(differences(binary(3, 9, 18)))
    assert shared.low < alone.low
    assert shared.high > alone.high
    assert shared.method.endswith("widened to t over sources")
    test = p_value(differences(binary(3, 9, 18, sources)))
    assert test.test == "cluster t"
    assert test.value > p_value(differences(binary(3, 9, 18))).value


def test_fractions_by_hand():
    """Mean -0.05 of 40; with +1 and -1 added, variance of 42 values, t with 39 degrees."""
    values = [(0.5, 0.0)] * 4 + [(0.5, 0.5)] * 36
    found = difference_interval(differences(pairs(values)))
    augmented = [-0.5] * 4 + [0.0] * 36 + [1.0, -1.0]
    half = stats.t.ppf(0.975, 39) * np.std(augmented, ddof=1) / math.sqrt(42)
    assert (found.low, found.high) == pytest.approx((-0.05 - half, -0.05 + half))
    assert "conservative" in found.method


def test_no_change_claims_no_certainty():
    found = differences(pairs([(0.5, 0.5)] * 40))
    assert found.stderr is None
    assert found.planning_stderr == pytest.approx(math.sqrt(2 / 41) / math.sqrt(42))
    interval = difference_interval(found)
    assert interval.low < 0 < interval.high
    assert p_value(found).value == 1.0


def test_equal_changes_have_a_sign_test():
    found = p_value(differences(pairs([(0.5, 0.25)] * 4)))
    assert (found.test, found.value) == ("sign test", 2 * 0.5**4)


@pytest.mark.parametrize(
    "p_values", [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.02], [1.0], [0.2, 0.01, 0.01, 0.9]]
)
def test_holm_is_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_bca_is_scipys_of_the_mean():
    values = np.asarray([c - b for b, c in graded()])
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=BCA_RESAMPLES, rng=np.random.default_rng(0)
    ).confidence_interval
    found = bca_interval(values, np.ones(60))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_bca_of_a_ratio_holds_it_and_needs_a_spread():
    rng = np.random.default_rng(2)
    weights = rng.integers(50, 500, 40).astype(float)
    values = rng.normal(0.02, 0.05, 40)
    found = bca_interval(values, weights)
    assert found.low < values @ weights / weights.sum() < found.high
    assert bca_interval(np.zeros(9), np.ones(9)) is None
    assert bca_interval(np.ones(1), np.ones(1)) is None
