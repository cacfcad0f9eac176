"""The `config.json` of dolomite-engine and of its successor lm-engine. Needs no torch.

Sources: github.com/IBM/dolomite-engine and github.com/open-lm-engine/lm-engine, `hf_models/config`.
Three generations are read: n_embd and its like; hidden_size with one attention for all layers; and
a list of blocks, one a layer. Defaults are those of their configuration classes.
"""

import math
from collections.abc import Mapping
from typing import Any

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config_values import either, flag, refuse, require, require_window, shown

# `gpt_dolomite` is gpt_base's older name.
MODEL_TYPES = ("gpt_base", "gpt_dolomite", "ladder_residual", "palm")

_OLDEST_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_layers": "n_layer",
}
_DEFAULTS = {
    "hidden_size": 768,
    "max_position_embeddings": 1024,
    "num_attention_heads": 12,
    "num_layers": 12,
}
# Fields of blocks that are read below, or that matter in training alone.
_MIXER_FIELDS = {
    "sequence_mixer_type",
    "num_attention_heads",
    "num_key_value_heads",
    "attention_head_type",
    "head_dim",
    "add_bias",
    "qkv_bias",
    "attention_multiplier",
    "attention_multiplier_method",
    "sliding_window",
    "softmax_dropout",
    "dropout",
}
_MLP_FIELDS = {
    "mlp_type",
    "mlp_block_type",
    "activation_function",
    "intermediate_size",
    "add_bias",
    "use_interleaved_weights",
    "dropout",
}
# Versions that write these wrote c_fc in one order first, in the other one later.
_OF_EITHER_ORDER = ("embedding_init_method", "use_depth_scaled_init")


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ModelConfig that a `config.json` of one of MODEL_TYPES says.

    Raises:
        CheckpointError: if the model does what isn't supported.
        KeyError: if a field is missing; TypeError or ValueError: if one is of the wrong kind.
    """
    _require_supported(values)
    mixer, mlp = _mixer(values), _mlp(values)
    hidden, heads = _size(values, "hidden_size"), mixer["num_attention_heads"]
    head_dim = either(mixer.get("head_dim"), hidden // heads)
    _require_supported_mixer(mixer, head_dim, _size(values, "max_position_embeddings"))
    _require_supported_mlp(mlp)
    interleaved(values)
    if either(values.get("rope_dim"), hidden // heads) != head_dim:
        raise CheckpointError(f"rope_dim other than head_dim={shown(head_dim)} is not supported.")
    kind, layers = values["model_type"], _size(values, "num_layers")
    return {
        "hidden_size": hidden,
        "intermediate_size": mlp["intermediate_size"],
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": mixer["num_key_value_heads"],
        "head_dim": head_dim,
        "vocab_size": values["vocab_size"],
        "max_position_embeddings": _size(values, "max_position_embeddings"),
        "rms_norm_eps": float(values.get("layer_norm_epsilon", 1e-5)),
        "rope_theta": float(values.get("rope_theta", 1e4)),
        "rope_scaling": None,
        "tie_word_embeddings": flag(values, "tie_word_embeddings", default=True),
        "qkv_bias": flag(mixer, "qkv_bias"),
        "topology": "parallel" if kind == "palm" else "standard",
        "ladder_layers": either(
            values.get("ladder_layers"), layers if kind == "ladder_residual" else 0
        ),
    }


def interleaved(values: Mapping[str, Any]) -> bool:
    """Whether the rows of gate and up alternate in c_fc; otherwise all of up come first.

    Raises:
        CheckpointError: if the configuration doesn't say.
    """
    mlp = _mlp(values)
    if "use_interleaved_weights" not in mlp and any(name in values for name in _OF_EITHER_ORDER):
        raise CheckpointError(
            "config.json doesn't say how c_fc holds gate and up, which has changed in this format; "
            "set use_interleaved_weights in each of mlp_blocks: true where their rows alternate, "
            "false where all of up come first."
        )
    return flag(mlp, "use_interleaved_weights")


def _size(values: Mapping[str, Any], name: str) -> Any:
    return values.get(name, values.get(_OLDEST_NAMES[name], _DEFAULTS[name]))


def _mixer(values: Mapping[str, Any]) -> dict[str, Any]:
    """The attention of every layer: its fields."""
    if values.get("sequence_mixer_blocks") is not None:
        block = _same_in_all_layers(values, "sequence_mixer_blocks")
        return {"num_attention_heads": 12, "num_key_value_heads": 1, "add_bias": False} | block
    block = _same_in_all_layers(values, "attention_blocks")
    return {
        "sequence_mixer_type": block.get("attention_block_type", "softmax_attention"),
        "num_attention_heads": _size(values, "num_attention_heads"),
        "num_key_value_heads": _flat_kv_heads(values),
        "add_bias": values.get("add_bias", True),
        "attention_multiplier": values.get("attention_multiplier"),
    }


def _flat_kv_heads(values: Mapping[str, Any]) -> Any:
    kind = values.get("attention_head_type", "mqa")
    if (given := values.get("num_key_value_heads")) is not None:
        return given
    if kind == "mha":
        return _size(values, "num_attention_heads")
    if kind == "mqa":
        return 1
    raise CheckpointError(
        f"attention_head_type={shown(kind)} without num_key_value_heads is not supported."
    )


def _mlp(values: Mapping[str, Any]) -> dict[str, Any]:
    """The MLP of every layer: its fields."""
    has_mixers = values.get("sequence_mixer_blocks") is not None
    flat = {
        "activation_function": values.get("activation_function", "gelu_pytorch_tanh"),
        "intermediate_size": either(values.get("n_inner"), 4 * _size(values, "hidden_size")),
        "add_bias": values.get("add_bias", not has_mixers),
    }
    return flat | _same_in_all_layers(values, "mlp_blocks")


def _same_in_all_layers(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    blocks = values.get(name)
    if blocks is None:
        return {}
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise CheckpointError(f"{name} must be a list of objects, not {shown(blocks)}.")
    layers = _size(values, "num_layers")
    if not blocks or len(blocks) != layers:
        raise CheckpointError(f"{name} has {len(blocks)} entries for {shown(layers)} layers.")
    if any(block != blocks[0] for block in blocks):
        raise CheckpointError(f"{name} that differ from layer to layer are not supported.")
    return dict(blocks[0])


def _require_supported(values: Mapping[str, Any]) -> None:
    require(values, "normalization_function", "rmsnorm", "layernorm")
    require(values, "position_embedding_type", "rope", "learned_absolute")
    require(values, "scale_attn_weights", True, True)
    refuse(values, "rope_scaling", "quantization_config", "num_nextn_predict_layers")
    for name in ("m_emb", "m_width", "m_residual"):
        if values.get(name) not in (None, 1):
            raise CheckpointError(f"{name}={shown(values[name])} is not supported; only 1 is.")


def _require_supported_mixer(mixer: Mapping[str, Any], head_dim: Any, longest: Any) -> None:
    require(mixer, "sequence_mixer_type", "softmax_attention", "softmax_attention")
    require(mixer, "add_bias", False, False)
    method = mixer.get("attention_multiplier_method")
    if method not in (None, "1 / sqrt(head_dim)"):
        raise CheckpointError(f"attention_multiplier_method={shown(method)} is not supported.")
    multiplier = mixer.get("attention_multiplier")
    if multiplier is not None and not math.isclose(multiplier, head_dim**-0.5, rel_tol=1e-6):
        raise CheckpointError(
            f"attention_multiplier={shown(multiplier)} is not supported; only head_dim**-0.5 is."
        )
    require_window(mixer.get("sliding_window"), longest)
    refuse(mixer, *(mixer.keys() - _MIXER_FIELDS))


def _require_supported_mlp(mlp: Mapping[str, Any]) -> None:
    require(mlp, "mlp_type", "MLP", "MLP")
    require(mlp, "mlp_block_type", "MLP", "MLP")
    require(mlp, "activation_function", "swiglu", "gelu_pytorch_tanh")
    require(mlp, "add_bias", False, False)
    refuse(mlp, *(mlp.keys() - _MLP_FIELDS))
