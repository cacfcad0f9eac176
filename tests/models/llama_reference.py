"""Random Llama checkpoints, and their logits computed from the paper's equations alone."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import silu
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.models.transformer import Transformer

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 80,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "initializer_range": 0.1,
}
# As SmolLM2: heads that can't be dealt evenly, and a vocabulary that 2 and 4 don't divide.
UNEVEN = {
    "hidden_size": 72,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 83,
    "tie_word_embeddings": False,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # so that 8 frequencies meet all three cases
}


def make_llama(**changes: object) -> LlamaForCausalLM:
    """A random model of transformers; its norms differ, so that none can be mixed up."""
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**(SHAPE | changes))).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    return model


def save_llama(folder: Path, **changes: object) -> LlamaForCausalLM:
    """The same model, saved as a checkpoint folder."""
    model = make_llama(**changes)
    model.save_pretrained(folder)
    return model


def edit_config(folder: Path, **changes: object) -> None:
    """Change some values of a checkpoint's config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def some_ids(rows: int = 2, columns: int = 24, vocab_size: int = 80) -> Tensor:
    """Random token ids, [rows, columns]."""
    return torch.randint(vocab_size, (rows, columns), generator=torch.Generator().manual_seed(1))


def load(folder: Path) -> Transformer:
    """The product's model of a checkpoint folder, in float32 on the CPU."""
    cpu = torch.device("cpu")
    return load_model(folder, read_config(folder), dtype=torch.float32, device=cpu)


@torch.no_grad()
def product_logits(model: Transformer, ids: Tensor, **options: Tensor) -> Tensor:
    """The product's logits, [batch, seq, vocab]."""
    return model.logits(model(ids, **options))


@torch.no_grad()
def reference_logits(model: LlamaForCausalLM, ids: Tensor, ladder_layers: object = ()) -> Tensor:
    """Logits by x_i = x_{i-1} + h_i(input), [batch, seq, vocab].

    The input of a ladder layer's blocks is x_{i-2}, with x_{-1} = x_0, that of a standard
    layer's x_{i-1}.
    """
    config, weights = model.config, model.model.state_dict()
    x = [weights["embed_tokens.weight"][ids]]  # x[i] is the stream after block i
    for layer in range(config.num_hidden_layers):
        for block in (_attention, _mlp):
            stale = layer in ladder_layers and len(x) > 1
            own = {n: weights[f"layers.{layer}.{n}"] for n in _LAYER_WEIGHTS}
            x.append(x[-1] + block(x[-2] if stale else x[-1], own, config))
    return _norm(x[-1], weights["norm.weight"], config) @ model.lm_head.weight.T


@torch.no_grad()
def parallel_logits(model: LlamaForCausalLM, ids: Tensor) -> Tensor:
    """Logits by x_{l+1} = x_l + attention(norm x_l) + mlp(norm x_l), [batch, seq, vocab]."""
    config, weights = model.config, model.model.state_dict()
    x = weights["embed_tokens.weight"][ids]
    for layer in range(config.num_hidden_layers):
        own = {n: weights[f"layers.{layer}.{n}"] for n in _LAYER_WEIGHTS}
        own["post_attention_layernorm.weight"] = own["input_layernorm.weight"]
        x = x + _attention(x, own, config) + _mlp(x, own, config)
    return _norm(x, weights["norm.weight"], config) @ model.lm_head.weight.T


@dataclass(frozen=True)
class Part:
    """What a rank holds of each layer: numbers of heads and channels."""

    query: range
    kv: range
    channels: range


