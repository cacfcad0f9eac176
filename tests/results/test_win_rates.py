"""The raw win rate by hand."""

import math

import pytest

from ladder_eval.results.win_rates import probabilities, win_rate


def test_win_rate_is_the_mean_preference_above_one():
    rate = win_rate([1.0, 2.0, 1.25, 1.75])
    assert rate.percent == 50
    # s² = (0.25 + 0.25 + 0.0625 + 0.0625) / 3
    assert rate.stderr == pytest.approx(100 * math.sqrt(0.625 / 3 / 4))


def test_a_preference_of_zero_is_a_draw():
    assert probabilities([0, 2]).tolist() == [0.5, 1.0]


def test_against_itself_there_is_no_spread():
    assert (win_rate([1.5] * 5).percent, win_rate([1.5] * 5).stderr) == (50, None)


@pytest.mark.parametrize("bad", [[], [0.5], [2.1], [float("nan")]])
def test_what_is_no_preference_is_refused(bad):
    with pytest.raises(ValueError, match="preferences"):
        win_rate(bad)
