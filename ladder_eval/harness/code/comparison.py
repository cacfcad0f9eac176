"""evalplus' comparison of a result with the expected one, outside of the sandbox.

The rules are those of `evalplus.eval.unsafe_execute` 0.3.1, which can't be called by themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from evalplus.eval import MBPP_OUTPUT_SET_EQ_TASKS, is_floats
from evalplus.eval._special_oracle import _digit_distance_nums, _poly, _surface_Area

from ladder_eval.harness.code.problems import Problem

__all__ = ["Comparison"]

_FLOAT_ATOL = 1e-6
_RTOL = 1e-7


class Comparison:
    """Holds the results of one level of a problem against the expected ones, in order.

    In order, because evalplus' tolerance stays once a test has expected floats.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._atol = problem.atol

    def agrees(self, given: Sequence[Any], result: Any, expected: Any) -> bool:
        """Whether a result is right; what can't be compared is not."""
        try:
            return self._agrees(given, result, expected)
        except Exception:  # such as a text where a number is expected
            return False

    def _agrees(self, given: Sequence[Any], result: Any, expected: Any) -> bool:
        if self._problem.entry_point == "find_zero" and self._problem.dataset == "humaneval":
            return bool(abs(_poly(*given, result)) <= self._atol)
        exact = bool(result == expected)
        if self._problem.dataset == "mbpp":
            exact = self._exact_mbpp(exact, given, result, expected)
        if self._atol == 0 and is_floats(expected):
            self._atol = _FLOAT_ATOL
        if exact or self._atol == 0:
            return exact
        return self._close(result, expected)

    def _close(self, result: Any, expected: Any) -> bool:
        if type(result) is not type(expected):
            return False
        if isinstance(expected, list | tuple) and len(result) != len(expected):
            return False
        return bool(np.allclose(result, expected, rtol=_RTOL, atol=self._atol))

    def _exact_mbpp(self, exact: bool, given: Sequence[Any], result: Any, expected: Any) -> bool:
        """Problems whose text allows several results."""
        name = self._problem.entry_point
        if name in MBPP_OUTPUT_SET_EQ_TASKS:
            return set(result) == set(expected)
        if self._problem.only_none_counts and not isinstance(result, bool):
            return bool(expected) == (result is not None)
        return exact or (name in _ALSO_RIGHT and _ALSO_RIGHT[name](given, result, self._atol))


_ALSO_RIGHT: Final[Mapping[str, Callable[[Sequence[Any], Any, float], bool]]] = {
    "are_equivalent": lambda given, result, atol: True,
    "sum_div": lambda given, result, atol: bool(result == 0),
    "surface_Area": lambda given, result, atol: abs(result - _surface_Area(*given)) <= atol,
    "digit_distance_nums": lambda given, result, atol: bool(result == _digit_distance_nums(*given)),
}
