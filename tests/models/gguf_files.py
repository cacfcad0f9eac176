"""Small GGUF files, written as llama.cpp's converter writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from transformers import LlamaForCausalLM

# ------------------------------------------------------------------ tokenizers

_KEPT = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {b: chr(b) for b in _KEPT} | {
    b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in _KEPT)
}  # GPT-2's printable letter for each byte

MERGES = [
    "h e",
    "l l",
    "he ll",
    "hell o",
    "Ġ w",
    "1 2",
    "12 3",
    "123 4",
    "Ġ 1",
    "Ċ Ċ",
    "Ġ Ġ",
    "Ã ©",
    "s e",  # crosses the end of 's
    "' s",
]
WORDS = [merge.replace(" ", "") for merge in MERGES]
UNREACHABLE = "whole"  # no merges lead to it
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = "<repo_name>"
TOKENS = [*BYTES.values(), *WORDS, UNREACHABLE, *SPECIALS, USER_DEFINED]
IDS = {token: index for index, token in enumerate(TOKENS)}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)


def tokenizer_fields(pre: str = "smollm", **changes: Any) -> dict[str, Any]:
    """A byte-level BPE tokenizer; None drops a field."""
    normal, control, user_defined = 1, 3, 4
    kinds = [normal] * (len(TOKENS) - 4) + [control] * 3 + [user_defined]
    fields = {
        "model": "gpt2",
        "pre": pre,
        "tokens": TOKENS,
        "token_type": kinds,
        "merges": MERGES,
        "bos_token_id": IDS["<|im_start|>"],
        "eos_token_id": IDS["<|im_end|>"],
        "unknown_token_id": IDS["<|endoftext|>"],
        "padding_token_id": IDS["<|im_end|>"],
    }
    named = {f"tokenizer.ggml.{name}": value for name, value in (fields | changes).items()}
    return {"tokenizer.chat_template": TEMPLATE} | named


# ---------------------------------------------------------------------- models

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
}


def gguf_tensors(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    """A model's weights under GGUF's names and in its row order, in float32."""
    config, tensors = model.config, {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = weight.numpy()
        if "q_proj" in name:
            values = permuted(values, config.num_attention_heads)
        if "k_proj" in name:
            values = permuted(values, config.num_key_value_heads)
        for theirs, its in NAMES.items():
            name = name.replace(theirs, its)  # noqa: PLW2901
        tensors[name] = values
    return tensors


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """The row order of query and key, as llama.cpp's convert_hf_to_gguf.py makes it."""
    split = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return split.swapaxes(1, 2).reshape(rows.shape)


def model_fields(model: LlamaForCausalLM) -> dict[str, Any]:
    """The metadata of a model."""
    config = model.config
    return {
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.value_length": config.head_dim,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.vocab_size": config.vocab_size,
    }


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    """Values in one of GGUF's types; norms, having one axis, stay float32, and blocks blocks."""
    if kind == "F32" or values.ndim == 1 or values.dtype == np.uint8:
        return values
    if kind == "F16":
        return values.astype(np.float16)
    if kind in RANDOM_BLOCKS:
        return RANDOM_BLOCKS[kind](values.shape)
    return quantize(values, GGMLQuantizationType[kind])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def _scale(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(1e-5, 2e-4, (*shape, 1)).astype("<f2").view(np.uint8)


def _q4_k(shape: tuple[int, ...]) -> np.ndarray:
    rows, blocks = shape[0], shape[1] // 256
    parts = (_scale(rows, blocks), _scale(rows, blocks), _random(rows, blocks, 140))
    return np.concatenate(parts, -1).reshape(rows, -1)


def _q6_k(shape: tuple[int, ...]) -> np.ndarray:
    rows, blocks = shape[0], shape[1] // 256
    return np.concatenate((_random(rows, blocks, 208), _scale(rows, blocks)), -1).reshape(rows, -1)


# The package can't quantise to these, but any bytes are valid around a finite scale.
RANDOM_BLOCKS = {"Q4_K": _q4_k, "Q6_K": _q6_k}


def write_gguf(
    file: Path,
    model: LlamaForCausalLM,
    *,
    kind: str = "F32",
    architecture: str = "llama",
    fields: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray | None] | None = None,
) -> Path:
    """Write a model as a GGUF file; `fields` and `tensors` change it, None drops an entry."""
    writer = GGUFWriter(file, architecture)
    for name, value in (model_fields(model) | tokenizer_fields() | dict(fields or {})).items():
        _add_field(writer, name, value)
    for name, values in (gguf_tensors(model) | dict(tensors or {})).items():
        if values is not None:
            data = encoded(values, kind)
            raw = None if data.dtype != np.uint8 else GGMLQuantizationType[kind]
            writer.add_tensor(name, data, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add_field(writer: GGUFWriter, name: str, value: Any) -> None:
    adders = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    if value is not None:
        adders[type(value)](name, value)
