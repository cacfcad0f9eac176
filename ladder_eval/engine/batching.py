"""Texts laid out as rows, and rows packed into batches without padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladder_eval.models.rows import RowLayout

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """Token ids whose log-likelihood is asked for, and those that stand before them.

    Raises:
        ValueError: if context or continuation is empty.
    """

    context: Tokens
    continuation: Tokens

    def __post_init__(self) -> None:
        if not self.context or not self.continuation:
            raise ValueError("a request needs at least one token of context and of continuation")

    @property
    def read(self) -> Tokens:
        """What a model reads to answer it: all but the last token, which is only predicted."""
        return self.context + self.continuation[:-1]


@dataclass(frozen=True, slots=True)
class Branch:
    """The tokens of a row that one text adds to those before it.

    Attributes:
        start: The first of their columns; they reach to the next branch, or the row's end.
        after: Columns of the row that they stand after, besides the prefix of the batch.
    """

    start: int
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A token to be predicted.

    Attributes:
        request: Index of the request that it belongs to.
        column: Column of the row that predicts it.
        token: The token.
    """

    request: int
    column: int
    token: int


@dataclass(frozen=True, slots=True)
class Row:
    """Texts that begin alike, as one sequence; a token sees only its own text.

    Attributes:
        ids: Token ids; what texts have in common stands once.
        positions: Position of each token in its text.
        branches: The branches, the first of which begins the row.
        targets: What is to be predicted.
    """

    ids: Tokens
    positions: Tokens
    branches: tuple[Branch, ...]
    targets: tuple[Target, ...]

    @property
    def requests(self) -> frozenset[int]:
        """The requests that it answers."""
        return frozenset(target.request for target in self.targets)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one forward, all after the same prefix.

    Attributes:
        prefix: The prefix, in pieces that other batches may share: as many leading pieces as two
            batches have in common are computed once, if no batch without them comes between.
        rows: The rows.
        new_prefix: Tokens of the prefix that the batch before it doesn't have.
    """

    prefix: tuple[Tokens, ...]
    rows: tuple[Row, ...]
    new_prefix: int = 0

    @property
    def requests(self) -> frozenset[int]:
        """The requests that it answers."""
        return frozenset().union(*(row.requests for row in self.rows))

    @property
    def tokens(self) -> int:
        """Number of tokens that a model reads for it after the batch before."""
        return self.new_prefix + row_tokens(self)


def divided(batch: Batch, most: int) -> list[Batch]:
    """A batch in parts of at most so many tokens beside the prefix, as far as its rows allow."""
    if len(batch.rows) == 1 or row_tokens(batch) <= most:
        return [batch]
    half = len(batch.rows) // 2
    first = Batch(batch.prefix, batch.rows[:half], batch.new_prefix)
    return [*divided(first, most), *divided(Batch(batch.prefix, batch.rows[half:]), most)]


def row_tokens(batch: Batch) -> int:
    """Tokens of a batch's rows."""
    return sum(len(row.ids) for row in batch.rows)


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """The rows of a batch as tensors.

    Attributes:
        ids: Token ids of all rows, one after the other, [1, tokens].
        positions: Position of each in its text, [1, tokens].
        layout: Where the rows are.
        sources: Tokens after which something is predicted, ascending, [sources].
        requests: Index of the request that each target belongs to, [targets].
        predicted_by: Which source predicts each target, ascending, [targets].
        targets: The token to be predicted, [targets].
    """

    ids: Tensor
    positions: Tensor
    layout: RowLayout
    sources: Tensor
    requests: Tensor
    predicted_by: Tensor
    targets: Tensor


def packed(rows: Sequence[Row]) -> PackedBatch:
    """Lay rows out as tensors."""
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row.ids))
    wanted = sorted(
        (start + target.column, target.request, target.token)
        for row, start in zip(rows, starts, strict=False)
        for target in row.targets
    )
    places, requests, targets = torch.tensor(wanted).unbind(1)
    sources, predicted_by = torch.unique_consecutive(places, return_inverse=True)
    return PackedBatch(
        ids=torch.tensor([[token for row in rows for token in row.ids]]),
        positions=torch.tensor([[at for row in rows for at in row.positions]]),
        layout=_layout(rows, starts),
        sources=sources,
        requests=requests,
        predicted_by=predicted_by,
        targets=targets,
    )


def _layout(rows: Sequence[Row], starts: Sequence[int]) -> RowLayout:
    lengths = torch.tensor([len(row.ids) for row in rows])
    width = int(lengths.max())
    first = torch.tensor(starts[:-1])[:, None]  # [rows, 1]
    column = torch.arange(width)[None]  # [1, width]
    is_token = column < lengths[:, None]  # [rows, width]
    return RowLayout(
        columns=(first + column).where(is_token, first),
        places=is_token.flatten().nonzero().flatten(),
        mask=_mask(rows, width) if any(len(row.branches) > 1 for row in rows) else None,
    )


def _mask(rows: Sequence[Row], width: int) -> Tensor:
    """What each token may look at, [rows, 1, width, width]; what pads looks at what it likes."""
    mask = torch.ones(width, width, dtype=torch.bool).tril().repeat(len(rows), 1, 1)
    for own, row in zip(mask, rows, strict=True):
        ends = [branch.start for branch in row.branches[1:]] + [len(row.ids)]
        for branch, end in zip(row.branches, ends, strict=True):
            own[branch.start : end, : branch.start] = False
            own[branch.start : end, list(branch.after)] = True
    return mask[:, None]
