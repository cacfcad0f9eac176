"""Who holds what, held against shares dealt by hand and against what must hold for any shape."""

from itertools import pairwise, product

import pytest

from ladder_eval.distributed.shares import Shape, busiest_rank, possible_sizes, shares
from ladder_eval.errors import UsageError

SMOLLM2 = Shape(
    num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536, vocab_size=49152
)
SHAPES = [
    Shape(heads, groups, 840, 1003)  # 840 is divisible by 1 to 8, 10, 12, 14, 15, ...
    for groups, width in product(range(1, 9), range(1, 9))
    for heads in [groups * width]
]
DEALS = [(shape, size) for shape in SHAPES for size in possible_sizes(shape)]


def heads(shape, tp_size):
    return [(part.query_heads, part.kv_heads) for part in shares(shape, tp_size)]


def counts(shape, tp_size):
    return [(len(query), len(kv)) for query, kv in heads(shape, tp_size)]


def flat(parts):
    return [index for part in parts for index in part]


@pytest.mark.parametrize(
    ("tp_size", "dealt"),
    [
        (1, [(9, 3)]),
        (2, [(6, 2), (3, 1)]),
        (3, [(3, 1), (3, 1), (3, 1)]),
        (4, [(3, 1), (3, 1), (2, 1), (1, 1)]),
        (6, [(2, 1), (1, 1)] * 3),
        (8, [(2, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]),
    ],
)
def test_smollm2(tp_size, dealt):
    assert counts(SMOLLM2, tp_size) == dealt


def test_ranks_of_a_split_group_hold_a_copy_of_its_key_value_head():
    assert heads(SMOLLM2, 4) == [
        (range(3), range(1)),
        (range(3, 6), range(1, 2)),
        (range(6, 8), range(2, 3)),
        (range(8, 9), range(2, 3)),
    ]


def test_channels_and_vocabulary_of_smollm2():
    first, second = shares(SMOLLM2, 2)
    assert (first.intermediate, second.intermediate) == (range(768), range(768, 1536))
    assert (first.vocabulary, second.vocabulary) == (range(24576), range(24576, 49152))


def test_a_vocabulary_that_is_not_divisible_is_cut_unevenly():
    parts = [part.vocabulary for part in shares(Shape(4, 2, 96, 83), 4)]
    assert parts == [range(21), range(21, 42), range(42, 63), range(63, 83)]


def test_there_are_many_deals_to_check():
    assert len(DEALS) > 500
    assert any(size > shape.num_key_value_heads for shape, size in DEALS)


def test_everything_is_held_once_in_order_and_no_rank_is_empty():
    for shape, size in DEALS:
        parts = shares(shape, size)
        assert len(parts) == size
        for own, total in (
            ([p.query_heads for p in parts], shape.num_attention_heads),
            ([p.intermediate for p in parts], shape.intermediate_size),
            ([p.vocabulary for p in parts], shape.vocab_size),
        ):
            assert flat(own) == list(range(total))
            assert all(own)
        assert len({len(part.intermediate) for part in parts}) == 1


def test_each_query_head_lies_beside_its_key_value_head():
    for shape, size in DEALS:
        width = shape.num_attention_heads // shape.num_key_value_heads
        for query, kv in heads(shape, size):
            assert list(kv) == sorted({head // width for head in query})
            # The kernel pairs heads by position: all groups of a rank have equally many.
            assert len(query) % len(kv) == 0
            pairs = [kv[i // (len(query) // len(kv))] for i in range(len(query))]
            assert pairs == [head // width for head in query]


def test_groups_are_split_only_where_they_are_fewer_than_ranks():
    for shape, size in DEALS:
        held = flat(kv for _, kv in heads(shape, size))
        assert sorted(set(held)) == list(range(shape.num_key_value_heads))
        assert len(held) == max(size, shape.num_key_value_heads)


def test_imbalance_is_at_most_one_group():
    for shape, size in DEALS:
        dealt = counts(shape, size)
        assert max(kv for _, kv in dealt) - min(kv for _, kv in dealt) <= 1
        width = shape.num_attention_heads // shape.num_key_value_heads
        sizes = [query for query, _ in dealt]
        assert max(sizes) - min(sizes) <= width
        # Of two ranks that share a group, none has two heads more than the other.
        for (one, own), (other, neighbours) in pairwise(heads(shape, size)):
            if own == neighbours:
                assert abs(len(one) - len(other)) <= 1


@pytest.mark.parametrize(
    ("shape", "tp_size", "sentence"),
    [
        (
            SMOLLM2,
            12,
            "tp_size=12 exceeds num_attention_heads=9; this model works with 1, 2, 3, 4, 6, 8.",
        ),
        (
            SMOLLM2,
            5,
            "tp_size=5 does not divide intermediate_size=1536; "
            "this model works with 1, 2, 3, 4, 6, 8.",
        ),
        (
            Shape(4, 2, 96, 80),
            5,
            "tp_size=5 exceeds num_attention_heads=4; this model works with 1, 2, 3, 4.",
        ),
    ],
)
def test_sizes_that_do_not_work_are_refused_with_those_that_do(shape, tp_size, sentence):
    with pytest.raises(UsageError) as caught:
        shares(shape, tp_size)
    assert str(caught.value) == sentence


def test_all_sizes_that_are_offered_work_and_no_other():
    for shape in SHAPES:
        for size in range(1, 70):
            if size in possible_sizes(shape):
                assert len(shares(shape, size)) == size
            else:
                with pytest.raises(UsageError, match=f"tp_size={size} "):
                    shares(shape, size)


@pytest.mark.parametrize(
    ("shape", "tp_size", "rank"),
    [
        (SMOLLM2, 1, 0),
        (SMOLLM2, 2, 0),  # 6 heads of 9
        (SMOLLM2, 8, 0),  # two heads, all others one
        (Shape(8, 8, 840, 1003), 8, 0),  # equal heads, and one token more than the last ranks
        (Shape(6, 2, 840, 1000), 4, 0),  # 2:1:2:1
        (Shape(7, 1, 840, 1000), 2, 0),  # 4:3
    ],
)
def test_the_busiest_rank(shape, tp_size, rank):
    assert busiest_rank(shape, tp_size) == rank


def test_no_rank_is_busier_than_the_busiest():
    for shape, tp_size in DEALS:
        parts = shares(shape, tp_size)
        own = parts[busiest_rank(shape, tp_size)]
        for part in parts:
            assert len(part.query_heads) + len(part.kv_heads) <= (
                len(own.query_heads) + len(own.kv_heads)
            )
