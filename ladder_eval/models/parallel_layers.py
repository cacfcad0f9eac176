"""Layers of which each rank holds a part, and that know which part it is.

Source of the scheme: Megatron-LM, arXiv 1909.08053.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from ladder_eval.distributed.tensor_parallel import TensorParallel


@dataclass(frozen=True, slots=True)
class Shard:
    """A rank's part of a weight matrix, or of a bias.

    Attributes:
        shape: Of the whole matrix, [out, in], or of the whole bias, [out].
        rows: The rows that the rank holds.
        columns: The columns that the rank holds; None for a bias.
    """

    shape: tuple[int, ...]
    rows: range
    columns: range | None

    @property
    def is_whole(self) -> bool:
        """Whether the rank holds all of it."""
        return all(
            own is None or len(own) == size
            for size, own in zip(self.shape, (self.rows, self.columns), strict=False)
        )

    @property
    def of_bias(self) -> "Shard":
        """The rank's part of the bias that is added to the matrix's outputs."""
        return Shard(self.shape[:1], self.rows, None)


def shards(model: nn.Module) -> dict[str, Shard]:
    """Name of each of a model's tensors that is divided among ranks → this rank's part of it."""
    found = {}
    for name, layer in model.named_modules():
        if isinstance(shard := getattr(layer, "shard", None), Shard):
            found[f"{name}.weight"] = shard
            if getattr(layer, "bias", None) is not None:
                found[f"{name}.bias"] = shard.of_bias
    return found


class ColumnParallelLinear(nn.Linear):
    """The outputs of a linear layer that are this rank's: [..., in] → [..., out/tp]."""

    def __init__(
        self, in_features: int, out_features: int, own: range, *, bias: bool = False
    ) -> None:
        super().__init__(in_features, len(own), bias=bias)
        self.shard = Shard((out_features, in_features), own, range(in_features))


class RowParallelLinear(nn.Linear):
    """This rank's inputs of a linear layer: [..., in/tp] → a partial sum [..., out]."""

    def __init__(self, in_features: int, out_features: int, own: range) -> None:
        super().__init__(len(own), out_features, bias=False)
        self.shard = Shard((out_features, in_features), range(out_features), own)


class VocabParallelEmbedding(nn.Embedding):
    """An embedding of which each rank holds the rows of its part of the vocabulary."""

    def __init__(self, vocab_size: int, hidden_size: int, own: range, tp: TensorParallel) -> None:
        super().__init__(len(own), hidden_size)
        self.shard = Shard((vocab_size, hidden_size), own, range(hidden_size))
        self.tp = tp

    def forward(self, ids: Tensor) -> Tensor:
        """Embeddings [batch, seq, hidden] of ids [batch, seq]; zero from the ranks without them."""
        if self.tp.size == 1:
            return functional.embedding(ids, self.weight)
        own = self.shard.rows
        mine = (ids >= own.start) & (ids < own.stop)
        found = functional.embedding((ids - own.start).where(mine, 0), self.weight)
        # Filled, not multiplied: a NaN in another token's row would survive a product with zero.
        return self.tp.all_reduce(found.masked_fill(~mine[..., None], 0))