@torch.no_grad()
def desync_logits(
    model: LlamaForCausalLM, ids: Tensor, parts: Sequence[Part], synced: Collection[int]
) -> list[Tensor]:
    """Each rank's logits over the whole vocabulary, [batch, seq, vocab].

    x_i^r = x_{i-1}^r + h_i^r(x_{i-1}^r), and after the MLP of a synced layer
    x_i = sum over r of (h_i^r(x_{i-1}^r) + x_{i-1}^r / T).
    """
    config, weights = model.config, model.model.state_dict()
    x = [weights["embed_tokens.weight"][ids] for _ in parts]  # x[r] is rank r's stream
    for layer in range(config.num_hidden_layers):
        whole = {n: weights[f"layers.{layer}.{n}"] for n in _LAYER_WEIGHTS}
        for block in (_attention, _mlp):
            h = [
                block(x[r], _sliced(whole, part, config.head_dim), config)
                for r, part in enumerate(parts)
            ]
            if block is _mlp and layer in synced:
                together = sum(h[r] + x[r] / len(parts) for r in range(len(parts)))
                x = [together for _ in parts]
            else:
                x = [x[r] + h[r] for r in range(len(parts))]
    return [_norm(own, weights["norm.weight"], config) @ model.lm_head.weight.T for own in x]


def _sliced(whole: dict[str, Tensor], part: Part, width: int) -> dict[str, Tensor]:
    query = slice(part.query.start * width, part.query.stop * width)
    kv = slice(part.kv.start * width, part.kv.stop * width)
    channels = slice(part.channels.start, part.channels.stop)
    return whole | {
        "self_attn.q_proj.weight": whole["self_attn.q_proj.weight"][query],
        "self_attn.k_proj.weight": whole["self_attn.k_proj.weight"][kv],
        "self_attn.v_proj.weight": whole["self_attn.v_proj.weight"][kv],
        "self_attn.o_proj.weight": whole["self_attn.o_proj.weight"][:, query],
        "mlp.gate_proj.weight": whole["mlp.gate_proj.weight"][channels],
        "mlp.up_proj.weight": whole["mlp.up_proj.weight"][channels],
        "mlp.down_proj.weight": whole["mlp.down_proj.weight"][:, channels],
    }


_LAYER_WEIGHTS = [f"self_attn.{kind}_proj.weight" for kind in "qkvo"]
_LAYER_WEIGHTS += [f"mlp.{kind}_proj.weight" for kind in ("gate", "up", "down")]
_LAYER_WEIGHTS += ["input_layernorm.weight", "post_attention_layernorm.weight"]


def _norm(x: Tensor, weight: Tensor, config: LlamaConfig) -> Tensor:
    return weight * x / (x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt()


def _mlp(x: Tensor, own: dict[str, Tensor], config: LlamaConfig) -> Tensor:
    x = _norm(x, own["post_attention_layernorm.weight"], config)
    inner = silu(x @ own["mlp.gate_proj.weight"].T) * (x @ own["mlp.up_proj.weight"].T)
    return inner @ own["mlp.down_proj.weight"].T


def _attention(x: Tensor, own: dict[str, Tensor], config: LlamaConfig) -> Tensor:
    x = _norm(x, own["input_layernorm.weight"], config)
    seq, size = x.shape[1], config.head_dim
    query, key, value = (
        (x @ own[f"self_attn.{kind}_proj.weight"].T).unflatten(-1, (-1, size)).transpose(1, 2)
        for kind in "qkv"
    )  # [batch, heads, seq, head_dim]
    group = query.shape[1] // key.shape[1]
    key, value = (
        _rotate(key, config).repeat_interleave(group, 1),
        value.repeat_interleave(group, 1),
    )
    scores = _rotate(query, config) @ key.transpose(-1, -2) / size**0.5
    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ value
    return mixed.transpose(1, 2).flatten(2) @ own["self_attn.o_proj.weight"].T


def _rotate(x: Tensor, config: LlamaConfig) -> Tensor:
    """Turn channel pairs (j, j + head_dim/2) as complex numbers; plain rope without scaling."""
    first, second = x.chunk(2, -1)
    half = first.shape[-1]
    speeds = config.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)
    angles = torch.arange(x.shape[-2])[:, None] * speeds
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), -1)
