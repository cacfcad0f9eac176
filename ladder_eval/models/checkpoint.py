"""Hugging Face checkpoint folders: config.json, safetensors, tokenizer files.

Only JSON and safetensors are read: neither can carry code.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import ALONE, TensorParallel
from ladder_eval.errors import CheckpointError
from ladder_eval.fetch import sha256_file
from ladder_eval.models.config import ModelConfig, config_from_hf
from ladder_eval.models.parallel_layers import Shard
from ladder_eval.models.transformer import Transformer

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_SHOWN_PROBLEMS = 10
_DTYPES = ("F64", "F32", "F16", "BF16")


def read_config(folder: Path) -> ModelConfig:
    """The configuration of the checkpoint in a folder.

    Raises:
        CheckpointError: if the folder holds no checkpoint, or one that isn't supported.
    """
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint folder: it has no config.json; give a folder with "
            "config.json, safetensors weights and tokenizer.json, or a GGUF file."
        )
    try:
        return config_from_hf(_read_json(folder / "config.json"))
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint: one, or those that its index lists.

    Raises:
        CheckpointError: if there are none, or the index lists what isn't there.
    """
    index = folder / _INDEX
    names = _indexed_files(index) if index.is_file() else [_SINGLE]
    files = tuple(folder / name for name in names)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(f"{folder} has no {', '.join(missing)}; copy the whole checkpoint.")
    return files


def weights_sha256(folder: Path) -> str:
    """Hash of the content of all weight files."""
    return _combined(sha256_file(file) for file in weight_files(folder))


def tokenizer_sha256(folder: Path) -> str:
    """Hash of the content of all tokenizer files.

    Raises:
        CheckpointError: if the folder has no tokenizer.json.
    """
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json; copy the model's tokenizer there.")
    files = (folder / name for name in TOKENIZER_FILES)
    return _combined(f"{file.name}:{sha256_file(file)}" for file in files if file.is_file())


def load_model(
    folder: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    tp: TensorParallel = ALONE,
) -> Transformer:
    """Build a rank's part of the model and fill it with its part of the checkpoint's weights.

    Args:
        folder: The checkpoint folder.
        config: The checkpoint's shape; its ladder layers may differ from the checkpoint's.
        dtype: The dtype of all weights.
        device: Where the weights go.
        tp: The rank's place in its group; only its own slices are read.

    Raises:
        CheckpointError: if tensors are missing, unknown or misshapen, in one message.
    """
    stored = _stored_tensors(folder)
    _require_layers(folder, stored, config)
    with torch.device("meta"):
        model = Transformer(config, tp)
    shards = _shards(model)
    _require_fit(folder, stored, _expected_shapes(model, shards, stored))
    state = {
        name: tensor.to(device=device, dtype=dtype)
        for name, tensor in _read_tensors(stored, shards)
    }
    if config.tie_word_embeddings:
        _tie(folder, state)
    model.load_state_dict(state, assign=True)
    if config.tie_word_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    return model.eval().requires_grad_(False)


@dataclass(frozen=True, slots=True)
class _StoredTensor:
    file: Path
    name: str
    shape: tuple[int, ...]


def _stored_tensors(folder: Path) -> dict[str, _StoredTensor]:
    """Name in the model → where the tensor lies, from the headers of all files."""
    found: dict[str, _StoredTensor] = {}
    for file in weight_files(folder):
        with _open(file) as tensors:
            for stored in tensors.keys():  # noqa: SIM118 (not a mapping)
                name = stored.removeprefix("model.")
                if name.endswith("rotary_emb.inv_freq"):
                    continue  # in old checkpoints; it follows from the configuration
                if name in found:
                    raise CheckpointError(f"{folder} holds {name} twice; copy it from its source.")
                found[name] = _StoredTensor(file, stored, _shape(file, stored, tensors))
    return found


