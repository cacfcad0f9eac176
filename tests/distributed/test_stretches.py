"""How work is shared among replicas."""

from itertools import chain

import pytest

from ladder_eval.distributed.replicas import stretches

COSTS = [12, 8, 6, 5, 5, 4]  # before each, and in all: 0, 12, 20, 26, 31, 36 and 40


@pytest.mark.parametrize(
    ("costs", "count", "expected"),
    [
        (COSTS, 1, [[0, 1, 2, 3, 4, 5]]),
        (COSTS, 2, [[0, 1], [2, 3, 4, 5]]),  # half of 40 is 20
        (COSTS, 3, [[0], [1, 2], [3, 4, 5]]),  # closest to thirds, 13.3 and 26.7: 12 and 26
        ([100, 1, 1, 1], 2, [[0], [1, 2, 3]]),
        ([1, 1, 1, 100], 2, [[0, 1, 2], [3]]),
        ([7, 7], 4, [[], [0], [], [1]]),
        ([], 2, [[], []]),
    ],
)
def test_stretches_of_about_equal_cost(costs, count, expected):
    found = stretches(costs, count)
    assert [list(each) for each in found] == expected


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
@pytest.mark.parametrize("pieces", [0, 1, 5, 40, 1000])
def test_every_piece_is_done_once_and_each_replicas_are_neighbours(replicas, pieces):
    costs = [1 + 37 * i % 11 for i in range(pieces)]
    assert list(chain(*stretches(costs, replicas))) == list(range(pieces))


@pytest.mark.parametrize("pieces", range(1, 30))
@pytest.mark.parametrize("count", [2, 3, 8])
def test_pieces_of_equal_cost_are_spread_evenly(pieces, count):
    longest = max(map(len, stretches([1] * pieces, count)))
    assert longest == -(-pieces // count)
