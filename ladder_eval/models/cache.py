"""The keys and values of tokens that have been read, so that decoding reads each token once."""

import torch
from torch import Tensor
from torch.nn import functional

from ladder_eval.models.attention import attend


class LayerCache:
    """One layer's keys and values on one rank, in tensors that are allocated once.

    Attributes:
        length: Number of columns filled.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys = keys  # [batch, kv_heads/tp, capacity, head_dim]
        self._values = values
        self.length = 0

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to all columns, these added; arguments and errors as `attend` and `append`."""
        return attend(query, *self.append(key, value), mask)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add columns, [batch, kv_heads/tp, seq, head_dim], and return all filled ones.

        Raises:
            ValueError: if there is no room for them.
        """
        end = self.length + key.shape[2]
        if end > self._keys.shape[2]:
            raise ValueError(f"{end} tokens exceed the cache of {self._keys.shape[2]}")
        self._keys[:, :, self.length : end] = key
        self._values[:, :, self.length : end] = value
        self.length = end
        return self.filled()

    def filled(self) -> tuple[Tensor, Tensor]:
        """Keys and values of all filled columns, both [batch, kv_heads/tp, length, head_dim]."""
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def keep(self, rows: Tensor) -> None:
        """Forget all rows but these, [kept]."""
        self._keys, self._values = self._keys[rows], self._values[rows]

    def reserve(self, columns: int) -> None:
        """Make room for so many more columns, by half more than there was if it is too small."""
        needed, capacity = self.length + columns, self._keys.shape[2]
        if needed > capacity:
            more = max(needed, capacity + capacity // 2) - capacity
            self._keys = functional.pad(self._keys, (0, 0, 0, more))
            self._values = functional.pad(self._values, (0, 0, 0, more))


class KeyValueCache:
    """The caches of all layers. All rows of a batch have as many columns.

    Where their texts differ in length, a mask hides the columns that a row doesn't use.

    Args:
        layers: Number of layers.
        shape: Of each layer's keys, [batch, kv_heads/tp, capacity, head_dim].
        like: A tensor whose dtype and device the cache takes.
    """

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Tensor) -> None:
        # Written, not only reserved: memory that was never touched is faster to read than any.
        self.layers = [
            LayerCache(*(torch.ones(shape, dtype=like.dtype, device=like.device) for _ in "kv"))
            for _ in range(layers)
        ]

    def keep(self, rows: Tensor) -> None:
        """Forget all rows but these, [kept]."""
        for layer in self.layers:
            layer.keep(rows)

    def reserve(self, columns: int) -> None:
        """Make room for so many more columns where there isn't."""
        for layer in self.layers:
            layer.reserve(columns)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.layers[0].filled()[0].device

    @property
    def length(self) -> int:
        """Number of tokens that each row has."""
        return self.layers[0].length

    @length.setter
    def length(self, tokens: int) -> None:
        for layer in self.layers:
            layer.length = tokens
