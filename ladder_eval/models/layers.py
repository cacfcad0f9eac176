"""The layers that every topology shares, in the order in which a token meets them.

Module names are Hugging Face's, so that a checkpoint's tensors find their place by name.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladder_eval.distributed.shares import Share
from ladder_eval.models.attention import Attending, attend
from ladder_eval.models.config import ModelConfig, RopeScaling
from ladder_eval.models.parallel_layers import ColumnParallelLinear, RowParallelLinear


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """What attention needs to know about the tokens of one forward.

    Attributes:
        cos: Cosines of the rotary angles, [batch or 1, 1, seq, head_dim].
        sin: Sines of the rotary angles, as cos.
        mask: True where a query (third axis) may look at a key (last axis),
            [batch, 1, seq, keys]; None for plain causal attention.
        cache: What keeps the layer's keys and values, and attends to them with those of earlier
            tokens; None if none are kept.
    """

    cos: Tensor
    sin: Tensor
    mask: Tensor | None
    cache: Attending | None = None


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x, [..., size]."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotary_angles(positions: Tensor, config: ModelConfig) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles at positions [batch, seq]: [batch, 1, seq, head_dim].

    Angles are computed in float32, whatever the model's dtype.
    """
    frequencies = rotary_frequencies(config).to(positions.device)
    angles = positions[:, None, :, None].float() * frequencies  # [batch, 1, seq, head_dim/2]
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotary_frequencies(config: ModelConfig) -> Tensor:
    """Radians per position of each pair of channels, float32, [head_dim/2]."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling
    return frequencies if scaling is None else _llama3_scaled(frequencies, scaling)


def _llama3_scaled(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)  # 1: kept as it is, 0: stretched in full
    return frequencies * (keep + (1 - keep) / scaling.factor)


def apply_rotary(x: Tensor, context: AttentionContext) -> Tensor:
    """Rotate each pair of channels (i, i + head_dim/2) of x, [batch, heads, seq, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return x * context.cos.to(x.dtype) + turned * context.sin.to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: ModelConfig, share: Share) -> None:
        super().__init__()
        width = config.head_dim
        query, own_query = config.num_attention_heads * width, _channels(share.query_heads, width)
        key, own_key = config.num_key_value_heads * width, _channels(share.kv_heads, width)
        self.head_dim = width
        hidden, bias = config.hidden_size, config.qkv_bias
        self.q_proj = ColumnParallelLinear(hidden, query, own_query, bias=bias)
        self.k_proj = ColumnParallelLinear(hidden, key, own_key, bias=bias)
        self.v_proj = ColumnParallelLinear(hidden, key, own_key, bias=bias)
        self.o_proj = RowParallelLinear(query, hidden, own_query)
        self.q_norm = RMSNorm(width, config.rms_norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(width, config.rms_norm_eps) if config.qk_norm else nn.Identity()

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Attend from each row of x, [batch, seq, hidden], to it and to what is cached of it.

        The result is a partial sum of the same shape.
        """
        query = apply_rotary(self.q_norm(self._heads(self.q_proj(x))), context)
        key = apply_rotary(self.k_norm(self._heads(self.k_proj(x))), context)
        value = self._heads(self.v_proj(x))
        look = attend if context.cache is None else context.cache.attend
        mixed = look(query, key, value, context.mask)  # [batch, heads/tp, seq, head_dim]
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return output

    def _heads(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        # [batch, heads/tp, seq, head_dim]
        return x.view(batch, seq, -1, self.head_dim).transpose(1, 2)


def _channels(heads: range, width: int) -> range:
    return range(heads.start * width, heads.stop * width)


class MLP(nn.Module):
    """SwiGLU feed-forward: down(silu(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig, share: Share) -> None:
        super().__init__()
        hidden, inner, own = config.hidden_size, config.intermediate_size, share.intermediate
        self.gate_proj = ColumnParallelLinear(hidden, inner, own)
        self.up_proj = ColumnParallelLinear(hidden, inner, own)
        self.down_proj = RowParallelLinear(inner, hidden, own)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position of x, [batch, seq, hidden]; the result is a partial sum."""
        output: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class PreNormBlock(nn.Module):
    """The two functions h of a layer, each with its own norm; topologies say how they join."""

    def __init__(self, config: ModelConfig, share: Share) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, share)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config, share)

    def attention(self, x: Tensor, context: AttentionContext) -> Tensor:
        """The output h of attention at x, [batch, seq, hidden]."""
        output: Tensor = self.self_attn(self.input_layernorm(x), context)
        return output

    def feed_forward(self, x: Tensor) -> Tensor:
        """The output h of the MLP at x, [batch, seq, hidden]."""
        output: Tensor = self.mlp(self.post_attention_layernorm(x))
        return output
