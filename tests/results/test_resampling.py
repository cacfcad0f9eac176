"""The bootstrap beside the delta method, the jackknife and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from ladder_eval.results.estimates import estimate
from ladder_eval.results.metrics import Term, log_ratios
from ladder_eval.results.resampling import RESAMPLES, bootstrap, bootstrap_ratio


def pages(n=62, seed=0):
    """Nats a word and words of pages as unequal in length and difficulty as WikiText's."""
    rng = np.random.default_rng(seed)
    words = np.round(rng.lognormal(8, 0.6, n))
    return rng.normal(3.0, 0.25, n), words


def log_stderr(values, words):
    """The delta method for log perplexity, a ratio of sums (Cochran 1977, 6.4)."""
    residuals = words * (values - values @ words / words.sum())
    n = len(values)
    return math.sqrt(n / (n - 1) * (residuals @ residuals)) / words.sum()


def test_standard_error_is_the_delta_methods_and_the_jackknifes():
    values, words = pages()
    stderr, interval = bootstrap("word_perplexity", values, words)
    whole = math.exp(values @ words / words.sum())
    left_out = (values @ words - values * words) / (words.sum() - words)
    jackknife = np.sqrt(61 / 62 * ((np.exp(left_out) - np.exp(left_out).mean()) ** 2).sum())
    # A standard deviation of 1,000 draws is known within 2.2 %.
    assert stderr == pytest.approx(whole * log_stderr(values, words), rel=0.07)
    assert stderr == pytest.approx(jackknife, rel=0.08)
    assert interval.low < whole < interval.high
    half = stats.t.ppf(0.975, 61) * log_stderr(values, words)
    assert (interval.low, interval.high) == pytest.approx(
        (whole * math.exp(-half), whole * math.exp(half)), rel=0.15 * half
    )


def test_bits_have_no_exponential():
    values, weights = pages()
    stderr, _ = bootstrap("bits_per_byte", values, weights)
    assert stderr == pytest.approx(log_stderr(values, weights), rel=0.07)


def test_repeats_to_the_last_bit():
    assert bootstrap("word_perplexity", *pages()) == bootstrap("word_perplexity", *pages())


def test_a_paired_ratio_is_much_narrower_than_its_parts():
    baseline, words = pages()
    candidate = baseline + np.random.default_rng(5).normal(0.01, 0.02, 62)
    interval = bootstrap_ratio("word_perplexity", candidate, baseline, words)
    effective = words.sum() ** 2 / (words @ words)
    half = stats.t.ppf(0.975, effective - 1) * log_stderr(candidate - baseline, words)
    ratio = math.exp((candidate - baseline) @ words / words.sum())
    assert interval.low < ratio < interval.high
    assert math.log(interval.high / interval.low) == pytest.approx(2 * half, rel=0.12)
    assert math.log(interval.high / ratio) >= half - 1e-9
    assert math.log(ratio / interval.low) >= half - 1e-9
    assert half < 0.2 * log_stderr(baseline, words)
    method = f"paired bootstrap of documents ({RESAMPLES:,}), or t where it is wider"
    assert interval.method == method


def test_ratio_of_bits_is_scipys_percentile_bootstrap():
    baseline, weights = pages(400)
    candidate = baseline + np.random.default_rng(5).normal(0.02, 0.1, 400)
    interval = bootstrap_ratio("bits_per_byte", candidate, baseline, weights)
    scipys = stats.bootstrap(
        (candidate, baseline, weights),
        lambda c, b, w, axis: (c * w).sum(axis) / (b * w).sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    width = scipys.high - scipys.low
    assert (interval.low, interval.high) == pytest.approx(tuple(scipys), abs=0.1 * width)


def test_exchange_inverts_the_ratio():
    baseline, words = pages()
    candidate = baseline + np.random.default_rng(5).normal(0.01, 0.02, 62)
    one = bootstrap_ratio("word_perplexity", candidate, baseline, words)
    other = bootstrap_ratio("word_perplexity", baseline, candidate, words)
    assert (one.low, one.high) == pytest.approx((1 / other.high, 1 / other.low), rel=1e-3)


def test_few_documents_widen_the_interval():
    """Of two documents, draws say no more than 2 to 3; t has one degree of freedom, and says so."""
    interval = bootstrap_ratio("word_perplexity", *np.log([[2.0, 6.0], [1.0, 2.0]]), np.ones(2))
    half = 12.7062 * math.log(3 / 2) / 2
    assert (interval.low, interval.high) == pytest.approx(
        (math.sqrt(6) * math.exp(-half), math.sqrt(6) * math.exp(half)), rel=1e-4
    )


def test_shares_in_a_ratio_add_up_to_its_logarithm():
    """By hand: nats are subtracted; bits are divided by their means, 2.25 and 2.5."""
    candidate, baseline, w = np.array([3.0, 2.0]), np.array([2.5, 2.5]), np.array([1.0, 3.0])
    nats = log_ratios("word_perplexity", candidate, baseline, w)
    assert nats.tolist() == [0.5, -0.5]
    bits = log_ratios("bits_per_byte", candidate, baseline, w)
    assert w @ bits / w.sum() == pytest.approx(math.log(2.25 / 2.5))
    assert bits - bits[0] == pytest.approx([0.0, 2.0 / 2.25 - 3.0 / 2.25])


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0]])
def test_no_spread_is_no_certainty(values):
    weights = np.full(len(values), 2.0)
    assert bootstrap("word_perplexity", np.array(values), weights) is None
    found = estimate("word_perplexity", [Term(value, 2.0) for value in values])
    assert (found.stderr, found.interval, found.n) == (None, None, len(values))
    assert found.value == pytest.approx(math.exp(3))
    assert bootstrap_ratio("word_perplexity", *[np.array(values)] * 2, weights) is None
