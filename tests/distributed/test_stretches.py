"""How work is shared among replicas, and which of it they do at the same time."""

from itertools import chain

import pytest

from ladder_eval.distributed.replicas import steps, stretches

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
    found = stretches(costs, range(len(costs)), count)
    assert [list(each) for each in found] == expected


def test_a_part_is_cut_as_if_it_were_alone():
    found = stretches([99, *COSTS, 99], range(1, 7), 3)
    assert found == [range(1, 2), range(2, 4), range(4, 7)]


def test_steps_by_hand():
    """A replica has ten pieces of 100, one 50 of 20: three steps of up to 400 for their 1000."""
    found = list(steps([100] * 10 + [20] * 50, 2))
    # A third of 1000 is 333: three of 100 and 17 of 20; two are 667: seven of 100 and 33 of 20.
    assert found == [
        (range(3), range(10, 27)),
        (range(3, 7), range(27, 43)),
        (range(7, 10), range(43, 60)),
    ]


def test_one_replica_does_a_piece_a_step():
    assert list(steps(COSTS, 1)) == [(range(place, place + 1),) for place in range(6)]


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
@pytest.mark.parametrize("pieces", [0, 1, 5, 40, 1000])
def test_every_piece_is_done_once_and_each_replicas_are_neighbours(replicas, pieces):
    costs = [1 + 37 * i % 11 for i in range(pieces)]
    own = [list(chain(*shares)) for shares in zip(*steps(costs, replicas), strict=True)]
    assert list(chain(*own)) == list(range(pieces))


@pytest.mark.parametrize("pieces", range(1, 30))
@pytest.mark.parametrize("count", [2, 3, 8])
def test_pieces_of_equal_cost_are_spread_evenly(pieces, count):
    longest = max(map(len, stretches([1] * pieces, range(pieces), count)))
    assert longest == -(-pieces // count)
