"""Which prompts are being continued, and what the next forward reads of each; no tensors.

All ranks keep the same schedule: it depends on the requests and on the tokens that rank 0 sends.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from ladder_eval.engine.prefixes import groups


@dataclass(slots=True, eq=False)
class Row:
    """A text that is being written.

    Attributes:
        request: Index of its request.
        ids: Its prompt, and what has been generated.
        shared: Leading ids that a prefix holds.
        prefix: Name of that prefix; None for none.
        read: Ids whose keys and values are kept.
        slot: Where they are; -1 while the row waits.
    """

    request: int
    ids: list[int]
    shared: int = 0
    prefix: int | None = None
    read: int = 0
    slot: int = -1

    @property
    def unread(self) -> int:
        """Ids that the model has still to read, the last of which the next token follows."""
        return len(self.ids) - self.read


@dataclass(frozen=True, slots=True)
class Work:
    """What a forward reads of a row: so many of its ids, from the first unread one."""

    row: Row
    count: int

    @property
    def places(self) -> range:
        """Positions of these ids in the row's text."""
        return range(self.row.read, self.row.read + self.count)

    @property
    def tokens(self) -> list[int]:
        """The ids."""
        return self.row.ids[self.places.start : self.places.stop]

    @property
    def is_last(self) -> bool:
        """Whether the row's next token follows."""
        return self.count == self.row.unread


class Schedule:
    """Rows in slots, of which a free one is filled at once, and rows that wait.

    Rows with one prefix come together, so that few prefixes are held at a time; those that may
    take longest come first, so that no long one is left alone at the end.

    Args:
        prompts: Token ids of each request.
        lengths: Most tokens that each may generate.
        slots: Rows at a time.
        prefix_room: Tokens of prefixes that may be held at a time; one may always be.
    """

    def __init__(
        self,
        prompts: Sequence[tuple[int, ...]],
        lengths: Sequence[int],
        *,
        slots: int,
        prefix_room: int,
    ) -> None:
        self.slots = slots
        self._prefix_room = prefix_room
        self._waiting = deque(_ordered(prompts, lengths))
        self._rows: dict[int, Row] = {}
        self._users = Counter(row.prefix for row in self._waiting)
        self._held: dict[int, int] = {}  # name → tokens

    @property
    def goes_on(self) -> bool:
        """Whether any text isn't over."""
        return bool(self._waiting or self._rows)

    @property
    def longest(self) -> int:
        """Ids of the row with most beside its prefix."""
        return max(len(row.ids) - row.shared for row in (*self._waiting, *self._rows.values()))

    @property
    def first(self) -> Row:
        """The row that comes first, of those in slots or else of those that wait."""
        return next(iter(self.rows), None) or self._waiting[0]

    @property
    def rows(self) -> list[Row]:
        """The rows in slots, by slot."""
        return [self._rows[slot] for slot in sorted(self._rows)]

    def next_row(self) -> Row | None:
        """The row that a slot is free for, and room for its prefix; None for none."""
        if not self._waiting or len(self._rows) == self.slots:
            return None
        row = self._waiting[0]
        is_new = row.prefix is not None and row.prefix not in self._held
        if is_new and self._held and sum(self._held.values()) + row.shared > self._prefix_room:
            return None
        return row

    def needs_prefix(self, row: Row) -> bool:
        """Whether a row's prefix has to be read before the row."""
        return row.prefix is not None and row.prefix not in self._held

    def admit(self, row: Row) -> None:
        """Give the next row the first free slot; its prefix has been read."""
        self._waiting.popleft()
        row.slot = next(slot for slot in range(self.slots) if slot not in self._rows)
        row.read = row.shared
        self._rows[row.slot] = row
        if row.prefix is not None:
            self._held[row.prefix] = row.shared

    def work(self, prompt_tokens: int) -> list[Work]:
        """What the next forward reads: of a text its newest token, of prompts so many in all."""
        found, left = [], prompt_tokens
        for row in self.rows:
            count = 1 if row.unread == 1 else min(row.unread, left)
            left -= 0 if row.unread == 1 else count
            if count:
                found.append(Work(row, count))
        return found

    def finish(self, row: Row) -> int | None:
        """Free a row's slot; returns the name of a prefix that nobody needs any more, if so."""
        del self._rows[row.slot]
        self._users[row.prefix] -= 1
        if row.prefix is None or self._users[row.prefix]:
            return None
        del self._held[row.prefix]
        return row.prefix

    def restart(self, slots: int) -> None:
        """Let all rows wait again, first of all, with what they have generated; forget prefixes."""
        for row in reversed(self.rows):
            row.slot, row.read = -1, 0
            self._waiting.appendleft(row)
        self._rows, self._held, self.slots = {}, {}, slots


def _ordered(prompts: Sequence[tuple[int, ...]], lengths: Sequence[int]) -> list[Row]:
    def cost(row: Row) -> tuple[int, int, int]:
        return lengths[row.request], len(row.ids), -row.request

    found = []
    for name, group in enumerate(groups(prompts)):
        prefix = name if group.shared else None
        members = [Row(i, list(prompts[i]), group.shared, prefix) for i in group.members]
        found.append(sorted(members, key=cost, reverse=True))
    # Rows without a prefix are groups of one, so that they are ordered among themselves.
    found.sort(key=lambda rows: cost(rows[0]), reverse=True)
    return [row for rows in found for row in rows]
