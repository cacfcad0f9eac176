"""The decoder: embedding, a stack of blocks on one residual stream, final norm, head."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ladder_eval.distributed.shares import Share, shares
from ladder_eval.distributed.tensor_parallel import ALONE, TensorParallel
from ladder_eval.models.attention import Memory
from ladder_eval.models.cache import KeyValueCache
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.desync import DesyncBlock, SyncBlock
from ladder_eval.models.ladder import LadderBlock
from ladder_eval.models.layers import AttentionContext, PreNormBlock, RMSNorm, rotary_angles
from ladder_eval.models.no_comm import NoCommBlock
from ladder_eval.models.parallel import ParallelBlock
from ladder_eval.models.parallel_layers import ColumnParallelLinear, VocabParallelEmbedding
from ladder_eval.models.residual import ResidualStream
from ladder_eval.models.rows import PackedRows, RowLayout
from ladder_eval.models.standard import StandardBlock


class Transformer(nn.Module):
    """One rank's part of a Llama-family decoder, with the residual that its configuration says.

    All ranks of the group call `forward` with the same arguments.
    """

    def __init__(self, config: ModelConfig, tp: TensorParallel = ALONE) -> None:
        super().__init__()
        share = shares(config.shape, tp.size)[tp.rank]
        vocab, hidden = config.vocab_size, config.hidden_size
        self.config = config
        self.tp = tp
        self.vocabulary = share.vocabulary
        self._share = share
        self.embed_tokens = VocabParallelEmbedding(vocab, hidden, share.vocabulary, tp)
        self.layers = nn.ModuleList(_blocks(config, share))
        self.norm = RMSNorm(hidden, config.rms_norm_eps)
        self.lm_head = ColumnParallelLinear(hidden, vocab, share.vocabulary)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(
        self,
        ids: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        cache: Memory | None = None,
    ) -> Tensor:
        """Final hidden states, [batch, seq, hidden], ready for `logits`.

        Args:
            ids: Token ids, [batch, seq].
            positions: Position of each token in its text, [batch, seq]; by default they count on
                from what is cached.
            mask: True where a query may look at a key, [batch, 1, seq, cached + seq]; causal by
                default.
            cache: Keys and values of earlier tokens, to which those of `ids` are added.
        """
        cached, seq = 0 if cache is None else cache.length, ids.shape[1]
        if positions is None:
            positions = torch.arange(cached, cached + seq, device=ids.device)[None]
        if mask is None and cached and seq > 1:
            every = torch.ones(seq, cached + seq, dtype=torch.bool, device=ids.device)
            mask = every.tril(cached)
        angles = rotary_angles(positions, self.config)
        stream = ResidualStream(self.embed_tokens(ids), self.tp)
        for index, layer in enumerate(self.layers):
            own = None if cache is None else cache.layers[index]
            layer(stream, AttentionContext(*angles, mask, own))
        hidden: Tensor = self.norm(stream.read())
        return hidden

    def new_cache(self, batch_size: int, capacity: int) -> KeyValueCache:
        """Room for this rank's keys and values of so many rows and tokens a row."""
        kv_heads, width = len(self._share.kv_heads), self.config.head_dim
        shape = (batch_size, kv_heads, capacity, width)
        return KeyValueCache(len(self.layers), shape, like=self.embed_tokens.weight)

    def packed_rows(self, layout: RowLayout, prefix: KeyValueCache | None) -> PackedRows:
        """What `forward` needs to read packed rows, all after the same cached prefix."""
        return PackedRows(
            layout,
            prefix,
            like=self.embed_tokens.weight,
            layers=len(self.layers),
            groups=len(self._share.query_heads) // len(self._share.kv_heads),
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits in float32 of this rank's vocabulary, [..., vocab/tp].

        Args:
            hidden: Hidden states, [..., hidden].
        """
        scores: Tensor = self.lm_head(hidden)
        return scores.float()


def _blocks(config: ModelConfig, share: Share) -> Iterator[PreNormBlock]:
    for index in range(config.num_hidden_layers):
        yield block_class(config, index)(config, share)


def block_class(config: ModelConfig, index: int) -> type[PreNormBlock]:
    """The topology of a layer."""
    if index in config.ladder_layers:
        return LadderBlock
    last = index == config.num_hidden_layers - 1
    match config.topology:
        case "parallel":
            return ParallelBlock
        case "desync-2x":
            return SyncBlock
        case "desync-4x":
            return SyncBlock if index % 2 or last else DesyncBlock
        case "no-comm":
            return NoCommBlock
    return StandardBlock
