"""Values through JSON, with their types."""

import json
import math
from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import numpy as np
import pytest

from ladder_eval.harness.code.inside.values import Digest, Opaque, decode, encode


def through(value):
    return decode(json.loads(json.dumps(encode(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        0.1,
        -0.0,
        math.inf,
        5e-324,
        1j,
        complex(-0.0, math.inf),
        "",
        "ä\ud800\x00",
        b"\xff\x00",
        [],
        ["int", "0x1"],
        (1, (2.0, [3])),
        {1: "a", "1": (2,), (1, 2): {3}, None: 1.5},
        {1, "a", (2, 3)},
        frozenset({frozenset({1})}),
        Decimal("1.10"),
        Fraction(10**30, 7),
        np.float64(0.1),
        np.int32(7),
        np.bool_(True),
        np.complex128(1j),
    ],
)
def test_values_keep_type_and_content(value):
    found = through(value)
    assert type(found) is type(value)
    assert found == value or str(found) == str(value)


def test_integers_may_have_any_length():
    assert through([-(10**6000), 2**63]) == [-(10**6000), 2**63]


def test_nan_stays_nan():
    assert math.isnan(through([math.nan])[0])


def test_types_inside_containers_stay_apart():
    assert [type(part) for part in through([1, 1.0, True, "1"])] == [int, float, bool, str]


class Weekday(IntEnum):
    MONDAY = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (namedtuple("Pair", "a b")(1, 2), (1, 2)),
        (Weekday.MONDAY, 1),
    ],
)
def test_subclasses_become_what_they_equal(value, plain):
    assert through(value) == plain == value


class Agreeable:
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize("value", [Agreeable(), (x for x in [1]), range(3), np.zeros(2), object])
def test_what_has_no_form_equals_nothing(value):
    found = through(value)
    assert isinstance(found, Opaque)
    assert found != 1
    assert found != found  # noqa: PLR0124
    assert through([value]) != [1]


def test_a_list_in_itself_has_no_form():
    value = []
    value.append(value)
    assert isinstance(through(value), Opaque)


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1}',
        '["system", "ls"]',
        "[]",
        "[1]",
        '["int", "zz"]',
        '["dict", 1]',
        '["set", ["list"]]',
        '["numpy", "O", 1]',
        '["numpy", "<f8", "1"]',
        '["decimal", []]',
        '["fraction", 1, 0]',
        "[" * 3000 + "]" * 3000,
    ],
)
def test_what_nobody_encoded_is_refused(line):
    with pytest.raises((ValueError, RecursionError)):
        decode(json.loads(line))


@pytest.mark.parametrize(
    ("value", "equal", "other"),
    [
        ("a" * 10**6, "a" * 10**6, "a" * 999_999 + "b"),
        ([(1, 2)] * 99_999, [(1.0, True + 1)] * 99_999, [(1, 2)] * 99_998 + [(1, 3)]),
        ([[1]] * 99_999, [[1]] * 99_999, [(1,)] * 99_999),
        ({i: [i] for i in range(9999)}, {i: [i] for i in reversed(range(9999))}, {0: [0]}),
        (set(range(99_999)), {float(i) for i in range(99_999)}, frozenset({1})),
        (tuple([i] for i in range(9999)), tuple([i] for i in range(9999)), (1,)),
        ([2**640_000], [2**640_000], [2**640_001]),
    ],
)
def test_large_values_become_digests_that_are_equal_where_they_are(
    monkeypatch, value, equal, other
):
    monkeypatch.setattr("ladder_eval.harness.code.inside.values._LARGE", 5000)
    found = through(value)
    assert isinstance(found, Digest)
    assert found == through(found) == through(equal)
    assert found not in (through(other), value)
