"""Packing, held against rows, positions and masks written out by hand."""

import pytest

from ladder_eval.engine.batching import ScoringRequest, batches, pack

TREE = [
    ScoringRequest((1, 2, 3), (7,)),
    ScoringRequest((1, 2, 3), (8, 9)),
    ScoringRequest((1, 2, 3), (4, 5, 6)),
]


def test_row_holds_the_context_once_and_no_last_token():
    (row,) = pack(TREE)
    (batch,) = batches([row], batch_size=4)
    assert row.length == batch.tokens == 6
    assert batch.ids.tolist() == [[1, 2, 3, 8, 4, 5]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 3, 4]]


def test_each_target_is_read_where_it_is_predicted():
    (batch,) = batches(pack(TREE), batch_size=4)
    assert batch.requests.tolist() == [0, 1, 1, 2, 2, 2]
    assert batch.sources.tolist() == [2, 2, 3, 2, 4, 5]
    assert batch.targets.tolist() == [7, 8, 9, 4, 5, 6]


def test_branches_see_the_context_and_themselves():
    (batch,) = batches(pack(TREE), batch_size=4)
    assert batch.mask.int().tolist() == [
        [
            [
                [1, 0, 0, 0, 0, 0],  # 1
                [1, 1, 0, 0, 0, 0],  # 2
                [1, 1, 1, 0, 0, 0],  # 3
                [1, 1, 1, 1, 0, 0],  # 8
                [1, 1, 1, 0, 1, 0],  # 4
                [1, 1, 1, 0, 1, 1],  # 5
            ]
        ]
    ]


def test_second_row_is_padded_and_its_sources_lie_in_it():
    requests = [ScoringRequest((1, 2), (3,)), ScoringRequest((4, 5, 6), (7, 8))]
    (batch,) = batches(pack(requests), batch_size=2)
    assert batch.ids.tolist() == [[4, 5, 6, 7], [1, 2, 0, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 3], [0, 1, 0, 0]]
    assert batch.requests.tolist() == [1, 1, 0]
    assert batch.sources.tolist() == [2, 3, 4 + 1]
    assert batch.mask is None
    assert batch.tokens == 6


def test_rows_come_longest_first_and_batches_are_full():
    requests = [ScoringRequest((5,) * size, (1,)) for size in (3, 300, 20, 4, 50)]
    rows = pack(requests)
    assert [row.length for row in rows] == [300, 50, 20, 4, 3]
    assert [batch.ids.shape for batch in batches(rows, 2)] == [(2, 300), (2, 20), (1, 3)]


@pytest.mark.parametrize(("context", "continuation"), [((), (1,)), ((1,), ())])
def test_nothing_can_be_predicted_from_or_of_nothing(context, continuation):
    with pytest.raises(ValueError, match="at least one token"):
        ScoringRequest(context, continuation)
