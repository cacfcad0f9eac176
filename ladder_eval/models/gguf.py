"""GGUF files of Llama-family models, rewritten once as a Hugging Face checkpoint folder.

Values are dequantised to float32, so the copy holds exactly what the quantised file means.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config import ModelConfig, RopeScaling, config_to_hf
from ladder_eval.models.config_values import printable, shown
from ladder_eval.models.gguf_header import check_header
from ladder_eval.models.gguf_tokenizer import write_tokenizer
from ladder_eval.models.new_folder import new_folder
from ladder_eval.models.safetensors_writer import Kind, write_safetensors

SUPPORTED_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")

_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
# Only needed for Llama 3's scaled rotary frequencies, which the file holds as divisors.
_ROPE_DIVISORS = "rope_freqs.weight"


def convert_gguf(file: Path, folder: Path) -> None:
    """Write the model, configuration and tokenizer of a GGUF file as a checkpoint folder.

    The folder appears complete or not at all, and one tensor is dequantised at a time.

    Raises:
        CheckpointError: if the file is damaged, not of the Llama architecture, or quantised
            in a way that isn't supported.
    """
    reader, fields = _open(file)
    config = _config(fields, {tensor.name: tensor for tensor in reader.tensors}, file)
    with new_folder(folder) as unfinished:
        write_safetensors(unfinished, _layout(reader, file), _tensors(reader, config, file))
        values = json.dumps(config_to_hf(config), indent=2)
        (unfinished / "config.json").write_text(values, encoding="utf-8")
        write_tokenizer(fields, unfinished, file)


def read_gguf_config(file: Path) -> ModelConfig:
    """The configuration in a GGUF file's header; no weights are read.

    Raises:
        CheckpointError: as `convert_gguf`.
    """
    reader, fields = _open(file)
    return _config(fields, {tensor.name: tensor for tensor in reader.tensors}, file)


def _open(file: Path) -> tuple[GGUFReader, dict[str, Any]]:
    """Read the header, after a walk over it that keeps a damaged one from being believed."""
    try:
        check_header(file)
        reader = GGUFReader(file)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # the reader trusts the file, so damage can surface as anything
        raise CheckpointError(_damaged(file, str(error) or type(error).__name__)) from None
    size = file.stat().st_size
    for tensor in reader.tensors:
        if tensor.data_offset + tensor.n_bytes > size:
            raise CheckpointError(_damaged(file, f"{tensor.name} ends beyond the file"))
    if sum(tensor.n_bytes for tensor in reader.tensors) > size:  # each would be written out
        raise CheckpointError(_damaged(file, "several tensors lie in one place"))
    return reader, fields


def _damaged(file: Path, reason: str) -> str:
    return f"{file} is a damaged or truncated GGUF file ({printable(reason)}); fetch it again."


def _config(fields: Mapping[str, Any], tensors: Mapping[str, Any], file: Path) -> ModelConfig:
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise CheckpointError(
            f"{file} holds a {shown(architecture)} model; only llama is supported."
        )
    _require_plain_heads(fields, file)
    try:
        heads = int(fields["llama.attention.head_count"])
        hidden = int(fields["llama.embedding_length"])
        theta = float(fields.get("llama.rope.freq_base", 10000.0))
        head_dim = int(fields.get("llama.attention.key_length", hidden // heads))
        return ModelConfig(
            hidden_size=hidden,
            intermediate_size=int(fields["llama.feed_forward_length"]),
            num_hidden_layers=int(fields["llama.block_count"]),
            num_attention_heads=heads,
            num_key_value_heads=int(fields.get("llama.attention.head_count_kv", heads)),
            head_dim=head_dim,
            vocab_size=int(tensors["token_embd.weight"].shape[1]),
            max_position_embeddings=int(fields["llama.context_length"]),
            # Stored as float32: rounding gives back 1e-05 for 9.99999974e-06.
            rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
            rope_theta=theta,
            rope_scaling=_rope_scaling(fields, tensors, theta, head_dim),
            tie_word_embeddings="output.weight" not in tensors,
        )
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, ArithmeticError, IndexError) as error:
        reason = printable(str(error))
        raise CheckpointError(f"{file} has a missing or wrong field: {reason}.") from None


def _require_plain_heads(fields: Mapping[str, Any], file: Path) -> None:
    """Refuse heads whose values or rotated channels are fewer than their keys."""
    length = fields.get("llama.attention.key_length")
    for name in ("llama.attention.value_length", "llama.rope.dimension_count"):
        if length is not None and fields.get(name, length) != length:
            raise CheckpointError(
                f"{file} has {name}={shown(fields[name])}; only {length} is supported."
            )


def _rope_scaling(
    fields: Mapping[str, Any], tensors: Mapping[str, Any], theta: float, head_dim: int
) -> RopeScaling | None:
    """Find the llama3 scaling whose divisors the file holds: the parameters aren't in it."""
    if fields.get("llama.rope.scaling.type", "none") != "none":
        raise CheckpointError(
            f"rope scaling {shown(fields['llama.rope.scaling.type'])} is not supported."
        )
    if _ROPE_DIVISORS not in tensors:
        return None
    divisors = tensors[_ROPE_DIVISORS].data
    fitting = divisors.shape == (head_dim // 2,)  # before as many are computed
    for factor in (8.0, 32.0) if fitting else ():  # Llama 3.1, Llama 3.2
        scaling = RopeScaling(
            factor=factor,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        )
        expected = _divisors(scaling, theta, head_dim)
        if np.allclose(divisors, expected, rtol=1e-4):
            return scaling
    raise CheckpointError(f"{_ROPE_DIVISORS} is not Llama 3.1's or 3.2's rope scaling.")


def _divisors(scaling: RopeScaling, theta: float, head_dim: int) -> NDArray[np.float64]:
    frequencies = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    turns = scaling.original_max_position_embeddings * frequencies / (2 * np.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = np.clip((turns - low) / (high - low), 0, 1)
    divisors: NDArray[np.float64] = 1 / (keep + (1 - keep) / scaling.factor)
    return divisors


def _layout(reader: GGUFReader, file: Path) -> dict[str, Kind]:
    """Names and shapes of what `_tensors` gives."""
    layout = {}
    for tensor in _weights(reader):
        kind = GGMLQuantizationType(tensor.tensor_type).name
        if kind not in SUPPORTED_TYPES:
            raise CheckpointError(
                f"{file} stores {printable(tensor.name)} as {kind}; "
                f"supported are {', '.join(SUPPORTED_TYPES)}."
            )
        # GGUF counts dimensions from the innermost.
        layout[_name(tensor.name, file)] = ("F32", tuple(map(int, reversed(tensor.shape))))
    return layout


def _tensors(
    reader: GGUFReader, config: ModelConfig, file: Path
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for tensor in _weights(reader):
        values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        name = _name(tensor.name, file)
        yield name, _in_order(values, name, config)
        del values  # before the next one is made


def _weights(reader: GGUFReader) -> list[Any]:
    return [tensor for tensor in reader.tensors if tensor.name != _ROPE_DIVISORS]


def _name(stored: str, file: Path) -> str:
    if stored in _NAMES:
        return _NAMES[stored]
    prefix, _, rest = stored.partition(".")
    layer, _, kind = rest.partition(".")
    if prefix == "blk" and layer.isdecimal() and kind in _LAYER_NAMES:
        return f"model.layers.{int(layer)}.{_LAYER_NAMES[kind]}"
    raise CheckpointError(f"{file} holds {printable(stored)}, which a llama model doesn't have.")


def _in_order(values: NDArray[np.float32], name: str, config: ModelConfig) -> NDArray[np.float32]:
    """Undo GGUF's row order of query and key: pairs (i, i + head_dim/2) are interleaved there."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    if values.ndim != 2 or len(values) % config.head_dim:
        raise CheckpointError(f"{name} is {list(values.shape)}: no rows of whole heads.")
    rows = values.reshape(-1, config.head_dim // 2, 2, values.shape[-1])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(values.shape))
