"""Checkpoints as dolomite-engine and lm-engine write them, made of Llama models of transformers."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaForCausalLM


def fused_attention(query: Tensor, key: Tensor, value: Tensor, kv_heads: int) -> Tensor:
    """Rows of each key-value group: its queries, its key, its value."""
    groups = [rows.unflatten(0, (kv_heads, -1)) for rows in (query, key, value)]
    return torch.cat(groups, 1).flatten(0, 1).contiguous()


def fused_mlp(up: Tensor, gate: Tensor, *, alternate: bool = False) -> Tensor:
    """Up above gate; or their rows by turns, gate first."""
    return torch.stack((gate, up), 1).flatten(0, 1) if alternate else torch.cat((up, gate))


def dolomite_tensors(
    model: LlamaForCausalLM,
    *,
    palm: bool = False,
    alternate: bool = False,
    mixer: str = "sequence_mixer",
    mlp: str = "mlp_block",
) -> dict[str, Tensor]:
    """A model's weights in this layout, under the names of one of its generations."""
    config = model.config
    state = {name.removeprefix("model."): value for name, value in model.state_dict().items()}
    tensors = {
        "transformer.wte.weight": state["embed_tokens.weight"],
        "transformer.ln_f.weight": state["norm.weight"],
    }
    if not config.tie_word_embeddings:
        tensors["lm_head.weight"] = state["lm_head.weight"]
    for layer in range(config.num_hidden_layers):
        old, new = f"layers.{layer}.", f"transformer.h.{layer}."
        names = [f"{old}self_attn.{kind}_proj" for kind in "qkv"]
        for kind in ("weight", "bias"):
            if f"{names[0]}.{kind}" in state:
                parts = [state[f"{name}.{kind}"] for name in names]
                fused = fused_attention(*parts, config.num_key_value_heads)
                tensors[f"{new}{mixer}.c_attn.{kind}"] = fused
        tensors[f"{new}{mixer}.c_proj.weight"] = state[f"{old}self_attn.o_proj.weight"]
        up, gate = (state[f"{old}mlp.{kind}_proj.weight"] for kind in ("up", "gate"))
        tensors[f"{new}{mlp}.c_fc.weight"] = fused_mlp(up, gate, alternate=alternate)
        tensors[f"{new}{mlp}.c_proj.weight"] = state[f"{old}mlp.down_proj.weight"]
        norms = ("ln", None) if palm else ("ln_1", "ln_2")
        for ours, theirs in zip(("input", "post_attention"), norms, strict=True):
            if theirs:
                tensors[f"{new}{theirs}.weight"] = state[f"{old}{ours}_layernorm.weight"]
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _common(model: LlamaForCausalLM, kind: str) -> dict[str, object]:
    config = model.config
    return {
        "model_type": kind,
        "vocab_size": config.vocab_size,
        "layer_norm_epsilon": config.rms_norm_eps,
        "normalization_function": "rmsnorm",
        "position_embedding_type": "rope",
        "rope_theta": 10000,
        "rope_scaling": None,
        "m_emb": None,
        "m_width": None,
        "m_residual": None,
        "tie_word_embeddings": config.tie_word_embeddings,
    }


def block_values(model: LlamaForCausalLM, kind: str = "gpt_base", **mlp: object) -> dict:
    """The `config.json` of the generation with a list of blocks."""
    config = model.config
    mixer = {
        "sequence_mixer_type": "softmax_attention",
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "softmax_dropout": 0,
        "dropout": 0,
        "add_bias": False,
        "attention_multiplier": None,
        "sliding_window": None,
    }
    block = {
        "mlp_type": "MLP",
        "activation_function": "swiglu",
        "intermediate_size": config.intermediate_size,
        "dropout": 0,
        "add_bias": False,
    }
    return _common(model, kind) | {
        "hidden_size": config.hidden_size,
        "num_layers": config.num_hidden_layers,
        "max_position_embeddings": config.max_position_embeddings,
        "rope_dim": None,
        "sequence_mixer_blocks": [dict(mixer) for _ in range(config.num_hidden_layers)],
        "mlp_blocks": [block | mlp for _ in range(config.num_hidden_layers)],
    }


def flat_values(model: LlamaForCausalLM, kind: str = "gpt_dolomite") -> dict:
    """The `config.json` of the generation that has hidden_size, and one attention for all."""
    config = model.config
    return _common(model, kind) | {
        "hidden_size": config.hidden_size,
        "num_layers": config.num_hidden_layers,
        "max_position_embeddings": config.max_position_embeddings,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "attention_head_type": "gqa",
        "add_bias": False,
        "mlp_blocks": [
            {
                "mlp_block_type": "MLP",
                "activation_function": "swiglu",
                "intermediate_size": config.intermediate_size,
            }
            for _ in range(config.num_hidden_layers)
        ],
    }


def oldest_values(model: LlamaForCausalLM, kind: str = "gpt_dolomite") -> dict:
    """The `config.json` of the generation that has n_embd."""
    config = model.config
    return _common(model, kind) | {
        "n_embd": config.hidden_size,
        "n_layer": config.num_hidden_layers,
        "n_positions": config.max_position_embeddings,
        "n_head": config.num_attention_heads,
        "n_inner": config.intermediate_size,
        "num_key_value_heads": config.num_key_value_heads,
        "attention_head_type": "gqa",
        "activation_function": "swiglu",
        "scale_attn_weights": True,
        "add_bias": False,
    }


def write_folder(folder: Path, values: dict, tensors: dict[str, Tensor]) -> Path:
    """A checkpoint folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
