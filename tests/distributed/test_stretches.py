"""How work that is done at once is cut into stretches, one a replica."""

import pytest

from ladder_eval.distributed.replicas import stretches


@pytest.mark.parametrize(
    ("costs", "replicas", "expected"),
    [
        # Half of 40 is 20: of the sums before each place, 0, 12, 20, 26, 31, 36 and 40, the third.
        ([12, 8, 6, 5, 5, 4], 2, [[0, 1], [2, 3, 4, 5]]),
        # Thirds are 13.3 and 26.7: the closest sums are 12 and 26.
        ([12, 8, 6, 5, 5, 4], 3, [[0], [1, 2], [3, 4, 5]]),
        ([12, 8, 6, 5, 5, 4], 1, [[0, 1, 2, 3, 4, 5]]),
        ([100, 1, 1, 1], 2, [[0], [1, 2, 3]]),
        ([1, 1, 1, 100], 2, [[0, 1, 2], [3]]),
        ([7, 7], 4, [[], [0], [], [1]]),
        ([], 2, [[], []]),
    ],
)
def test_stretches_of_about_equal_cost(costs, replicas, expected):
    assert [list(stretch) for stretch in stretches(costs, replicas)] == expected


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
def test_every_piece_is_in_one_stretch(replicas):
    costs = [(37 * i) % 11 for i in range(40)]  # some cost nothing
    found = [place for stretch in stretches(costs, replicas) for place in stretch]
    assert found == list(range(40))


@pytest.mark.parametrize("pieces", range(1, 30))
@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_pieces_of_equal_cost_are_spread_evenly(pieces, replicas):
    """No replica gets more rows than the batch size that the user gave."""
    longest = max(map(len, stretches([1] * pieces, replicas)))
    assert longest == -(-pieces // replicas)
