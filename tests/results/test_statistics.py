"""The intervals against scipy, hand calculation, published values and full enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from ladder_eval.results import statistics
from ladder_eval.results.statistics import (
    EXACT_LIMIT,
    exact_binomial_interval,
    paired_difference_interval,
)


def outcomes(n):
    return [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]


@pytest.fixture
def asymptotic(monkeypatch):
    monkeypatch.setattr(statistics, "EXACT_LIMIT", 0)
    monkeypatch.setattr(statistics, "EXACT_DISAGREEMENTS", -1)
    return paired_difference_interval


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (7, 7), (3, 7), (211, 320), (1, 1)])
@pytest.mark.parametrize("confidence", [0.95, 0.9999])
def test_binomial_interval_is_scipys(successes, n, confidence):
    expected = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
    interval = exact_binomial_interval(successes, n, confidence)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_binomial_interval_of_no_success_by_hand():
    assert exact_binomial_interval(0, 20).high == pytest.approx(1 - 0.025 ** (1 / 20))


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact_binomial_interval(3, 2),
        lambda: exact_binomial_interval(0, 0),
        lambda: exact_binomial_interval(1, 2, 95),
        lambda: paired_difference_interval(2, 2, 3),
        lambda: paired_difference_interval(-1, 2, 3),
    ],
)
def test_impossible_counts_are_refused(call):
    with pytest.raises(ValueError, match=r"fit|between"):
        call()


def test_score_interval_is_the_published_one(asymptotic):
    # Fagerland, Lydersen and Laake (2014), airway hyper-responsiveness before and after
    # transplantation: 1 and 7 discordant of 21, Tango's interval -0.517 to -0.026.
    interval = asymptotic(1, 7, 21)
    assert (round(interval.low, 3), round(interval.high, 3)) == (-0.517, -0.026)


def test_score_interval_without_disagreement_is_wilsons(asymptotic):
    z2 = stats.norm.ppf(0.975) ** 2
    assert asymptotic(0, 0, 44).high == pytest.approx(z2 / (44 + z2), abs=1e-8)


def constrained_score(gains, losses, n, difference):
    """Tango's statistic, with the constrained likelihood maximised by brute force."""

    def minus_log_likelihood(q):
        same = 1 - 2 * q - difference
        counts = ((gains, q + difference), (losses, q), (n - gains - losses, same))
        return -sum(k * math.log(max(p, 1e-300)) for k, p in counts if k)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    q = optimize.minimize_scalar(
        minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}
    ).x
    variance = n * (2 * q + difference - difference**2)
    return (gains - losses - n * difference) / math.sqrt(variance)


@pytest.mark.parametrize(("gains", "losses", "n"), [(3, 9, 40), (0, 5, 44), (12, 22, 320)])
def test_score_interval_inverts_the_score_test(asymptotic, gains, losses, n):
    interval = asymptotic(gains, losses, n)
    z = stats.norm.ppf(0.975)
    assert constrained_score(gains, losses, n, interval.low) == pytest.approx(z, abs=1e-4)
    assert constrained_score(gains, losses, n, interval.high) == pytest.approx(-z, abs=1e-4)


def test_method_changes_at_the_limit():
    exact = paired_difference_interval(45, 60, EXACT_LIMIT)
    score = paired_difference_interval(45, 60, EXACT_LIMIT + 1)
    assert exact.method == "exact unconditional (Tango score, Berger–Boos)"
    assert score.method == "Tango score (asymptotic)"
    assert exact.low == pytest.approx(score.low, abs=1e-3)
    assert exact.high == pytest.approx(score.high, abs=1e-3)


def test_few_disagreements_are_exact_among_any_number_of_pairs():
    """Four expected disagreements of 2,000, all losses: the score interval covers 93 % of draws."""
    n, rate = 2000, 0.002
    masses = stats.binom.pmf(np.arange(30), n, rate)
    found = [paired_difference_interval(0, losses, n) for losses in range(30)]
    assert {each.method for each in found} == {"exact unconditional (Tango score, Berger–Boos)"}
    covered = [each.low <= -rate <= each.high for each in found]
    assert masses[covered].sum() >= 0.95
    assert paired_difference_interval(0, 41, n).method == "Tango score (asymptotic)"


