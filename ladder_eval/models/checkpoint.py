"""Checkpoint folders: config.json, safetensors, tokenizer files.

The tensors may lie in them as Hugging Face stores them, or in another layout (`layout.py`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import ALONE, TensorParallel
from ladder_eval.errors import CheckpointError
from ladder_eval.fetch import sha256_file
from ladder_eval.models.config import ModelConfig, config_from_hf
from ladder_eval.models.contents import Contents, layout_of
from ladder_eval.models.parallel_layers import Shard, shards
from ladder_eval.models.stored import is_file, read_json, weight_files
from ladder_eval.models.transformer import Transformer

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)


def read_config(folder: Path) -> ModelConfig:
    """The configuration of the checkpoint in a folder.

    Raises:
        CheckpointError: if the folder holds no checkpoint, or one that isn't supported.
    """
    if not is_file(folder / "config.json"):
        raise CheckpointError(
            f"{folder} is not a checkpoint folder: it has no config.json; give a folder with "
            "config.json, safetensors weights and tokenizer.json, or a GGUF file."
        )
    try:
        return config_from_hf(read_json(folder / "config.json"))
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def weights_sha256(folder: Path) -> str:
    """Hash of the content of all weight files, and of how they are to be read.

    Raises:
        CheckpointError: if there are none, or they can't be read.
    """
    hashes = [_sha256(file) for file in weight_files(folder)]
    variant = layout_of(folder, read_config(folder)).variant
    return _combined([*hashes, variant] if variant else hashes)


def tokenizer_sha256(folder: Path) -> str:
    """Hash of the content of all tokenizer files.

    Raises:
        CheckpointError: if the folder has no tokenizer.json, or a file can't be read.
    """
    if not is_file(folder / "tokenizer.json"):
        raise CheckpointError(f"{folder} has no tokenizer.json; copy the model's tokenizer there.")
    files = (folder / name for name in TOKENIZER_FILES)
    return _combined(f"{file.name}:{_sha256(file)}" for file in files if is_file(file))


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
    contents = Contents(folder, config)
    with torch.device("meta"):
        model = Transformer(config, tp)
    own = shards(model)
    contents.require_fit(_whole_shapes(model, own))
    state = {name: tensor.to(device=device, dtype=dtype) for name, tensor in contents.tensors(own)}
    if config.tie_word_embeddings:
        _tie(folder, state)
    model.load_state_dict(state, assign=True)
    if config.tie_word_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    return model.eval().requires_grad_(False)


def tensor_layout(folder: Path, config: ModelConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What a checkpoint holds, whatever its layout, as Hugging Face would store it.

    Args:
        folder: The checkpoint folder.
        config: The checkpoint's own shape.

    Returns:
        Name of each tensor as transformers writes it → dtype as safetensors writes it, and shape;
        in the order in which they lie in the files.

    Raises:
        CheckpointError: as `load_model`.
    """
    contents, shapes = _whole_contents(folder, config)
    if config.tie_word_embeddings:
        heads = ("embed_tokens.weight", "lm_head.weight")
        _tie(folder, {name: contents.tensor(name) for name in heads if name in contents.places})
    return {_hf_name(name): (contents.stored(name).dtype, shapes[name]) for name in contents.places}


def whole_tensors(folder: Path, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """The tensors of `tensor_layout` in its order, in their stored dtype, one at a time.

    Raises:
        CheckpointError: as `load_model`.
    """
    contents, _ = _whole_contents(folder, config)
    for name, tensor in contents.tensors({}):
        yield _hf_name(name), tensor


def _whole_contents(
    folder: Path, config: ModelConfig
) -> tuple[Contents, dict[str, tuple[int, ...]]]:
    contents = Contents(folder, config)
    with torch.device("meta"):
        model = Transformer(config)
    shapes = _whole_shapes(model, shards(model))
    contents.require_fit(shapes)
    return contents, shapes


def _hf_name(name: str) -> str:
    return name if name == "lm_head.weight" else f"model.{name}"


def _whole_shapes(model: Transformer, own: Mapping[str, Shard]) -> dict[str, tuple[int, ...]]:
    """Shapes of the whole model's tensors."""
    return {
        name: own[name].shape if name in own else tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
    }


def _tie(folder: Path, state: dict[str, Tensor]) -> None:
    """Give the head the embedding; a head that the checkpoint holds as well must be the same."""
    embedding = state["embed_tokens.weight"]
    if not torch.equal(state.setdefault("lm_head.weight", embedding), embedding):
        raise CheckpointError(
            f"{folder} has tie_word_embeddings=true, but a head that differs from its embedding; "
            "set it to false in config.json if the head is meant."
        )
    state["lm_head.weight"] = embedding


def _sha256(file: Path) -> str:
    try:
        return sha256_file(file)
    except OSError as error:
        raise CheckpointError(f"{file} can't be read ({error.strerror or error}).") from None


def _combined(hashes: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
