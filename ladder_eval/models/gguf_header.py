"""A walk over a GGUF header that holds every length against the file's size.

The gguf package's reader loops as often as a length says, so that a damaged one can make it run
for hours. Source of the layout: the GGUF specification, version 3, which is that of 2 as well.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Bytes of a value of each type; strings (8) and arrays (9) carry their own length.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9

# The smallest entry of either table: an empty name, a type, and a value of a byte.
_LEAST_ENTRY = 13
_MOST_DIMENSIONS = 4


def check_header(file: Path) -> None:
    """Walk over all fields and tensor descriptions.

    Raises:
        ValueError: if the file is no little-endian GGUF file of version 2 or 3, or a length
            in its header reaches beyond its end.
    """
    with file.open("rb") as stream:
        header = _Header(stream, file.stat().st_size)
        if header.take(4) != b"GGUF":
            raise ValueError("it doesn't begin with GGUF")
        if header.number("<I") not in (2, 3):
            raise ValueError("its version isn't 2 or 3")
        tensors, fields = header.number("<Q"), header.number("<Q")
        header.require(_LEAST_ENTRY * (tensors + fields))
        for _ in range(fields):
            header.skip_string()
            header.skip_value(header.number("<I"))
        for _ in range(tensors):
            header.skip_tensor()


@dataclass(slots=True)
class _Header:
    stream: BinaryIO
    size: int

    def require(self, count: int) -> None:
        if count > self.size - self.stream.tell():
            raise ValueError("a length in its header reaches beyond its end")

    def take(self, count: int) -> bytes:
        self.require(count)
        return self.stream.read(count)

    def skip(self, count: int) -> None:
        self.require(count)
        self.stream.seek(count, 1)

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def skip_string(self) -> None:
        self.skip(self.number("<Q"))

    def skip_value(self, kind: int) -> None:
        if kind == _STRING:
            self.skip_string()
        elif kind == _ARRAY:
            self._skip_array(self.number("<I"), self.number("<Q"))
        elif kind in _SIZES:
            self.skip(_SIZES[kind])
        else:
            raise ValueError(f"a field has the unknown type {kind}")

    def skip_tensor(self) -> None:
        self.skip_string()
        dimensions = self.number("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"a tensor has {dimensions} dimensions")
        self.skip(8 * dimensions + 4 + 8)  # extents, type, offset

    def _skip_array(self, kind: int, length: int) -> None:
        if kind in _SIZES:
            self.skip(_SIZES[kind] * length)
        elif kind == _STRING:
            self.require(8 * length)
            for _ in range(length):
                self.skip_string()
        else:
            raise ValueError(f"a field is an array of the type {kind}")
