"""How documents add up to a metric, beside lm-eval's own aggregations."""

import math

import numpy as np
import pytest
from lm_eval.api.metrics import bits_per_byte, perplexity, weighted_perplexity
from lm_eval.api.metrics import mean as stock_mean

from ladder_eval.results.metrics import LOWER_IS_BETTER, Term, is_fraction, over, term

PAGES = [(-310.5, 120), (-42.25, 20), (-1200.0, 391), (-0.5, 1)]


@pytest.mark.parametrize(
    ("metric", "stock", "raw"),
    [
        ("word_perplexity", weighted_perplexity, PAGES),
        ("byte_perplexity", weighted_perplexity, PAGES),
        ("bits_per_byte", bits_per_byte, PAGES),
        ("perplexity", perplexity, [-1.5, -0.25, -7.0]),
        ("acc", stock_mean, [1, 0, 1.0, 0.0, True]),
    ],
)
def test_values_are_lm_evals(metric, stock, raw):
    assert over(metric, [term(metric, each) for each in raw]) == pytest.approx(
        stock(raw), rel=1e-12
    )


def test_word_perplexity_by_hand():
    """e to the minus (10 + 26) nats over (3 + 6) words: e**4. A mean of pages' would differ."""
    pages = [term("word_perplexity", page) for page in [(-10, 3), (-26, 6)]]
    assert pages == [Term(10 / 3, 3), Term(26 / 6, 6)]
    assert over("word_perplexity", pages) == pytest.approx(math.exp(4))
    assert over("bits_per_byte", [Term(2.0, 8), Term(4.0, 24)]) == 3.5


def test_instructions_count_each():
    """Three instructions of four, though the mean of the two prompts' shares is 5 / 6."""
    prompts = [term("inst_level_strict_acc", each) for each in ([True], [True, False, True])]
    assert [each.weight for each in prompts] == [1, 3]
    assert over("inst_level_strict_acc", prompts) == pytest.approx(3 / 4)


@pytest.mark.parametrize("raw", [1, 1.0, True, np.float64(1), np.bool_(True), np.int64(1)])
def test_numbers_of_any_kind(raw):
    assert term("exact_match", raw) == Term(1.0, 1.0)


def test_empty_documents_weigh_nothing():
    assert term("byte_perplexity", (-0.0, 0)) == Term(0.0, 0.0)
    assert term("inst_level_loose_acc", []) == Term(0.0, 0.0)


@pytest.mark.parametrize("raw", ["yes", None, {"a": 1}])
def test_what_is_no_number_is_refused(raw):
    with pytest.raises(TypeError, match="is no number"):
        term("acc", raw)


def test_too_large_a_perplexity_is_infinite_without_a_warning():
    assert over("word_perplexity", [Term(1000.0, 2.0)]) == math.inf


def test_which_way_is_better():
    assert not any(map(is_fraction, LOWER_IS_BETTER))
    assert all(map(is_fraction, ["acc", "exact_match", "prompt_level_strict_acc"]))