def test_a_drop_of_the_margin_passes_in_at_most_one_of_twenty():
    """300 documents, of which 1 % are lost and none gained: the probability that low > -1 point."""
    passing = [paired_difference_interval(0, losses, 300, 0.9).low > -0.01 for losses in range(6)]
    assert passing == [True, False, False, False, False, False]
    assert stats.binom.pmf(0, 300, 0.01) == pytest.approx(0.049, abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_interval_of_every_outcome_holds_its_estimate_and_is_antisymmetric(n):
    for gains, losses in outcomes(n):
        interval = paired_difference_interval(gains, losses, n)
        mirrored = paired_difference_interval(losses, gains, n)
        assert -1 <= interval.low <= (gains - losses) / n <= interval.high <= 1
        assert (interval.low, interval.high) == (-mirrored.high, -mirrored.low)


@pytest.mark.parametrize(("gains", "losses"), [(320, 0), (0, 320), (0, 0), (160, 160), (319, 1)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999999])
def test_interval_at_the_edges(gains, losses, confidence):
    interval = paired_difference_interval(gains, losses, 320, confidence)
    assert -1 <= interval.low <= (gains - losses) / 320 <= interval.high <= 1
    assert interval.low < interval.high


@pytest.mark.parametrize(("n", "confidence"), [(10, 0.95), (10, 0.8), (25, 0.95)])
def test_coverage_is_never_below_the_stated_confidence(n, confidence):
    """Full enumeration: the probability of covering, for every true pair of rates on a grid."""
    pairs = np.array(outcomes(n))  # [outcome, 2]
    intervals = [paired_difference_interval(int(b), int(c), n, confidence) for b, c in pairs]
    low = np.array([each.low for each in intervals])
    high = np.array([each.high for each in intervals])
    counts = np.column_stack([pairs, n - pairs.sum(axis=1)])
    # Coverage is lowest just beyond an interval's end, so these differences are tried too.
    ends = np.unique(high)[:: max(1, len(intervals) // 40)] + 1e-9
    rates = [(p, q) for p, q in itertools.product(np.linspace(0, 1, 26), repeat=2) if p + q <= 1]
    rates += [
        (q + end, q) for end in ends for q in np.linspace(0, 0.5, 11) if 0 <= 2 * q + end <= 1
    ]
    rates = [(p, q) for p, q in rates if p >= 0]
    assert len(rates) > 350
    for p, q in rates:
        mass = stats.multinomial.pmf(counts, n, [p, q, max(0.0, 1 - p - q)])
        covered = (low <= p - q + 1e-12) & (p - q <= high + 1e-12)
        assert mass[covered].sum() >= confidence - 1e-9, (p, q)


@pytest.mark.parametrize(("gains", "losses"), [(2, 5), (0, 0), (6, 0), (9, 3), (0, 1)])
def test_exact_limit_is_where_the_largest_tail_is_alpha_half(
    asymptotic, monkeypatch, gains, losses
):
    """The definition, from every outcome's own limit and scipy's multinomial, at n=12."""
    n = 12
    everything = np.array(outcomes(n))
    limits = np.array([asymptotic(int(b), int(c), n).low for b, c in everything])
    ranked = limits >= asymptotic(gains, losses, n).low - 1e-9
    counts = np.column_stack([everything, n - everything.sum(axis=1)])[ranked]
    monkeypatch.setattr(statistics, "EXACT_LIMIT", n)
    low = paired_difference_interval(gains, losses, n).low
    gamma = 1e-4
    plausible = stats.binomtest(gains + losses, n).proportion_ci(1 - gamma)
    start = max(plausible.low, abs(low))
    tails = [
        stats.multinomial.pmf(counts, n, [(rate + low) / 2, (rate - low) / 2, 1 - rate]).sum()
        for rate in np.linspace(start, plausible.high, 1000)
    ]
    assert max(tails) + gamma == pytest.approx(0.025, abs=2e-6)


@pytest.mark.parametrize("n", [11, 20])
def test_score_ranks_more_gains_and_fewer_losses_higher(n):
    """Barnard's convexity: the reason why the exact p-value rises with the true difference."""
    for difference in (-0.7, -0.2, -0.01, 0.0, 0.05, 0.4):
        for b, c in outcomes(n):
            here = float(statistics._score(b, c, n, difference))
            if b + c < n:
                assert float(statistics._score(b + 1, c, n, difference)) >= here - 1e-9
            if c:
                assert float(statistics._score(b, c - 1, n, difference)) >= here - 1e-9


def test_no_difference_is_undecided_and_a_large_one_is_decided():
    assert paired_difference_interval(12, 22, 320).high > 0
    assert paired_difference_interval(5, 30, 320).high < 0
