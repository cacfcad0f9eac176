"""A checkpoint's tensors one by one, until checkpoint.py reads them for every layout."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ladder_eval.models.checkpoint import (
    _expected_shapes,
    _open,
    _require_fit,
    _require_layers,
    _shards,
    _stored_tensors,
)
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.transformer import Transformer


def tensor_layout(folder: Path, config: ModelConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name as transformers writes it → safetensors dtype and shape, in file order."""
    stored = _stored_tensors(folder)
    _require_layers(folder, stored, config)
    with torch.device("meta"):
        model = Transformer(config)
    _require_fit(folder, stored, _expected_shapes(model, _shards(model), stored))
    layout = {}
    for name, place in stored.items():
        with _open(place.file) as tensors:
            layout[_hf(name)] = (tensors.get_slice(place.name).get_dtype(), place.shape)
    return layout


def whole_tensors(folder: Path, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """The same names in the same order, each with its tensor in the stored dtype."""
    for name, place in _stored_tensors(folder).items():
        with _open(place.file) as tensors:
            yield _hf(name), tensors.get_tensor(place.name)


def _hf(name: str) -> str:
    return name if name.startswith("lm_head.") else f"model.{name}"
