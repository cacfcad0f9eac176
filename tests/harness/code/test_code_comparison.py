"""Results against expected ones, by evalplus' rules."""

import math

import numpy as np
import pytest
from code_problems import problem

from ladder_eval.harness.code.comparison import Comparison


def agrees(result, expected, given=(1,), **changed):
    return Comparison(problem(**changed)).agrees(given, result, expected)


@pytest.mark.parametrize(
    ("result", "expected", "right"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, True, True),
        ((1, 2), [1, 2], False),
        ([1.0], [1], True),
        (None, None, True),
        (0.1 + 0.2, 0.3, True),  # floats get 1e-6 where nothing is allowed
        (0.3001, 0.3, False),
        ([0.1 + 0.2], [0.3], True),
        ((0.1 + 0.2,), [0.3], False),
        ([0.3, 0.3], [0.3], False),
        ([0.1 + 0.2, 1], [0.3, 1], False),  # not all floats, so exactly
        (np.float64(0.1) + 0.2, 0.3, False),  # another type than the expected
        (np.float64(0.3), 0.3, True),
        ("a", 0.3, False),
        (math.nan, math.nan, False),
        (10**400, 0.3, False),
    ],
)
def test_plain_results(result, expected, right):
    assert agrees(result, expected) is right


def test_a_tolerance_of_the_problems_own_holds_for_all_types():
    assert agrees([3.00005, 1], [3.0, 1], atol=1e-4)
    assert not agrees([3.0005, 1], [3.0, 1], atol=1e-4)


def test_the_tolerance_stays_once_floats_were_expected():
    comparison = Comparison(problem())
    assert not comparison.agrees([1], [0.1 + 0.2, 1], [0.3, 1])
    assert comparison.agrees([1], 0.5, 0.5)
    assert comparison.agrees([1], [0.1 + 0.2, 1], [0.3, 1])


def test_any_root_is_right_for_humaneval_32():
    zero = {"entry_point": "find_zero", "atol": 1e-4, "given": ([-1, 0, 1],)}
    assert agrees(-1.0, 1.0, **zero)
    assert agrees(1.00001, 1.0, **zero)
    assert not agrees(0.9, 1.0, **zero)
    assert not agrees(None, 1.0, **zero)


@pytest.mark.parametrize(
    ("name", "given", "result", "expected", "right"),
    [
        ("similar_elements", (1,), (2, 1, 1), (1, 2), True),
        ("similar_elements", (1,), (1, 3), (1, 2), False),
        ("similar_elements", (1,), None, (1, 2), False),
        ("are_equivalent", (1, 2), "anything", True, True),
        ("sum_div", (1,), 0, 1, True),
        ("sum_div", (1,), 2, 1, False),
        ("surface_Area", (3, 4), 36, 33, False),
        ("surface_Area", (3, 4), 35, 33, True),
        ("digit_distance_nums", (1, 20), 3, 9, True),
        ("digit_distance_nums", (1, 20), 2, 9, False),
        ("check_str", ("a",), object(), True, True),
        ("check_str", ("a",), None, True, False),
        ("check_str", ("a",), None, False, True),
        ("check_str", ("a",), False, True, False),
        ("check_str", ("a",), True, True, True),
    ],
)
def test_mbpp_has_problems_with_several_right_results(name, given, result, expected, right):
    found = agrees(result, expected, given, dataset="mbpp", entry_point=name)
    assert found is right


def test_names_of_mbpp_mean_nothing_in_humaneval():
    assert not agrees(0, 1, entry_point="sum_div")
