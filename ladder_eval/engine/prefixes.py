"""Which prompts begin alike, so that what they share is read once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ladder_eval.engine.beginnings import in_order

# A shorter beginning costs more calls, at every token of its prompts, than it spares reading.
SHORTEST = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts with one beginning.

    Attributes:
        members: Their indices.
        shared: Tokens of the beginning; each prompt is at least one longer. 0 for none.
    """

    members: tuple[int, ...]
    shared: int

    @property
    def saved(self) -> int:
        """Tokens that needn't be read, since others have the same."""
        return (len(self.members) - 1) * self.shared


def groups(prompts: Sequence[tuple[int, ...]], shortest: int = SHORTEST) -> list[Group]:
    """Put prompts that begin alike together, so that as few tokens as possible are read.

    A prompt has one group: of a header that all share and longer ones within it, what saves more
    is taken. Neighbours in alphabetical order are joined, those with most in common first, where
    the joined group saves at least what its two parts do.

    Args:
        prompts: Token ids of each.
        shortest: Tokens that a beginning needs.
    """
    order, found = in_order(prompts)
    # Each keeps a token of its own; where one prompt is all of a beginning, it comes first.
    common = np.minimum(found[1:], [len(prompts[index]) - 1 for index in order[:-1]]).tolist()
    spans = {place: _Span(place, place, [Group((index,), 0)]) for place, index in enumerate(order)}
    for left in sorted(range(len(common)), key=lambda place: -common[place]):
        before, after = spans[left], spans[left + 1]
        shared = common[left] if common[left] >= shortest else 0
        joined = Group(tuple(order[before.first : after.last + 1]), shared)
        parts = before.parts + after.parts
        if shared and joined.saved >= sum(part.saved for part in parts):
            parts = [joined]
        # Only the ends of a span are looked up again.
        spans[before.first] = spans[after.last] = _Span(before.first, after.last, parts)
    return spans[0].parts if spans else []


@dataclass(frozen=True, slots=True)
class _Span:
    """Neighbours in alphabetical order, and the groups that they are divided into."""

    first: int
    last: int
    parts: list[Group]