def _shape(file: Path, name: str, tensors: Any) -> tuple[int, ...]:
    piece = tensors.get_slice(name)
    if piece.get_dtype() not in _DTYPES:
        raise CheckpointError(
            f"{file} stores {name} as {piece.get_dtype()}; supported are {', '.join(_DTYPES)}."
        )
    return tuple(piece.get_shape())


def _require_layers(folder: Path, stored: Mapping[str, _StoredTensor], config: ModelConfig) -> None:
    """Compare the number of layers before as many are built."""
    found = len({name.split(".")[1] for name in stored if name.startswith("layers.")})
    if found != config.num_hidden_layers:
        raise CheckpointError(
            f"The tensors in {folder} don't fit its config.json: they are of {found} layers, "
            f"not of num_hidden_layers={config.num_hidden_layers}."
        )


def _shards(model: Transformer) -> dict[str, Shard]:
    """Name of each weight that is divided among ranks → this rank's part of it."""
    layers = model.named_modules()
    return {f"{name}.weight": layer.shard for name, layer in layers if hasattr(layer, "shard")}


def _expected_shapes(
    model: Transformer, shards: Mapping[str, Shard], stored: Mapping[str, _StoredTensor]
) -> dict[str, tuple[int, ...]]:
    """Shapes of the whole model's tensors, as the checkpoint should hold them."""
    shapes = {
        name: shards[name].shape if name in shards else tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
    }
    if model.config.tie_word_embeddings and "lm_head.weight" not in stored:
        del shapes["lm_head.weight"]
    return shapes


def _tie(folder: Path, state: dict[str, Tensor]) -> None:
    """Give the head the embedding; a head that the checkpoint holds as well must be the same."""
    embedding = state["embed_tokens.weight"]
    if not torch.equal(state.setdefault("lm_head.weight", embedding), embedding):
        raise CheckpointError(
            f"{folder} has tie_word_embeddings=true, but a head that differs from its embedding; "
            "set it to false in config.json if the head is meant."
        )
    state["lm_head.weight"] = embedding


def _require_fit(
    folder: Path, stored: Mapping[str, _StoredTensor], expected: Mapping[str, tuple[int, ...]]
) -> None:
    problems = [f"{name} is missing" for name in expected if name not in stored]
    problems += [f"{name} is unknown" for name in stored if name not in expected]
    problems += [
        f"{name} is {list(stored[name].shape)} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in stored and stored[name].shape != shape
    ]
    if problems:
        shown = "; ".join(problems[:_SHOWN_PROBLEMS])
        more = len(problems) - _SHOWN_PROBLEMS
        raise CheckpointError(
            f"The tensors in {folder} don't fit its config.json: {shown}"
            + (f"; and {more} more." if more > 0 else ".")
        )


def _read_tensors(
    stored: Mapping[str, _StoredTensor], shards: Mapping[str, Shard]
) -> Iterator[tuple[str, Tensor]]:
    for file in sorted({place.file for place in stored.values()}):
        with _open(file) as tensors:
            for name, place in stored.items():
                if place.file == file:
                    yield name, _own_part(tensors.get_slice(place.name), shards.get(name))


def _own_part(tensor: Any, shard: Shard | None) -> Tensor:
    part: Tensor
    if shard is None or (len(shard.rows), len(shard.columns)) == shard.shape:
        part = tensor[:]
    else:
        rows, columns = shard.rows, shard.columns
        # A copy, since a slice would keep the whole tensor in memory.
        part = tensor[rows.start : rows.stop, columns.start : columns.stop].clone()
    return part


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except SafetensorError as error:
        raise CheckpointError(f"{file} is not a readable safetensors file: {error}.") from None


def _indexed_files(index: Path) -> list[str]:
    names = _read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise CheckpointError(f"{index} has no weight_map of tensor names to file names.")
    files = sorted(set(names.values()))
    outside = [name for name in files if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names a file outside its folder: {outside[0]}.")
    return files


def _read_json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is not readable JSON: {error}.") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{file} holds no JSON object.")
    return values


def _combined(hashes: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
