"""Which tokens are computed once: requests as a prefix tree, and batches that walk it.

A text is what a model reads to answer requests. Sorted texts are a prefix tree: those below a node
stand together, and each begins as its neighbours do. The tree is walked depth first. Where enough
texts share enough of their contexts, a batch's *prefix* is computed once for all of them, and its
keys and values are kept until the walk leaves them. Texts that go together in less than a batch,
such as a question with its choices, are one *row* instead, in which each branch sees only itself
and what it grows on.

No more is ever kept than the keys and values of one text.
"""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np

from ladder_eval.engine.batching import Batch, Branch, Row, ScoringRequest, Target, Tokens
from ladder_eval.engine.beginnings import in_order

# A row has a square mask: beyond this many tokens a prefix is better, if it pays at all.
_ROW_TOKENS = 512
# Texts go into one row if at least this share of the longest is common to all.
_COMMON_SHARE = 0.25
# Rows of a batch are as wide as the widest where attention reads them: how many more tokens than
# there are that may be.
_WIDEST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchLimits:
    """How much is computed together.

    Attributes:
        tokens: Tokens in one forward, unless a single row has more.
        rows: Rows in one forward.
    """

    tokens: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Text:
    """What is read, and for which requests."""

    ids: Tokens
    requests: tuple[int, ...]


def plan(
    requests: Sequence[ScoringRequest], limits: BatchLimits, missing: Set[int] | None = None
) -> list[Batch]:
    """Batches that answer requests, in the order in which they share the most.

    The plan depends on nothing but its arguments. Batches of which nothing is known yet are those
    of a plan of all requests, so that a run that goes on computes what it would have computed.

    Args:
        requests: All requests.
        limits: How much is computed together.
        missing: Indexes of those without an answer; None for all.
    """
    every = _planned(range(len(requests)), requests, limits)
    if missing is None:
        return list(_fresh(every))
    untouched = [batch for batch in every if batch.requests <= missing]
    rest = set(missing).difference(*(batch.requests for batch in untouched))
    return list(_fresh([*untouched, *_planned(sorted(rest), requests, limits)]))


def _planned(
    indexes: Sequence[int], requests: Sequence[ScoringRequest], limits: BatchLimits
) -> list[Batch]:
    return list(_Tree(indexes, requests, limits).batches()) if indexes else []


