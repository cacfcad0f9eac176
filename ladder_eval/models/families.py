"""Families of the Hugging Face format: what their `config.json` says. Needs no torch.

Defaults are those of the families' configuration classes in transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config_values import either, flag, require, require_window, shown


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    """Defaults of missing fields, and what a family has that Llama has not.

    `windows` says which layers have a sliding window of the size that the configuration gives:
    `none`, `all`, or `some` (those that `use_sliding_window` and `layer_types` name).
    """

    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    windows: str = "none"
    sliding_window: int = 4096


_LLAMA = _Family()

# `llamaLadder` is the ladder authors' own.
MODEL_TYPES = {
    "llama": _LLAMA,
    "llamaLadder": _LLAMA,
    "mistral": _Family(num_key_value_heads=8, rms_norm_eps=1e-6, windows="all"),
    "qwen2": _Family(num_key_value_heads=32, rms_norm_eps=1e-6, windows="some", qkv_bias=True),
    "qwen3": _Family(
        num_key_value_heads=32, head_dim=128, rms_norm_eps=1e-6, windows="some", qk_norm=True
    ),
}
_FULL = "full_attention"


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ModelConfig that a `config.json` of one of MODEL_TYPES says.

    Raises:
        CheckpointError: if the model does what isn't supported.
        KeyError: if a field is missing; TypeError or ValueError: if one is of the wrong kind.
    """
    family = MODEL_TYPES[values["model_type"]]
    _require_supported(values, family)
    heads = values["num_attention_heads"]
    per_head = values["hidden_size"] // heads
    return {
        "hidden_size": values["hidden_size"],
        "intermediate_size": values["intermediate_size"],
        "num_hidden_layers": values["num_hidden_layers"],
        "num_attention_heads": heads,
        "num_key_value_heads": either(
            values.get("num_key_value_heads", family.num_key_value_heads), heads
        ),
        "head_dim": either(values.get("head_dim", family.head_dim), per_head),
        "vocab_size": values["vocab_size"],
        "max_position_embeddings": values["max_position_embeddings"],
        "rms_norm_eps": float(_eps(values, family)),
        "rope_theta": float(either(_rope(values).get("rope_theta"), values.get("rope_theta", 1e4))),
        "rope_scaling": _rope_scaling(_rope(values)),
        "tie_word_embeddings": flag(values, "tie_word_embeddings"),
        "qkv_bias": family.qkv_bias,
        "qk_norm": family.qk_norm,
        "ladder_layers": either(values.get("ladder_layers"), 0),
    }


def written_as(*, qkv_bias: bool, qk_norm: bool, ladder: bool) -> dict[str, Any]:
    """The family that a model is written as, in `config.json`'s words.

    Raises:
        CheckpointError: if there is none.
    """
    if ladder and (qkv_bias or qk_norm):
        raise CheckpointError(
            "There is no checkpoint format for ladder models with biases or query and key norms; "
            "keep the dense weights and run them with --residual ladder."
        )
    if qkv_bias and qk_norm:
        raise CheckpointError(
            "There is no checkpoint format for models with biases and query and key norms."
        )
    if qkv_bias:
        return {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    if qk_norm:
        return {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    kind = "llamaLadder" if ladder else "llama"
    return {"model_type": kind, "architectures": ["LlamaForCausalLM"]}


def _require_supported(values: Mapping[str, Any], family: _Family) -> None:
    if values["model_type"] == "llamaLadder" and values.get("ladder_layers") is None:
        raise CheckpointError(
            "config.json says llamaLadder but not which layers; set ladder_layers in it."
        )
    require(values, "hidden_act", "silu", "silu")
    for name in ("attention_bias", "mlp_bias"):
        if flag(values, name):
            raise CheckpointError(
                f"{name}=true is not supported; only query, key and value may have biases, as in "
                "qwen2."
            )
    if values.get("quantization_config"):
        raise CheckpointError("Quantised safetensors are not supported; use the original weights.")
    if family.windows != "none":
        require_window(_window(values, family), values["max_position_embeddings"])


def _window(values: Mapping[str, Any], family: _Family) -> object:
    """The size of the window that some layer has; None if none has one."""
    types = values.get("layer_types")
    if types is not None and not _are_types(types):
        raise CheckpointError(f"layer_types={shown(types)} is not supported.")
    window = values.get("sliding_window", family.sliding_window)
    if family.windows == "some" and not flag(values, "use_sliding_window"):
        window = None
    if window is None and types and set(types) != {_FULL}:
        raise CheckpointError("layer_types has sliding windows, but none is given; set their size.")
    return window if family.windows == "all" or _has_sliding_layers(values, types) else None


def _are_types(types: object) -> bool:
    return isinstance(types, list) and all(kind in (_FULL, "sliding_attention") for kind in types)


def _has_sliding_layers(values: Mapping[str, Any], types: list[str] | None) -> bool:
    if types is not None:
        return set(types) != {_FULL}
    return bool(values.get("max_window_layers", 28) < values["num_hidden_layers"])


def _rope(values: Mapping[str, Any]) -> Mapping[str, Any]:
    # transformers 5 writes rope_parameters, earlier versions rope_scaling.
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, Mapping) or any(isinstance(value, Mapping) for value in rope.values()):
        raise CheckpointError(f"config.json has a rope_scaling of an unknown form: {shown(rope)}.")
    if either(rope.get("partial_rotary_factor", values.get("partial_rotary_factor")), 1) != 1:
        raise CheckpointError("partial_rotary_factor is not supported; only 1 is.")
    return rope


def _eps(values: Mapping[str, Any], family: _Family) -> Any:
    if family.rms_norm_eps is None:
        return values["rms_norm_eps"]
    return values.get("rms_norm_eps", family.rms_norm_eps)


def _rope_scaling(rope: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise CheckpointError(f"rope_type {shown(kind)} is not supported; default and llama3 are.")
    return {
        "factor": float(rope["factor"]),
        "low_freq_factor": float(rope["low_freq_factor"]),
        "high_freq_factor": float(rope["high_freq_factor"]),
        "original_max_position_embeddings": int(rope["original_max_position_embeddings"]),
    }
