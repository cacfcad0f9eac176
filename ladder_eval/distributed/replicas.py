"""What each replica of a tensor-parallel group computes, and how rank 0 learns what it finds."""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from ladder_eval.distributed.team import Team

_T = TypeVar("_T")

# How often rank 0, when it is done, looks whether others have found something.
_LOOK_SECONDS = 0.01


def stretches(costs: Sequence[int], count: int) -> list[range]:
    """Share a sequence of work among replicas: places of pieces, about equal in cost, for each.

    Each has one contiguous stretch, since neighbours may have something in common that is then
    computed once. A cut is where the sum of the costs before it is closest to that of so many
    equal stretches.

    Args:
        costs: What each piece of work costs, in any unit.
        count: How many replicas there are; some may have none of it.
    """
    before = list(accumulate(costs, initial=0))
    cuts = [_closest(before, number * before[-1] / count) for number in range(1, count)]
    return [range(start, stop) for start, stop in pairwise((0, *cuts, len(costs)))]


def post(team: Team, own: Iterable[object], met: tuple[type[Exception], ...]) -> None:
    """First rank of another replica: compute the own share, and send each piece to rank 0.

    Args:
        team: The team.
        own: Computes it piece by piece.
        met: Errors after which the ranks go on; rank 0 gets them, too.
    """
    error = None
    try:
        for found in own:
            team.post((False, found))
    except met as caught:
        error = caught
    team.post((True, error))


def collected(team: Team, own: Iterable[_T], met: tuple[type[Exception], ...]) -> Iterator[_T]:
    """Rank 0: what all replicas find, the others' as soon as its own next piece is done.

    All have ended when this does.

    Args:
        team: The team.
        own: Computes rank 0's share piece by piece.
        met: Errors after which the ranks go on.

    Raises:
        Exception: one of these errors, when all replicas have ended; the first replica's.
        WorkerError: if a rank has died.
    """
    computing = list(range(team.tp.size, team.replicas * team.tp.size, team.tp.size))
    errors: dict[int, Exception] = {}

    def arrived() -> Iterator[_T]:
        for rank in tuple(computing):
            for is_over, found in team.posted(rank):
                if not is_over:
                    yield found
                    continue
                computing.remove(rank)
                if found is not None:
                    errors[rank] = found

    try:
        for found in own:
            yield found
            yield from arrived()
    except met as error:
        errors[team.rank] = error
    while computing:
        yield from arrived()
        time.sleep(_LOOK_SECONDS)
    if errors:
        raise errors[min(errors)]


def _closest(sums: Sequence[int], wanted: float) -> int:
    """Where an ascending sequence is closest to a number within it; of two places the first."""
    place = bisect_left(sums, wanted)
    return min((max(0, place - 1), place), key=lambda near: abs(sums[near] - wanted))
