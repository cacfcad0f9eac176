"""The endpoint, what it needs, and its verdicts, by hand and against scipy."""

import math

import pytest
from scipy import stats

from ladder_eval.results.claims import detectable, task_claims
from ladder_eval.results.differences import difference_interval, differences
from ladder_eval.results.endpoint import Size, documents_needed, endpoint, stratified, verdict_of
from ladder_eval.results.pairing import Pair, compare
from ladder_eval.results.statistics import Interval

REACH = stats.norm.ppf(0.95) + stats.norm.ppf(0.8)


def pairs(task, gains, losses, same):
    values = [(0.0, 1.0)] * gains + [(1.0, 0.0)] * losses + [(1.0, 1.0)] * same
    return [Pair(task=task, metric="acc", baseline=b, candidate=c) for b, c in values]


def interval(low, high):
    return Interval(low=low, high=high, method="")


def test_symmetric_intervals_add_as_variances_do():
    mean, found = stratified([0.1, -0.2], [interval(0.0, 0.2), interval(-0.5, 0.1)], [1.0, 1.0])
    half = math.hypot(0.1, 0.3) / 2
    assert mean == pytest.approx(-0.05)
    assert (found.low, found.high) == pytest.approx((-0.05 - half, -0.05 + half))


def test_weights_of_strata_by_hand():
    mean, found = stratified([0.1, 0.0], [interval(0.05, 0.2), interval(-0.1, 0.3)], [3.0, 1.0])
    assert mean == pytest.approx(0.075)
    assert found.low == pytest.approx(0.075 - math.hypot(0.75 * 0.05, 0.25 * 0.1))
    assert found.high == pytest.approx(0.075 + math.hypot(0.75 * 0.1, 0.25 * 0.3))


def test_one_task_keeps_its_own_interval():
    own = pairs("arc", 3, 9, 60)
    found = endpoint(own, ["arc"], {"arc": Size(documents=72, available=72)}, margin=0.01)
    alone = difference_interval(differences(own), 0.9)
    assert (found.interval.low, found.interval.high) == pytest.approx((alone.low, alone.high))


def test_endpoint_by_hand():
    everything = pairs("arc", 2, 6, 92) + pairs("piqa", 10, 5, 185)
    sizes = {"arc": Size(documents=100, available=500), "piqa": Size(documents=200, available=900)}
    found = endpoint(everything, ["arc", "piqa"], sizes, margin=0.01)
    variances = [(8 - 16 / 100) / 99 / 100, (15 - 25 / 200) / 199 / 200]
    assert found.difference == pytest.approx((-0.04 + 0.025) / 2)
    assert found.micro == pytest.approx((-4 + 5) / 300)
    assert found.stderr == pytest.approx(math.sqrt(sum(variances)) / 2)
    assert found.detectable == pytest.approx(REACH * found.stderr)
    assert found.verdict == "INCONCLUSIVE"
    # More than piqa has: sqrt(s²(arc) / 500 + s²(piqa) / L) / 2 is at most margin / 2.49.
    assert found.needed == documents_needed(
        [math.sqrt(each) for each in variances], list(sizes.values()), 0.01
    )


def test_perplexities_and_other_tasks_stay_out():
    nats = [Pair(task="wiki", metric="word_perplexity", baseline=3.0, candidate=3.1)] * 5
    sizes = {"arc": Size(documents=10, available=10)}
    found = endpoint(pairs("arc", 1, 1, 8) + nats, ["arc", "wiki", "boolq"], sizes, margin=0.01)
    assert found.tasks == ("arc",)
    assert endpoint(nats, ["wiki"], {}, margin=0.01) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.009, 0.02, "PASS"),
        (-0.05, -0.011, "FAIL"),
        (-0.02, 0.0, "INCONCLUSIVE"),
        (-0.01, 0.0, "INCONCLUSIVE"),
    ],
)
def test_verdicts_at_the_margin(low, high, verdict):
    assert verdict_of(interval(low, high), -0.01) == verdict


def test_documents_of_one_task_by_hand():
    """A tenth disagree: s² = 0.1, so n = (2.486 / 0.01)² 0.1."""
    stderr, n = math.sqrt(0.1 / 500), math.ceil(REACH**2 * 0.1 / 0.01**2)
    assert n == 6183
    assert documents_needed([stderr], [Size(documents=500, available=10**6)], 0.01) == n
    assert documents_needed([stderr], [Size(documents=500, available=n)], 0.01) == n
    assert documents_needed([stderr], [Size(documents=500, available=n - 1)], 0.01) is None


def test_what_is_needed_has_the_power_that_is_said():
    """The normal approximation, by scipy: a true difference of zero passes in 80 % of draws."""
    size = Size(documents=500, available=10**6)
    n = documents_needed([math.sqrt(0.1 / 500)], [size], 0.01)
    stderr = math.sqrt(0.1 / n)
    power = stats.norm.sf(stats.norm.ppf(0.95) * stderr - 0.01, scale=stderr)
    assert power == pytest.approx(0.8, abs=1e-3)


def test_a_small_benchmark_is_made_up_for_by_others():
    small, large = Size(documents=100, available=300), Size(documents=100, available=10**6)
    stderr = math.sqrt(0.1 / 100)
    needed = documents_needed([stderr, stderr], [small, large], 0.03)
    wanted = (2 * 0.03 / REACH) ** 2
    assert 0.1 / 300 + 0.1 / needed <= wanted < 0.1 / 300 + 0.1 / (needed - 1)


def test_detectable_is_found_with_the_power_that_is_said():
    drop = detectable(0.01)
    assert stats.norm.cdf(-stats.norm.ppf(0.95) * 0.01, loc=-drop, scale=0.01) == pytest.approx(0.8)


def test_tasks_are_corrected_together():
    everything = pairs("arc", 0, 6, 60) + pairs("piqa", 5, 5, 60)
    arc, piqa = task_claims(compare("ladder", "dense", everything), everything)
    assert arc.p_value.value == pytest.approx(2 * 0.5**6)
    assert arc.adjusted_p == pytest.approx(4 * 0.5**6)
    assert (piqa.p_value.value, piqa.adjusted_p) == (1.0, 1.0)
    assert arc.bca is None
    assert arc.comparison.losses == 6


def test_ratios_speak_of_their_logarithm():
    nats = [
        Pair(task="wiki", metric="word_perplexity", baseline=3.0, candidate=3.0 + d, weight=w)
        for d, w in [(0.1, 100.0), (0.05, 300.0), (-0.02, 50.0), (0.03, 120.0)]
    ]
    (wiki,) = task_claims(compare("ladder", "dense", nats), nats)
    mean = (10 + 15 - 1 + 3.6) / 570
    assert wiki.comparison.ratio == pytest.approx(math.exp(mean))
    assert wiki.detectable == pytest.approx(math.exp(REACH * wiki.stderr))
    assert wiki.p_value.value == pytest.approx(2 * stats.t.sf(mean / wiki.stderr, 3))
    assert wiki.bca.low < wiki.comparison.ratio < wiki.bca.high
