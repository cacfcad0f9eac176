"""What lies in a checkpoint folder: JSON and safetensors, read as if they were hostile.

Neither can carry code. Nothing that a file claims is believed before it is held against the file,
so that a damaged one is refused by a sentence, at once and without large allocations.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config_values import printable, shown

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth")
_DTYPES = ("F64", "F32", "F16", "BF16")
# Those of the largest published models are less than a fifth of these.
_LARGEST_JSON = 64 * 2**20
_LARGEST_HEADER = 16 * 2**20


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a safetensors file.

    Attributes:
        file: The file.
        name: The tensor's name in it.
        dtype: As safetensors writes it, such as BF16.
        shape: Its whole shape.
        offset: Where its bytes begin, counted from the end of the header.
    """

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


def is_file(path: Path) -> bool:
    """Whether there is a regular file, or a link to one; False for names that can't exist."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: if there is none.
    """
    try:
        if file.stat().st_size > _LARGEST_JSON:
            raise CheckpointError(f"{file} is larger than any configuration; fetch it again.")
        values = json.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise CheckpointError(f"{file} is not readable JSON: it is nested too deeply.") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is not readable JSON: {error}.") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{file} holds no JSON object.")
    return values


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint: one, or those that its index lists.

    Where there are both, it is the one, as for transformers.

    Raises:
        CheckpointError: if there are none, or the index lists what isn't there.
    """
    index = _index(folder)
    names = [_SINGLE] if index is None else sorted(set(_weight_map(index).values()))
    missing = [name for name in names if not is_file(folder / name)]
    if missing and (pickles := _pickles(folder)):
        raise CheckpointError(
            f"{folder} has no {missing[0]}, only {pickles[0].name}: pickled weights can carry code "
            "and aren't read; convert them to safetensors."
        )
    if missing:
        raise CheckpointError(f"{folder} has no {_listed(missing)}; copy the whole checkpoint.")
    return tuple(folder / name for name in names)


def stored_tensors(folder: Path) -> list[StoredTensor]:
    """All tensors of a checkpoint, in the order in which they lie in its files.

    Raises:
        CheckpointError: if a file is damaged, or the index contradicts the files.
    """
    tensors = [tensor for file in weight_files(folder) for tensor in _in_file(file)]
    tensors.sort(key=lambda tensor: (tensor.file, tensor.offset))
    if (index := _index(folder)) is not None:
        _require_indexed(index, tensors)
    return tensors


def _index(folder: Path) -> Path | None:
    """The index that counts, if any."""
    index = folder / _INDEX
    return index if is_file(index) and not is_file(folder / _SINGLE) else None


@contextmanager
def open_weights(file: Path) -> Iterator[Any]:
    """A safetensors file, whose header was held against the file.

    Raises:
        CheckpointError: if it can't be read.
    """
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise _unreadable(file, error) from None


def _in_file(file: Path) -> Iterator[StoredTensor]:
    for name, entry in _header(file).items():
        if entry["dtype"] not in _DTYPES:
            raise CheckpointError(
                f"{file} stores {printable(name)} as {entry['dtype']}; supported are "
                f"{', '.join(_DTYPES)}."
            )
        shape, offset = tuple(entry["shape"]), entry["data_offsets"][0]
        yield StoredTensor(file, name, entry["dtype"], shape, offset)


def _header(file: Path) -> dict[str, Any]:
    """The entries of a file's header, after safetensors has held them against the file's size."""
    try:
        with file.open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            if length > _LARGEST_HEADER:
                raise ValueError("its header is longer than any")
            with open_weights(file):
                text = content.read(length)
        entries = json.loads(text, object_pairs_hook=_without_repetition)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    entries.pop("__metadata__", None)
    return dict(entries)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, entry in pairs:
        if name in entries:
            raise ValueError(f"its header names {printable(name)} twice")
        entries[name] = entry
    return entries


def _unreadable(file: Path, error: Exception) -> CheckpointError:
    reason = error.strerror or error if isinstance(error, OSError) else error
    return CheckpointError(f"{file} is not a readable safetensors file: {printable(str(reason))}.")


def _weight_map(index: Path) -> dict[str, str]:
    """Name of each tensor → name of its file, as an index says."""
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise CheckpointError(f"{index} has no weight_map of tensor names to file names.")
    for name in names.values():
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{index} names a file outside its folder, or one that is no safetensors file: "
                f"{shown(name)}."
            )
    return names


def _require_indexed(index: Path, tensors: Iterable[StoredTensor]) -> None:
    found = {tensor.name: tensor.file.name for tensor in tensors}
    for name, file in _weight_map(index).items():
        if found.get(name) != file:
            place = f"it lies in {found[name]}" if name in found else "no file holds it"
            raise CheckpointError(
                f"{index} says that {printable(name)} lies in {file}, but {place}; copy the whole "
                "checkpoint from its source."
            )


def _pickles(folder: Path) -> list[Path]:
    return sorted(file for kind in _PICKLES for file in folder.glob(kind))


def _listed(names: list[str]) -> str:
    listed = ", ".join(printable(name) for name in names[:10])
    return listed + (f" and {len(names) - 10} more" if len(names) > 10 else "")
