"""Rows and packed batches, held against tensors written out by hand."""

import pytest

from ladder_eval.engine.batching import Batch, Branch, Row, ScoringRequest, Target, packed

# The texts 1 2 3, 1 2 3 8 and 1 2 3 4 5, asked for what follows 3, 8 and 5.
TREE = Row(
    ids=(1, 2, 3, 8, 4, 5),
    positions=(0, 1, 2, 3, 3, 4),
    branches=(Branch(0, ()), Branch(3, (0, 1, 2)), Branch(4, (0, 1, 2))),
    targets=(Target(0, 2, 7), Target(1, 2, 8), Target(1, 3, 9), Target(2, 2, 4), Target(2, 5, 6)),
)
LINE = Row((4, 5), (6, 7), (Branch(0, ()),), (Target(3, 1, 9),))


def test_what_is_read_of_a_request_is_all_but_its_last_token():
    assert ScoringRequest((1, 2), (3, 4)).read == (1, 2, 3)


def test_rows_are_packed_without_padding():
    batch = packed([TREE, LINE])
    assert batch.ids.tolist() == [[1, 2, 3, 8, 4, 5, 4, 5]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 3, 4, 6, 7]]
    assert batch.layout.columns.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 6, 6, 6, 6]]
    assert batch.layout.places.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    shorter_first = packed([LINE, TREE]).layout
    assert shorter_first.places.tolist() == [0, 1, 6, 7, 8, 9, 10, 11]


def test_a_position_that_predicts_several_tokens_is_computed_once():
    batch = packed([TREE, LINE])
    assert batch.sources.tolist() == [2, 3, 5, 7]
    assert batch.predicted_by.tolist() == [0, 0, 0, 1, 2, 3]
    assert batch.requests.tolist() == [0, 1, 2, 1, 2, 3]
    assert batch.targets.tolist() == [7, 8, 4, 9, 6, 9]


def test_branches_see_what_they_grow_on_and_themselves():
    mask = packed([TREE, LINE]).layout.mask
    assert mask[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0, 0],  # 1
        [1, 1, 0, 0, 0, 0],  # 2
        [1, 1, 1, 0, 0, 0],  # 3
        [1, 1, 1, 1, 0, 0],  # 8
        [1, 1, 1, 0, 1, 0],  # 4
        [1, 1, 1, 0, 1, 1],  # 5
    ]
    assert mask[1, 0, :2, :2].int().tolist() == [[1, 0], [1, 1]]
    assert packed([LINE, LINE]).layout.mask is None


def test_a_batch_counts_what_of_its_prefix_is_new():
    batch = Batch(((1, 2), (3,)), (TREE, LINE), new_prefix=1)
    assert (batch.tokens, batch.requests) == (1 + 6 + 2, {0, 1, 2, 3})


@pytest.mark.parametrize(("context", "continuation"), [((), (1,)), ((1,), ())])
def test_nothing_can_be_predicted_from_or_of_nothing(context, continuation):
    with pytest.raises(ValueError, match="at least one token"):
        ScoringRequest(context, continuation)
