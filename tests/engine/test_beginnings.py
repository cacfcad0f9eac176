"""Texts in order and what neighbours have in common, against tuples compared token by token."""

import random
from itertools import pairwise, takewhile

import pytest

from ladder_eval.engine.beginnings import in_order


def beginning(texts):
    """What all begin with, token by token."""
    alike = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*texts, strict=False))
    return [tokens[0] for tokens in alike]


def drawn(seed):
    """Texts over few tokens, so that they begin alike, end within others and come again."""
    chance = random.Random(seed)
    # Of one, two and four bytes, so that the order of bytes isn't that of numbers by itself.
    tokens = (0, 1, 255, 256, 128_255)
    return [
        tuple(chance.choices(tokens, (4, 2, 1, 1, 1), k=chance.randint(0, 7)))
        for _ in range(chance.randint(1, 40))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_order_and_beginnings_are_those_of_tuples(seed):
    texts = drawn(seed)
    order, common = in_order(texts)
    assert order == sorted(range(len(texts)), key=lambda index: texts[index])
    pairs = pairwise(texts[index] for index in order)
    assert common.tolist() == [0, *(len(beginning(pair)) for pair in pairs)]


@pytest.mark.parametrize("seed", range(10))
def test_what_all_of_a_stretch_have_in_common_its_neighbours_have(seed):
    texts = drawn(seed)
    order, common = in_order(texts)
    for first in range(len(order)):
        for last in range(first + 1, len(order)):
            every = beginning([texts[index] for index in order[first : last + 1]])
            assert common[first + 1 : last + 1].min() == len(every)


def test_equal_texts_keep_the_order_in_which_they_came():
    order, common = in_order([(2,), (1, 5), (2,), (1,), (2,)])
    assert order == [3, 1, 0, 2, 4]
    assert common.tolist() == [0, 1, 0, 1, 1]


def test_no_texts_have_no_order():
    order, common = in_order([])
    assert order == []
    assert common.tolist() == []
