"""The decoder: embedding, a stack of blocks on one residual stream, final norm, head."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ladder_eval.models.config import ModelConfig
from ladder_eval.models.ladder import LadderBlock
from ladder_eval.models.layers import AttentionContext, PreNormBlock, RMSNorm, rotary_angles
from ladder_eval.models.residual import ResidualStream
from ladder_eval.models.standard import StandardBlock


class Transformer(nn.Module):
    """A Llama-family decoder whose layers are standard or ladder, as its configuration says."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_blocks(config))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(
        self, ids: Tensor, *, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Final hidden states, [batch, seq, hidden], ready for `logits`.

        Args:
            ids: Token ids, [batch, seq].
            positions: Position of each token in its text, [batch, seq]; 0, 1, 2, ... by default.
            mask: True where a query may look at a key, [batch, 1, seq, seq]; causal by default.
        """
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
        context = AttentionContext(*rotary_angles(positions, self.config), mask)
        stream = ResidualStream(self.embed_tokens(ids))
        for layer in self.layers:
            layer(stream, context)
        hidden: Tensor = self.norm(stream.read())
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits in float32, [..., vocab], of hidden states [..., hidden]."""
        scores: Tensor = self.lm_head(hidden)
        return scores.float()


def _blocks(config: ModelConfig) -> Iterator[PreNormBlock]:
    for index in range(config.num_hidden_layers):
        yield (LadderBlock if index in config.ladder_layers else StandardBlock)(config)
