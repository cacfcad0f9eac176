"""Keys and values of rows that come and go: each in a slot of its own, after what several share.

One forward reads new tokens of any rows, whatever their number: one token of rows that are being
decoded, many of rows whose prompts are read. All stand in one sequence, as if of one text; who may
look at what is decided here, where the keys are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ladder_eval.models.attention import attend, in_groups
from ladder_eval.models.attention_parts import AttentionPart
from ladder_eval.models.cache import KeyValueCache

# Slots whose newest tokens are attended for at once, up to the longest of them: the more, the
# fewer calls, and the more columns that a short row reads in vain beside a long one.
_TOGETHER = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The new tokens of one slot in a forward.

    Attributes:
        slot: Where their keys and values are kept.
        start: Tokens that the slot holds already.
        count: New ones.
        prefix: Name of what stands before the slot's own tokens; None for nothing.
    """

    slot: int
    start: int
    count: int
    prefix: int | None = None

    @property
    def end(self) -> int:
        """Tokens that the slot holds afterwards."""
        return self.start + self.count


@dataclass(frozen=True, kw_only=True, slots=True)
class _Singles:
    """Slots with one new token each, out of a range of neighbours.

    Attributes:
        slots: The range.
        tokens: Places of their tokens in the forward, [rows].
        rows: Places of their slots in the range, [rows].
        columns: Columns of the longest.
        visible: Columns that each slot of the range holds, [range, 1, 1, columns].
        prefixes: Of each prefix, its name and the places in the range that it precedes.
    """

    slots: slice
    tokens: Tensor
    rows: Tensor
    columns: int
    visible: Tensor
    prefixes: tuple[tuple[int, Tensor | slice], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """One forward: where each token is kept, [tokens], and what looks at what."""

    slots: Tensor
    columns: Tensor
    singles: tuple[_Singles, ...]
    spans: tuple[tuple[int, Reading], ...]  # the place of the first token, and the reading


class SlotLayer:
    """One layer's keys and values on one rank.

    Args:
        keys: [slots, kv_heads/tp, capacity, head_dim].
        values: The same.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys = keys
        self._values = values
        self.prefixes: dict[int, tuple[Tensor, Tensor]] = {}  # [1, kv_heads/tp, prefix, head_dim]
        self.plan: _Plan | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Keep the new tokens of all planned slots, and attend from each to its own row.

        Args:
            query: [1, heads/tp, tokens, head_dim], in the order of the plan's readings.
            key: [1, kv_heads/tp, tokens, head_dim].
            value: The same.
            mask: None: the plan says what each token may look at.

        Raises:
            RuntimeError: if no forward is planned.
        """
        plan = self.plan
        if plan is None:
            raise RuntimeError("plan a forward first")
        self._keys[plan.slots, :, plan.columns] = key[0].transpose(0, 1)
        self._values[plan.slots, :, plan.columns] = value[0].transpose(0, 1)
        mixed = torch.empty_like(query)
        for singles in plan.singles:
            mixed[:, :, singles.tokens] = self._single(query[:, :, singles.tokens], singles)
        for place, reading in plan.spans:
            tokens = slice(place, place + reading.count)
            mixed[:, :, tokens] = self._span(query[:, :, tokens], reading)
        return mixed

    def reserve(self, capacity: int) -> None:
        """Make room for so many columns a slot."""
        more = capacity - self._keys.shape[2]
        self._keys = functional.pad(self._keys, (0, 0, 0, more))
        self._values = functional.pad(self._values, (0, 0, 0, more))

    def _span(self, query: Tensor, reading: Reading) -> Tensor:
        """Attention of one slot's many new tokens, [1, heads/tp, count, head_dim]."""
        keys = self._keys[reading.slot, None, :, : reading.end]
        values = self._values[reading.slot, None, :, : reading.end]
        if reading.prefix is not None:
            before = self.prefixes[reading.prefix]
            keys, values = torch.cat((before[0], keys), 2), torch.cat((before[1], values), 2)
        earlier = keys.shape[2] - reading.count
        if not earlier:
            return attend(query, keys, values, None)
        every = torch.ones(reading.count, keys.shape[2], dtype=torch.bool, device=query.device)
        return attend(query, keys, values, every.tril(earlier))

    def _single(self, query: Tensor, singles: _Singles) -> Tensor:
        """Attention of slots with one new token each, [1, heads/tp, rows, head_dim]."""
        keys = self._keys[singles.slots, :, : singles.columns]
        values = self._values[singles.slots, :, : singles.columns]
        own = query[0].transpose(0, 1)  # [rows, heads/tp, head_dim]
        if len(own) == len(keys):
            rows = own[:, :, None]
        else:  # a slot between them is being filled, or free: nobody looks at what it gives
            rows = own.new_zeros(len(keys), *own.shape[1:])[:, :, None]
            rows[singles.rows, :, 0] = own
        if singles.prefixes:
            mixed = self._after_prefixes(rows, keys, values, singles)
        else:
            mixed = attend(rows, keys, values, singles.visible)
        if len(own) != len(keys):
            mixed = mixed[singles.rows]
        return mixed[:, :, 0].transpose(0, 1)[None]

    def _after_prefixes(
        self, query: Tensor, keys: Tensor, values: Tensor, singles: _Singles
    ) -> Tensor:
        """Attention of [rows, heads/tp, 1, head_dim] to own columns and to what precedes them.

        A prefix is read once for all of its rows.
        """
        grouped = in_groups(query, keys.shape[1]) * keys.shape[3] ** -0.5
        parts = AttentionPart.of(grouped, keys, values, singles.visible)
        for name, rows in singles.prefixes:
            parts.add(AttentionPart.of_all(grouped[rows], *self.prefixes[name]), rows)
        return parts.mixed().to(query.dtype).reshape(query.shape)


class SlotCache:
    """The slots of all layers, and the prefixes that stand before them.

    Attributes:
        capacity: Columns that each slot has room for.
        length: 0: rows differ, and positions are given with every forward.

    Args:
        layers: Number of layers.
        shape: Of each layer's keys, [slots, kv_heads/tp, capacity, head_dim].
        like: A tensor whose dtype and device the cache takes.
    """

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Tensor) -> None:
        self.length = 0
        self._device = like.device
        self.capacity = shape[2]
        self.layers = [
            # Zeros, not what memory holds: a column that is masked must still be a number.
            SlotLayer(*(torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in "kv"))
            for _ in range(layers)
        ]

    def share(self, name: int, prefix: KeyValueCache) -> None:
        """Let what a cache of one row holds stand before the slots that name it."""
        for layer, read in zip(self.layers, prefix.layers, strict=True):
            layer.prefixes[name] = read.filled()

    def forget(self, name: int) -> None:
        """Give a prefix's memory back."""
        for layer in self.layers:
            del layer.prefixes[name]

    def plan(self, readings: Sequence[Reading]) -> None:
        """Prepare the next forward, whose tokens are those of the readings, one after another."""
        slots = [reading.slot for reading in readings for _ in range(reading.count)]
        columns = [column for r in readings for column in range(r.start, r.end)]
        places = _places(readings)
        plan = _Plan(
            slots=torch.tensor(slots, device=self._device),
            columns=torch.tensor(columns, device=self._device),
            singles=tuple(self._singles(readings, places)),
            spans=tuple((places[i], r) for i, r in enumerate(readings) if r.count > 1),
        )
        for layer in self.layers:
            layer.plan = plan

    def reserve(self, columns: int, most: int) -> None:
        """Make room for so many columns, by half more than there was if it is too small.

        Args:
            columns: How many are needed.
            most: How many will ever be.
        """
        if columns > self.capacity:
            self.capacity = max(columns, min(most, self.capacity + self.capacity // 2))
            for layer in self.layers:
                layer.reserve(self.capacity)

    def _singles(self, readings: Sequence[Reading], places: Sequence[int]) -> list[_Singles]:
        ranges: dict[int, list[tuple[int, Reading]]] = {}
        pairs = zip(places, readings, strict=True)
        for place, reading in sorted(pairs, key=lambda pair: pair[1].slot):
            if reading.count == 1:
                ranges.setdefault(reading.slot // _TOGETHER, []).append((place, reading))
        return [self._range(members) for members in ranges.values()]

    def _range(self, members: Sequence[tuple[int, Reading]]) -> _Singles:
        readings = [reading for _, reading in members]
        first, last = min(r.slot for r in readings), max(r.slot for r in readings)
        # A slot between them that has no new token looks at one column, for nobody.
        ends, names = [1] * (last + 1 - first), dict[int, list[int]]()
        for reading in readings:
            ends[reading.slot - first] = reading.end
            if reading.prefix is not None:
                names.setdefault(reading.prefix, []).append(reading.slot - first)
        columns = torch.arange(max(ends), device=self._device)
        return _Singles(
            slots=slice(first, last + 1),
            tokens=self._tensor([place for place, _ in members]),
            rows=self._tensor([reading.slot - first for reading in readings]),
            columns=max(ends),
            visible=(columns < self._tensor(ends)[:, None])[:, None, None],
            prefixes=tuple((name, self._rows(rows, len(ends))) for name, rows in names.items()),
        )

    def _rows(self, rows: Sequence[int], count: int) -> Tensor | slice:
        """Rows of so many; all of them as a slice, which copies nothing."""
        return slice(None) if len(rows) == count else self._tensor(rows)

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self._device)


def _places(readings: Sequence[Reading]) -> list[int]:
    """Where each reading's tokens begin in a forward."""
    places, place = [], 0
    for reading in readings:
        places.append(place)
        place += reading.count
    return places
