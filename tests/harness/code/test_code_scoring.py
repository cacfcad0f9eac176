"""pass@k, counted out."""

from itertools import combinations

import pytest

from ladder_eval.harness.code.judging import Verdict
from ladder_eval.harness.code.scoring import score

RIGHT = Verdict(base="pass", plus="pass")
HALF = Verdict(base="pass", plus="wrong answer", detail="plus test 1")
WRONG = Verdict(base="exception", plus="exception", detail="base test 0")


def value(scores, level, k):
    (found,) = [one for one in scores.scores if (one.level, one.k) == (level, k)]
    return found.value


def test_greedy_pass_at_1_is_the_share_of_problems():
    scores = score({"a": [RIGHT], "b": [HALF], "c": [WRONG], "d": [RIGHT]}, of=4)
    assert value(scores, "base", 1) == 0.75
    assert value(scores, "plus", 1) == 0.5
    assert {one.k for one in scores.scores} == {1}
    assert scores.statuses["plus"] == {"pass": 2, "wrong answer": 1, "exception": 1}
    assert not scores.subset


@pytest.mark.parametrize("right", [0, 1, 2, 5, 12])
def test_pass_at_k_is_the_share_of_draws_with_a_pass(right):
    samples = [RIGHT] * right + [WRONG] * (12 - right)
    scores = score({"a": samples}, of=1)
    draws = [any(v is RIGHT for v in drawn) for drawn in combinations(samples, 10)]
    assert value(scores, "base", 10) == pytest.approx(sum(draws) / len(draws), abs=1e-12)
    assert value(scores, "base", 1) == pytest.approx(right / 12)


def test_k_is_no_more_than_each_problem_has_samples():
    scores = score({"a": [RIGHT] * 10, "b": [WRONG] * 9}, of=2)
    assert {one.k for one in scores.scores} == {1}


def test_three_of_many_are_a_subset():
    scores = score({"a": [RIGHT], "b": [RIGHT], "c": [WRONG]}, of=164)
    assert scores.subset
    assert value(scores, "base", 1) == pytest.approx(2 / 3)
    assert (scores.problems, scores.of) == (3, 164)
    assert scores.plain()["subset"] is True


def test_intervals_are_exact_for_one_sample_a_problem():
    (found,) = [one for one in score({"a": [RIGHT], "b": [RIGHT]}, of=2).scores if one.k == 1][:1]
    assert found.stderr is None
    assert found.low == pytest.approx(0.025**0.5)  # Clopper-Pearson of 2 in 2
    assert found.high == 1.0
