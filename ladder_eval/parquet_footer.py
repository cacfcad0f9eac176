"""What a Parquet file's footer says, read without trusting it.

PyArrow ends the process where a column's metadata contradict its schema, instead of raising. The
footer is a Thrift struct in the compact protocol (apache/thrift, thrift-compact-protocol.md), whose
fields apache/parquet-format numbers in parquet.thrift.
"""

import os
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = b"PAR1"
_DEEPEST = 16  # levels; Parquet's own structs have five
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5


def value_count(file: Path) -> int:
    """How many values all columns have, nulls among them, as the footer says.

    Raises:
        OSError: if the file can't be read.
        ValueError: if it has no such footer.
    """
    try:
        groups = _Footer(_footer(file)).struct(_DEEPEST)[_ROW_GROUPS]
        columns = [column for group in groups for column in group[_COLUMNS]]
        return sum(max(0, int(column[_META_DATA][_NUM_VALUES])) for column in columns)
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("its footer is damaged") from error


def _footer(file: Path) -> bytes:
    with file.open("rb") as opened:
        end = max(0, opened.seek(0, os.SEEK_END) - 8)
        opened.seek(end)
        last = opened.read()
        size = int.from_bytes(last[:4], "little")
        if last[4:] != _MAGIC or size > end - len(_MAGIC):
            raise ValueError("it has no footer")
        opened.seek(end - size)
        return opened.read(size)


class _Footer:
    """Bytes of a struct, read one value after the other; IndexError where they end too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Fields by number."""
        found: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            kind = header & 15
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # a Boolean in a list, or a byte
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._varint())
            case 9 | 10 if depth:
                return self._list(depth - 1)
            case 12 if depth:
                return self.struct(depth - 1)
        raise ValueError("its footer is damaged")  # Parquet has no maps

    def _list(self, depth: int) -> list[Any]:
        header = self._byte()
        count = header >> 4 if header >> 4 < 15 else self._varint()
        return [self._value(header & 15, depth) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its footer is damaged")  # no number has so many bytes

    def _integer(self) -> int:
        zigzag = self._varint()
        return zigzag >> 1 if zigzag % 2 == 0 else -(zigzag >> 1) - 1

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > len(self._content):
            raise IndexError("the footer ends early")
