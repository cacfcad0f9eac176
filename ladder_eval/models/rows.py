"""Rows of one packed sequence, and how they attend: each to itself, and to what all stand after."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ladder_eval.models.attention import attend, attend_in_groups
from ladder_eval.models.cache import KeyValueCache, LayerCache


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where the rows of a packed sequence are.

    Linear layers read the sequence as it is, without padding; attention reads it as rows of equal
    width.

    Attributes:
        columns: Index in the sequence of each row's tokens, [rows, width]; any index is padding.
        places: Index of each token in the flattened rows, [tokens].
        mask: True where a query of a row (third axis) may look at a key (last axis) of it,
            [rows or 1, 1, width, width]; None for causal attention.
    """

    columns: Tensor
    places: Tensor
    mask: Tensor | None

    def to(self, device: torch.device) -> "RowLayout":
        """The same on a device."""
        mask = None if self.mask is None else self.mask.to(device)
        return RowLayout(self.columns.to(device), self.places.to(device), mask)


class PackedRows:
    """All layers' memory of packed rows that stand after the same prefix; it keeps nothing.

    Args:
        layout: Where the rows are.
        prefix: Keys and values of what stands before each of them; None if nothing does.
        like: A tensor whose dtype and device attention computes in.
        layers: Number of layers.
        groups: Query heads that share a key-value head.
    """

    length = 0

    def __init__(
        self,
        layout: RowLayout,
        prefix: KeyValueCache | None,
        *,
        like: Tensor,
        layers: int,
        groups: int,
    ) -> None:
        layout = layout.to(like.device)
        bias = _bias(layout, prefix.length if prefix else 0, groups, like)
        before = prefix.layers if prefix else [None] * layers
        self.layers = [_PackedLayer(layout, bias, own) for own in before]


class _PackedLayer:
    def __init__(self, layout: RowLayout, bias: Tensor | None, prefix: LayerCache | None) -> None:
        self._layout = layout
        self._bias = bias
        self._prefix = prefix

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """As `Attending.attend`; the rows have the mask of their layout."""
        assert mask is None
        rows, width = self._layout.columns.shape
        own = self._in_rows(query), self._in_rows(key), self._in_rows(value)
        if self._bias is None:
            mixed = attend(*own, None)
        else:
            mixed = _attend_after(self._prefix, *own, self._bias)
        if rows == 1:
            return mixed
        flat = mixed.transpose(0, 1).reshape(1, query.shape[1], rows * width, -1)
        return flat.index_select(2, self._layout.places)

    def _in_rows(self, x: Tensor) -> Tensor:
        """[1, heads/tp, tokens, head_dim] → [rows, heads/tp, width, head_dim]."""
        rows, width = self._layout.columns.shape
        if rows == 1:
            return x
        found: Tensor = x[0].index_select(1, self._layout.columns.flatten())
        return found.view(-1, rows, width, x.shape[3]).transpose(0, 1)


def _attend_after(
    prefix: LayerCache | None, query: Tensor, key: Tensor, value: Tensor, bias: Tensor
) -> Tensor:
    """Attention of rows to a prefix and themselves.

    Args:
        prefix: Keys and values that every row may look at.
        query: [rows, heads/tp, width, head_dim].
        key: [rows, kv_heads/tp, width, head_dim].
        value: The same.
        bias: What is added to scores, [rows or 1, 1, groups · width, prefix + width].
    """
    if prefix is not None:
        before = (filled.expand(len(key), -1, -1, -1) for filled in prefix.filled())
        key, value = (torch.cat(pair, dim=2) for pair in zip(before, (key, value), strict=True))
    return attend_in_groups(query, key, value, bias)


def _bias(layout: RowLayout, prefix_len: int, groups: int, like: Tensor) -> Tensor | None:
    """What is added to scores, [rows or 1, 1, groups · width, prefix + width].

    None where causal attention suffices.
    """
    mask = layout.mask
    if mask is None and not prefix_len:
        return None
    if mask is None:
        width = layout.columns.shape[1]
        mask = torch.ones(1, 1, width, width, dtype=torch.bool, device=like.device).tril()
    mask = functional.pad(mask, (prefix_len, 0), value=True)
    bias = torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -torch.inf)
    return bias.repeat(1, 1, groups, 1)