def common_pieces(one: Sequence[Tokens], other: Sequence[Tokens]) -> list[Tokens]:
    """The leading pieces that two prefixes have in common."""
    pairs = zip(one, other, strict=False)
    return [piece for piece, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def _fresh(batches: Sequence[Batch]) -> Iterator[Batch]:
    """Batches that know what of their prefix the one before doesn't have."""
    before: tuple[Tokens, ...] = ()
    for batch in batches:
        common = len(common_pieces(before, batch.prefix))
        new = sum(map(len, batch.prefix[common:]))
        yield Batch(batch.prefix, batch.rows, new)
        before = batch.prefix


@dataclass(frozen=True, slots=True)
class _Node:
    """Neighbouring texts, and what of them is computed before they are.

    Attributes:
        first: Index of the first.
        end: Index after the last.
        prefix: Pieces of the prefix.
    """

    first: int
    end: int
    prefix: tuple[Tokens, ...]


class _Tree:
    """The texts in order, and how many tokens each begins with that the one before has, too."""

    def __init__(
        self, indexes: Sequence[int], requests: Sequence[ScoringRequest], limits: BatchLimits
    ) -> None:
        self._requests = requests
        self._limits = limits
        texts = _texts(indexes, requests)
        order, self._common = in_order([text.ids for text in texts])
        self._texts = [texts[index] for index in order]
        self._lengths = np.array([len(text.ids) for text in self._texts])
        # What predicts a continuation's first token can't be left to the prefix.
        self._shareable = np.array(
            [min(len(requests[i].context) for i in text.requests) - 1 for text in self._texts]
        )

    def batches(self) -> Iterator[Batch]:
        """All texts in batches, the tree walked depth first."""
        waiting = [_Node(0, len(self._texts), ())]
        while waiting:
            node = waiting.pop()
            rows, below = self._visit(node)
            yield from _batches(node.prefix, rows, self._limits)
            waiting += reversed(below)

    def _visit(self, node: _Node) -> tuple[list[Row], list[_Node]]:
        """What is computed after a node's prefix: rows, and nodes with a longer prefix."""
        rows, below = list[Row](), list[_Node]()
        cached = sum(map(len, node.prefix))
        parts = [(node.first, node.end)]
        while parts:
            first, end = parts.pop()
            depth = self._prefix_that_pays(first, end, cached)
            if self._is_row(first, end, cached, pays=bool(depth)):
                rows.append(self._row(first, end, cached))
            elif depth:
                piece = self._texts[first].ids[cached:depth]
                below.append(_Node(first, end, (*node.prefix, piece)))
            else:
                parts += reversed(self._children(first, end))
        return rows, below

    def _common_to_all(self, first: int, end: int) -> int:
        if end - first == 1:
            return int(self._lengths[first])
        return int(self._common[first + 1 : end].min())

    def _prefix_that_pays(self, first: int, end: int, cached: int) -> int:
        """Length of a longer prefix that spares half a batch of tokens or more; 0 if none does."""
        depth = min(self._common_to_all(first, end), int(self._shareable[first:end].min()))
        spared = (end - first - 1) * (depth - cached)
        return depth if 2 * spared >= self._limits.tokens else 0

    def _is_row(self, first: int, end: int, cached: int, *, pays: bool) -> bool:
        if end - first == 1:
            return True
        common = self._common_to_all(first, end) - cached
        longest = int(self._lengths[first:end].max()) - cached
        if common < _COMMON_SHARE * longest:
            return False
        own = self._lengths[first + 1 : end] - self._common[first + 1 : end]
        tokens = int(self._lengths[first]) - cached + int(own.sum())
        return tokens <= (min(_ROW_TOKENS, self._limits.tokens) if pays else self._limits.tokens)

    def _children(self, first: int, end: int) -> list[tuple[int, int]]:
        """The parts that a node's texts fall into where they are no longer all alike."""
        common = self._common_to_all(first, end)
        cuts = np.flatnonzero(self._common[first + 1 : end] == common) + first + 1
        bounds = [first, *cuts.tolist(), end]
        return list(pairwise(bounds))

    def _row(self, first: int, end: int, cached: int) -> Row:
        """Texts as one row after a prefix of so many tokens."""
        ids, positions, path = list[int](), list[int](), list[int]()  # path: columns of one text
        branches, targets = list[Branch](), list[Target]()
        for index in range(first, end):
            text = self._texts[index]
            common = int(self._common[index]) - cached if index > first else 0
            new = text.ids[cached + common :]
            branches.append(Branch(len(ids), tuple(path[:common])))
            path = [*path[:common], *range(len(ids), len(ids) + len(new))]
            positions += range(cached + common, len(text.ids))
            ids += new
            for request in text.requests:
                targets += self._targets(request, path, cached)
        return Row(tuple(ids), tuple(positions), tuple(branches), tuple(targets))

    def _targets(self, request: int, path: Sequence[int], cached: int) -> Iterator[Target]:
        asked = self._requests[request]
        columns = path[len(asked.context) - 1 - cached :]
        for column, token in zip(columns, asked.continuation, strict=True):
            yield Target(request, column, token)


def _texts(indexes: Sequence[int], requests: Sequence[ScoringRequest]) -> list[_Text]:
    """What is read for requests, each text once."""
    found: dict[Tokens, list[int]] = {}
    for index in indexes:
        found.setdefault(requests[index].read, []).append(index)
    return [_Text(ids, tuple(asking)) for ids, asking in found.items()]


def _batches(
    prefix: tuple[Tokens, ...], rows: Sequence[Row], limits: BatchLimits
) -> Iterator[Batch]:
    """Rows after the same prefix as batches of about the same size, the longest rows first."""
    total = sum(len(row.ids) for row in rows)
    share = total / math.ceil(total / limits.tokens) if total else 0
    batch, tokens = list[Row](), 0
    for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
        if batch and (
            tokens >= share
            or tokens + len(row.ids) > limits.tokens
            or len(batch) == limits.rows
            or (len(batch) + 1) * len(batch[0].ids) > _WIDEST * limits.tokens
        ):
            yield Batch(prefix, tuple(batch))
            batch, tokens = [], 0
        batch.append(row)
        tokens += len(row.ids)
    if batch:
        yield Batch(prefix, tuple(batch))
