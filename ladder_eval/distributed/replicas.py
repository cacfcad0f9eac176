"""What each replica of a tensor-parallel group computes of what is computed at once."""

from collections.abc import Sequence
from itertools import accumulate, pairwise


def stretches(costs: Sequence[int], replicas: int) -> list[range]:
    """Cut a sequence of work into contiguous stretches of about equal cost, one a replica.

    Each cut is where the sum of the costs before it is closest to the cost of so many replicas.
    Contiguous, since neighbours may have something in common that a replica computes once.

    Args:
        costs: What each piece of work costs, in any unit.
        replicas: Number of stretches; some are empty where there is less work.
    """
    before = list(accumulate(costs, initial=0))
    cuts = [_closest(before, replica * before[-1] / replicas) for replica in range(1, replicas)]
    return [range(start, stop) for start, stop in pairwise((0, *cuts, len(costs)))]


def _closest(sums: Sequence[int], wanted: float) -> int:
    return min(range(len(sums)), key=lambda place: abs(sums[place] - wanted))
