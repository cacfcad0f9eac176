"""The tensors of a checkpoint folder, found by its layout and read in parts."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ladder_eval.errors import CheckpointError
from ladder_eval.models import dolomite_config
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.config_values import printable
from ladder_eval.models.dolomite import DolomiteLayout
from ladder_eval.models.layout import Layout, Place, stored_rows
from ladder_eval.models.parallel_layers import Shard
from ladder_eval.models.stored import StoredTensor, open_weights, read_json, stored_tensors

_SHOWN_PROBLEMS = 10


class Contents:
    """The tensors of a folder, and where the model's tensors lie in them.

    Attributes:
        places: Name in the model → place; after `require_fit`, in the order of the files.
    """

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        self.places: dict[str, Place] = {}
        self._folder = folder
        self._tied = config.tie_word_embeddings
        self._layout = layout_of(folder, config)
        self._stored = self._known(stored_tensors(folder))
        self._require_layers(config)

    def stored(self, name: str) -> StoredTensor:
        """The stored tensor that holds the model's."""
        return self._stored[self.places[name].name]

    def require_fit(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Find the place of each of the model's tensors, of these whole shapes.

        Raises:
            CheckpointError: if any is missing or misshapen, or more is stored.
        """
        places = {name: self._layout.place(name) for name in shapes}
        if self._tied and places["lm_head.weight"].name not in self._stored:
            del places["lm_head.weight"]
        problems = self._problems(_stored_shapes(places, shapes))
        if problems:
            more = len(problems) - _SHOWN_PROBLEMS
            raise CheckpointError(
                f"The tensors in {self._folder} don't fit its config.json: "
                + "; ".join(problems[:_SHOWN_PROBLEMS])
                + (f"; and {more} more." if more > 0 else ".")
            )
        order = {name: number for number, name in enumerate(self._stored)}
        self.places = dict(sorted(places.items(), key=lambda item: order[item[1].name]))

    def tensor(self, name: str) -> Tensor:
        """One of the model's tensors, whole."""
        stored = self.stored(name)
        with open_weights(stored.file) as opened:
            return _part(opened.get_slice(stored.name), self.places[name], None)

    def tensors(self, own: Mapping[str, Shard]) -> Iterator[tuple[str, Tensor]]:
        """The model's tensors, in the order of the files; of those in `own`, only that part."""
        for file in dict.fromkeys(tensor.file for tensor in self._stored.values()):
            with open_weights(file) as opened:
                for name, place in self.places.items():
                    stored = self._stored[place.name]
                    if stored.file == file:
                        yield name, _part(opened.get_slice(stored.name), place, own.get(name))

    def _known(self, tensors: Iterable[StoredTensor]) -> dict[str, StoredTensor]:
        found: dict[str, StoredTensor] = {}
        for tensor in tensors:
            if (name := self._layout.known(tensor.name)) is None:
                continue
            if name in found:
                raise CheckpointError(
                    f"{self._folder} holds {printable(name)} twice; copy it from its source."
                )
            found[name] = tensor
        return found

    def _require_layers(self, config: ModelConfig) -> None:
        """Compare the number of layers before as many are built."""
        prefix = self._layout.layers
        inner = [name.removeprefix(prefix) for name in self._stored if name.startswith(prefix)]
        found = len({name.split(".")[0] for name in inner})
        if found != config.num_hidden_layers:
            raise CheckpointError(
                f"The tensors in {self._folder} don't fit its config.json: they are of {found} "
                f"layers, not of num_hidden_layers={config.num_hidden_layers}."
            )

    def _problems(self, expected: Mapping[str, tuple[int, ...]]) -> list[str]:
        stored = self._stored
        problems = [f"{name} is missing" for name in expected if name not in stored]
        problems += [f"{printable(name)} is unknown" for name in stored if name not in expected]
        problems += [
            f"{name} is {list(stored[name].shape)} instead of {list(shape)}"
            for name, shape in expected.items()
            if name in stored and stored[name].shape != shape
        ]
        return problems


def layout_of(folder: Path, config: ModelConfig) -> Layout:
    """The layout of a checkpoint, which its configuration tells.

    Raises:
        CheckpointError: if the configuration doesn't tell enough.
    """
    values = read_json(folder / "config.json")
    if values.get("model_type") in dolomite_config.MODEL_TYPES:
        return DolomiteLayout(values, config)
    return Layout()


def _stored_shapes(
    places: Mapping[str, Place], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Shapes of what should be stored; a fused tensor has the rows of all that it is made of."""
    expected: dict[str, tuple[int, ...]] = {}
    for name, place in places.items():
        rows, *columns = shapes[name]
        if place.rows is not None and place.name in expected:
            rows += expected[place.name][0]
        expected[place.name] = (rows, *columns)
    return expected


def _part(stored: Any, place: Place, shard: Shard | None) -> Tensor:
    """A rank's part of a tensor, which is all of it without a shard."""
    if shard is None or shard.is_whole:
        pieces, columns = place.rows, None
    elif place.rows is None:
        pieces, columns = (shard.rows,), shard.columns
    else:
        pieces, columns = stored_rows(place.rows, shard.rows), shard.columns
    if pieces is None:
        whole: Tensor = stored[:]
        return whole
    # Joined as copies, since a slice would keep the whole tensor in memory.
    return torch.cat([_slice(stored, rows, columns) for rows in pieces])


def _slice(stored: Any, rows: range, columns: range | None) -> Tensor:
    end = rows[-1] + 1 if rows else rows.start
    if columns is None:
        piece: Tensor = stored[rows.start : end]
    else:
        piece = stored[rows.start : end, columns.start : columns.stop]
    return piece[:: rows.step]
