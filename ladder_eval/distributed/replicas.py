"""What each replica of a tensor-parallel group computes, and which of it at the same time."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

# What a replica does before all wait for each other, in the costliest pieces of work: several, so
# that all have about the same to do, and few, since only then does rank 0 have the answers.
_PIECES_A_STEP: Final = 4


def steps(costs: Sequence[int], replicas: int) -> Iterator[tuple[range, ...]]:
    """Share a sequence of work among replicas, in steps that cost each of them about the same.

    A replica has one contiguous stretch of it, since neighbours may have something in common that
    is then computed once.

    Args:
        costs: What each piece of work costs, in any unit.
        replicas: How many replicas there are; alone, one does a piece a step.

    Returns:
        For each replica the places of its pieces; some have none.
    """
    places = range(len(costs))
    if replicas == 1:
        return ((range(place, place + 1),) for place in places)
    of_step = replicas * _PIECES_A_STEP * max(costs, default=1)
    own = stretches(costs, places, replicas)
    return zip(*(stretches(costs, part, -(-sum(costs) // of_step)) for part in own), strict=True)


def stretches(costs: Sequence[int], places: range, count: int) -> list[range]:
    """Cut a part of a sequence of work into contiguous stretches of about equal cost.

    Each cut is where the sum of the costs before it is closest to that of so many equal stretches.
    """
    before = list(accumulate((costs[place] for place in places), initial=0))
    cuts = [_closest(before, number * before[-1] / count) for number in range(1, count)]
    ends = [places.start + cut for cut in (0, *cuts, len(places))]
    return [range(start, stop) for start, stop in pairwise(ends)]


def _closest(sums: Sequence[int], wanted: float) -> int:
    """Where an ascending sequence is closest to a number within it; of two places the first."""
    place = bisect_left(sums, wanted)
    return min((max(0, place - 1), place), key=lambda near: abs(sums[near] - wanted))
