"""Safetensors files written tensor by tensor; the library's own writer wants all at once.

A file is the length of its header (8 bytes, little-endian), the header as JSON, padded with spaces
to a multiple of 8, and the tensors' bytes one after another. Source: the format's description at
https://github.com/huggingface/safetensors#format. Needs no torch.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ladder_eval.errors import CheckpointError

# The dtype as safetensors calls it, and the shape.
Kind = tuple[str, tuple[int, ...]]
Layout = Mapping[str, Kind]

SHARD_BYTES = 5 * 10**9

_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def bytes_of(layout: Layout) -> int:
    """What the tensors of a layout take, in bytes."""
    return sum(map(_size, layout.values()))


def write_safetensors(
    folder: Path,
    layout: Layout,
    tensors: Iterable[tuple[str, Any]],
    *,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write tensors as `model.safetensors`, or as shards and their index if one file is too small.

    Args:
        folder: Where the files go.
        layout: All tensors, in order.
        tensors: The same names in the same order, each with its bytes (a buffer, C-contiguous);
            none is kept.
        shard_bytes: Bytes of tensors in a file at most, unless a single tensor has more.

    Raises:
        CheckpointError: if the tensors aren't those of the layout.
        OSError: if a file can't be written.
    """
    shards = list(_shards(layout, shard_bytes))
    names = _file_names(len(shards))
    rest = iter(tensors)
    for name, shard in zip(names, shards, strict=True):
        with (folder / name).open("wb") as file:
            file.write(_header(shard))
            _write_tensors(file, shard, rest)
    if next(rest, None) is not None:
        raise CheckpointError(f"There are more tensors than the {len(layout)} of the layout.")
    if len(shards) > 1:
        files = {tensor: n for n, shard in zip(names, shards, strict=True) for tensor in shard}
        index = {"metadata": {"total_size": bytes_of(layout)}, "weight_map": files}
        text = json.dumps(index, indent=2)
        (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _shards(layout: Layout, shard_bytes: int) -> Iterator[dict[str, Kind]]:
    """The layout cut into files, in order."""
    shard: dict[str, Kind] = {}
    taken = 0
    for name, kind in layout.items():
        if shard and taken + _size(kind) > shard_bytes:
            yield shard
            shard, taken = {}, 0
        shard[name] = kind
        taken += _size(kind)
    yield shard


def _file_names(count: int) -> list[str]:
    if count == 1:
        return ["model.safetensors"]
    return [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def _header(shard: Layout) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in shard.items():
        start, end = end, end + _size((dtype, shape))
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write_tensors(file: BinaryIO, shard: Layout, rest: Iterator[tuple[str, Any]]) -> None:
    for expected, kind in shard.items():
        name, values = next(rest, (None, b""))
        view = memoryview(values)
        if name != expected or view.nbytes != _size(kind):
            raise CheckpointError(
                f"{expected} should be {_size(kind)} bytes, but {name} of {view.nbytes} came; "
                "copy the checkpoint from its source again."
            )
        file.write(view)
        del values, view  # before the next one is made


def _size(kind: Kind) -> int:
    dtype, shape = kind
    return _ITEM_BYTES[dtype] * math.prod(shape)
