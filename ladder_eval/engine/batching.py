"""Requests packed into rows, rows into batches: what has the same context is computed once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """Token ids whose log-likelihood is asked for, and those that stand before them.

    Raises:
        ValueError: if context or continuation is empty.
    """

    context: tuple[int, ...]
    continuation: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.context or not self.continuation:
            raise ValueError("a request needs at least one token of context and of continuation")


@dataclass(slots=True)
class Row:
    """One context and the continuations that branch off it, as one sequence.

    The tokens are the context, then every continuation without its last token, which is
    predicted but never read. A branch sees the context and itself, not its siblings, and each
    continues the context's positions. A continuation of one token adds nothing to the row.
    """

    context: tuple[int, ...]
    branches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of tokens that the model reads."""
        return len(self.context) + sum(len(tokens) - 1 for _, tokens in self.branches)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as tensors, padded on the right.

    Attributes:
        ids: Token ids, [batch, seq].
        positions: Position of each token in its own text, [batch, seq].
        mask: As `Transformer.forward` takes it; None where no row has two branches to keep apart.
        requests: Index of the request that each target belongs to, [targets].
        sources: Where each target is predicted, as row · seq + column, [targets].
        targets: The token to be predicted, [targets].
        tokens: Number of tokens without padding.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor | None
    requests: Tensor
    sources: Tensor
    targets: Tensor
    tokens: int


def pack(requests: Sequence[ScoringRequest]) -> list[Row]:
    """Put requests with the same context into one row; longest row first."""
    rows: dict[tuple[int, ...], Row] = {}
    for index, request in enumerate(requests):
        row = rows.setdefault(request.context, Row(request.context))
        row.branches.append((index, request.continuation))
    return sorted(rows.values(), key=lambda row: row.length, reverse=True)


def batches(rows: Sequence[Row], batch_size: int) -> Iterator[Batch]:
    """Collate rows, which are sorted by length, batch_size at a time."""
    for start in range(0, len(rows), batch_size):
        yield _collate(rows[start : start + batch_size])


def _collate(rows: Sequence[Row]) -> Batch:
    seq = max(row.length for row in rows)
    ids = torch.zeros(len(rows), seq, dtype=torch.long)
    positions = torch.zeros(len(rows), seq, dtype=torch.long)
    branch = torch.zeros(len(rows), seq, dtype=torch.long)  # 0: context, then 1, 2, ...
    wanted: list[tuple[int, int, int]] = []
    for index, row in enumerate(rows):
        tokens, places, branches = _flatten(row)
        ids[index, : row.length] = torch.tensor(tokens)
        positions[index, : row.length] = torch.tensor(places)
        branch[index, : row.length] = torch.tensor(branches)
        wanted += [(request, index * seq + at, token) for request, at, token in _targets(row)]
    requests, sources, targets = torch.tensor(wanted).unbind(1)
    return Batch(
        ids, positions, _mask(branch), requests, sources, targets, sum(r.length for r in rows)
    )


def _flatten(row: Row) -> tuple[list[int], list[int], list[int]]:
    """Tokens of a row, the position of each in its text, and the branch that it is on."""
    size = len(row.context)
    tokens, positions, branches = list(row.context), list(range(size)), [0] * size
    for _, continuation in row.branches:
        read = continuation[:-1]
        tokens += read
        positions += range(size, size + len(read))
        branches += [branches[-1] + 1] * len(read)
    return tokens, positions, branches


def _targets(row: Row) -> Iterator[tuple[int, int, int]]:
    """Request, column that predicts, and token, for every token of every continuation."""
    last, start = len(row.context) - 1, len(row.context)
    for request, continuation in row.branches:
        columns = [last, *range(start, start + len(continuation) - 1)]
        yield from ((request, at, token) for at, token in zip(columns, continuation, strict=True))
        start += len(continuation) - 1


def _mask(branch: Tensor) -> Tensor | None:
    """Causal attention to the context and one's own branch.

    Padding needs no mask: it stands after every token that is read.
    """
    if int(branch.max()) < 2:
        return None
    seq = branch.shape[1]
    causal = torch.ones(seq, seq, dtype=torch.bool).tril()
    query, key = branch[:, :, None], branch[:, None, :]
    return (causal & ((key == 0) | (key == query)))[:, None]
