"""Attention in slots against plain softmax, in float64, over each row's own columns."""

import math
import random

import pytest
import torch
from torch.testing import assert_close

from ladder_eval.models.attention_parts import AttentionPart
from ladder_eval.models.cache import KeyValueCache
from ladder_eval.models.slots import Reading, SlotCache

HEADS, KV_HEADS, WIDTH = 6, 2, 8
LIKE = torch.zeros(1)


def plainly(query, keys, values):
    """Of one token, [heads, width], over [kv_heads, columns, width]: head by head."""
    found = []
    for head in range(HEADS):
        own = head // (HEADS // KV_HEADS)
        scores = keys[own].double() @ query[head].double() / math.sqrt(WIDTH)
        found.append(scores.softmax(0) @ values[own].double())
    return torch.stack(found).float()


class Rows:
    """A cache of one layer, and the same columns as plain tensors, a row each."""

    def __init__(self, slots, prefixes, capacity=64):
        self.cache = SlotCache(1, (slots, KV_HEADS, capacity, WIDTH), LIKE)
        self.prefixes = {None: (self.some(0), self.some(0))}
        for name, length in prefixes.items():
            whole = KeyValueCache(1, (1, KV_HEADS, length, WIDTH), LIKE)
            key, value = self.some(length), self.some(length)
            whole.layers[0].append(key[None], value[None])
            self.cache.share(name, whole)
            self.prefixes[name] = (key, value)
        self.held = {slot: (self.some(0), self.some(0)) for slot in range(slots)}

    def some(self, tokens, heads=KV_HEADS):
        return torch.randn(heads, tokens, WIDTH)

    def read(self, readings):
        """Attend from new tokens; returns what was found and what should be, [heads, tokens]."""
        count = sum(reading.count for reading in readings)
        query, key, value = self.some(count, HEADS), self.some(count), self.some(count)
        self.cache.plan(readings)
        found = self.cache.layers[0].attend(query[None], key[None], value[None], None)[0]
        expected, place = torch.empty_like(query), 0
        for reading in readings:
            for at in range(place, place + reading.count):
                new = key[:, at : at + 1], value[:, at : at + 1]
                own = zip(self.held[reading.slot], new, strict=True)
                self.held[reading.slot] = tuple(torch.cat(pair, 1) for pair in own)
                before = zip(self.prefixes[reading.prefix], self.held[reading.slot], strict=True)
                expected[:, at] = plainly(query[:, at], *(torch.cat(pair, 1) for pair in before))
            place += reading.count
        return found, expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("prefixes", [{}, {4: 20}, {4: 20, 9: 3}], ids=str)
def test_each_token_looks_at_its_prefix_and_its_own_row(prefixes, seed):
    """Forwards of any slots with any number of new tokens each; some are taken anew in between."""
    torch.manual_seed(seed)
    draw, slots = random.Random(seed), 20
    rows = Rows(slots, prefixes)
    names = {slot: draw.choice([None, *prefixes]) for slot in range(slots)}
    for _ in range(8):
        for slot in draw.sample(range(slots), 3):  # taken by another row
            rows.held[slot] = (rows.some(0), rows.some(0))
            names[slot] = draw.choice([None, *prefixes])
        readings = [
            Reading(
                slot=slot,
                start=rows.held[slot][0].shape[1],
                count=draw.choice((1, 1, 1, 5)),
                prefix=names[slot],
            )
            for slot in draw.sample(range(slots), draw.randint(1, slots))
        ]
        rows.cache.reserve(max(reading.end for reading in readings), 10**6)
        assert_close(*rows.read(readings), rtol=0, atol=1e-5)


def test_a_short_row_is_not_read_as_far_as_a_long_one_in_another_range():
    torch.manual_seed(0)
    rows = Rows(32, {})
    rows.read([Reading(slot=31, start=0, count=60), Reading(slot=0, start=0, count=2)])
    rows.cache.plan([Reading(slot=0, start=2, count=1), Reading(slot=31, start=60, count=1)])
    singles = rows.cache.layers[0].plan.singles
    assert [(s.slots, s.columns) for s in singles] == [(slice(0, 1), 3), (slice(31, 32), 61)]


def test_more_columns_keep_those_that_are_filled():
    torch.manual_seed(1)
    rows = Rows(2, {}, capacity=4)
    rows.read([Reading(slot=0, start=0, count=4), Reading(slot=1, start=0, count=2)])
    rows.cache.reserve(5, 10**6)
    assert rows.cache.capacity == 6
    rows.cache.reserve(3, 10**6)
    assert rows.cache.capacity == 6
    pair = [Reading(slot=0, start=4, count=1), Reading(slot=1, start=2, count=1)]
    assert_close(*rows.read(pair), rtol=0, atol=1e-5)


def test_nothing_is_attended_to_without_a_plan():
    with pytest.raises(RuntimeError, match="plan a forward"):
        SlotCache(1, (1, 1, 1, 1), LIKE).layers[0].attend(*[torch.ones(1, 1, 1, 1)] * 3, None)


def test_parts_add_up_whatever_their_largest_scores():
    """Scores of 0 and 200, where exp alone would overflow float32: the larger decide."""
    query, value = torch.ones(1, 1, 1, 1), torch.tensor([[[[3.0]]]])
    small = AttentionPart.of(
        query, torch.tensor([[[[0.0], [0.0]]]]), value.expand(1, 1, 2, 1), None
    )
    large = AttentionPart.of(query, torch.tensor([[[[200.0]]]]), 2 * value, None)
    small.add(large, slice(None))
    assert small.mixed().item() == 6.0
    large.add(AttentionPart.of(query, torch.tensor([[[[200.0]]]]), 4 * value, None), slice(None))
    assert large.mixed().item() == 9.0
