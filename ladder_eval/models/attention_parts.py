"""Attention to columns that lie in several places, put together exactly.

With scores s of a query and m their maximum, attention is Σ exp(s − m)·v / Σ exp(s − m). Both sums
are taken of each place with its own m; a sum with maximum a counts exp(a − b) times as much beside
a larger maximum b.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(slots=True)
class AttentionPart:
    """Attention to a part of the columns, of which another part's can be added; float32.

    Attributes:
        largest: The largest score of each query, [rows, kv_heads, group, 1].
        total: Sum of exp(score − largest), the same.
        weighted: Values weighted by exp(score − largest), [rows, kv_heads, group, head_dim].
    """

    largest: Tensor
    total: Tensor
    weighted: Tensor

    @classmethod
    def of(
        cls, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None
    ) -> "AttentionPart":
        """Of scaled queries, [rows, kv_heads, group, head_dim], to [rows, kv_heads, columns, ...].

        Args:
            query: The queries.
            keys: What they are compared with.
            values: What is mixed.
            visible: Columns that may be looked at, [rows, 1, 1, columns]; None for all.
        """
        scores: Tensor = query.float() @ keys.float().mT
        if visible is not None:
            scores = scores.masked_fill_(~visible, -torch.inf)
        largest = scores.amax(-1, keepdim=True)
        weights = scores.sub_(largest).exp_()
        return cls(largest, weights.sum(-1, keepdim=True), weights @ values.float())

    @classmethod
    def of_all(cls, query: Tensor, keys: Tensor, values: Tensor) -> "AttentionPart":
        """Of scaled queries to what all rows look at, [1, kv_heads, columns, ...].

        It is read once, as if all rows' queries were one text's.
        """
        folded = query.transpose(0, 1).flatten(1, 2)[None]
        part = cls.of(folded, keys, values, None)

        def unfold(x: Tensor) -> Tensor:
            """[1, kv_heads, rows · group, ...] → [rows, kv_heads, group, ...]."""
            parts: Tensor = x[0].unflatten(1, (len(query), -1))
            return parts.transpose(0, 1)

        return cls(unfold(part.largest), unfold(part.total), unfold(part.weighted))

    def add(self, other: "AttentionPart", rows: Tensor | slice) -> None:
        """Add another part of some rows."""
        largest = torch.maximum(self.largest[rows], other.largest)
        own, theirs = (self.largest[rows] - largest).exp(), (other.largest - largest).exp()
        self.total[rows] = self.total[rows] * own + other.total * theirs
        self.weighted[rows] = self.weighted[rows] * own + other.weighted * theirs
        self.largest[rows] = largest

    def mixed(self) -> Tensor:
        """The result of attention, [rows, kv_heads, group, head_dim]."""
        mixed: Tensor = self.weighted / self.total
        return mixed
