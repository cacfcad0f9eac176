"""Ladder models as transformers' own: importing this module teaches its Auto classes llamaLadder.

A ladder checkpoint then loads with `AutoModelForCausalLM`. The model is transformers' Llama but for
its decoder layers, which work on

    x_i = x_{i-1} + h_i(x_{i-2})  in a ladder layer,  x_{-1} = x_0 = the embedding,
    x_i = x_{i-1} + h_i(x_{i-1})  in a standard layer,

with h_i block i and its own norm. Everything else is inherited, and so works as it does there.
Source: Ladder Residual, arXiv 2501.06589; the format is its authors'.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
)
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

from ladder_eval.models.config import parse_ladder_layers


class LlamaLadderConfig(LlamaConfig):
    """Llama's configuration, and the layers that are ladder layers.

    `ladder_layers` is a number, the last n layers, or a list of layer indices. Without it there is
    a configuration, so that dense ones can be read, but no model.

    Raises:
        CheckpointError: if `ladder_layers` is neither, or the model has no such layers.
    """

    model_type = "llamaLadder"
    ladder_layers: int | list[int] | None = None

    def __init__(self, ladder_layers: int | Iterable[int] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if ladder_layers is not None:
            layers = parse_ladder_layers(ladder_layers, self.num_hidden_layers)
            # A number stays one, as it is published.
            ladder_layers = ladder_layers if isinstance(ladder_layers, int) else list(layers)
        self.ladder_layers = ladder_layers


class LlamaLadderDecoderLayer(LlamaDecoderLayer):
    """Attention and MLP, both reading one output late if this is a ladder layer.

    A layer before a ladder layer returns two streams: x_i, and x_{i-1} which lacks the newest
    output. Others return x_i alone, as transformers' layers do. x_i stands first, since the first
    of several is what transformers records as hidden states.
    """

    def __init__(self, config: LlamaLadderConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        ladder_layers = parse_ladder_layers(config.ladder_layers, config.num_hidden_layers)
        self.is_ladder = layer_idx in ladder_layers
        self.next_is_ladder = layer_idx + 1 in ladder_layers

    def __call__(self, streams: Tensor | tuple[Tensor, Tensor], **kwargs: Any) -> Any:
        """Run the layer on what the layer before it returned, or on the embedding."""
        # Spread out, since reentrant checkpointing sees no gradients inside a tuple.
        spread = streams if isinstance(streams, tuple) else (streams,)
        return super().__call__(*spread, **kwargs)

    def forward(
        self, hidden_states: Tensor, without_newest: Tensor | None = None, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Advance the stream by one layer.

        Args:
            hidden_states: The complete stream x_{i-1}, [batch, seq, hidden].
            without_newest: The stream x_{i-2}, of the same shape; by default there is no output
                yet that it could lack, and it is x_{i-1}.
            **kwargs: What LlamaAttention takes, under its names in the installed transformers.
        """
        newest, before = hidden_states, hidden_states if without_newest is None else without_newest
        source = self.input_layernorm(before if self.is_ladder else newest)
        attended, _ = self.self_attn(hidden_states=source, **kwargs)
        newest, before = newest + attended, newest
        source = self.post_attention_layernorm(before if self.is_ladder else newest)
        newest, before = newest + self.mlp(source), newest
        return (newest, before) if self.next_is_ladder else newest


class LlamaLadderModel(LlamaModel):
    """The decoder of a ladder model: LlamaModel with other layers."""

    config: LlamaLadderConfig
    _no_split_modules = ["LlamaLadderDecoderLayer"]  # noqa: RUF012 (transformers' own form)

    def __init__(self, config: LlamaLadderConfig) -> None:
        # As LlamaModel's, which would build and initialise layers only to throw them away.
        super(LlamaModel, self).__init__(config)
        self.padding_idx = config.pad_token_id
        self.vocab_size = config.vocab_size
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, self.padding_idx)
        self.layers = nn.ModuleList(
            LlamaLadderDecoderLayer(config, index) for index in range(config.num_hidden_layers)
        )
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(config=config)
        self.gradient_checkpointing = False
        self.post_init()


class LlamaLadderForCausalLM(LlamaForCausalLM):
    """A ladder model with its head: LlamaForCausalLM on another decoder.

    Raises:
        CheckpointError: if the configuration has no `ladder_layers`, or wrong ones.
    """

    config: LlamaLadderConfig

    def __init__(self, config: LlamaLadderConfig) -> None:
        # As LlamaForCausalLM's, which would build a dense decoder first.
        super(LlamaForCausalLM, self).__init__(config)
        self.model = LlamaLadderModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


# exist_ok, since a module that is reloaded registers again.
AutoConfig.register(LlamaLadderConfig.model_type, LlamaLadderConfig, exist_ok=True)
AutoModel.register(LlamaLadderConfig, LlamaLadderModel, exist_ok=True)
AutoModelForCausalLM.register(LlamaLadderConfig, LlamaLadderForCausalLM, exist_ok=True)
