"""Files of checksummed JSON lines that only grow: what was appended is there again, or is missed.

Each line ends with the CRC-32 of all that stands before it. A line that doesn't agree with its own
is never trusted, wherever it stands. What is appended together is trusted together or not at all:
each line says which `part` of how many it is. So what was computed together is computed together
once more, to the same last digit. Other lines have checksums of their own and are trusted.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeAlias
from zlib import crc32

from ladder_eval.errors import RecordError
from ladder_eval.results.files import atomic_write, make_folder, sync_folder

__all__ = ["LineFile", "Lines", "Record", "parse", "read_lines", "seal", "unseal"]

_log = logging.getLogger(__name__)

Record: TypeAlias = Mapping[str, Any]
"""What a line holds: a JSON object with at least one member, none of them `part` or `crc32`."""

_SEAL: Final = b',"crc32":"%08x"}\n'
_SEAL_SIZE: Final = len(_SEAL % 0)


def seal(record: Record, number: int = 1, of: int = 1) -> bytes:
    """A record as a line, and which of the lines of one append it is, counted from 1.

    Raises:
        TypeError: If the record isn't JSON.
    """
    body = json.dumps({**record, "part": [number, of]}, separators=(",", ":"))[:-1].encode()
    return body + _SEAL % crc32(body)


def unseal(line: bytes) -> dict[str, Any] | None:
    """What a line holds, with its `part`; None if it doesn't agree with its checksum."""
    body = line[:-_SEAL_SIZE]
    if not body or line[-_SEAL_SIZE:] != _SEAL % crc32(body):
        return None
    try:
        record: dict[str, Any] = json.loads(body + b"}")
    except (ValueError, RecursionError):
        return None
    match record.get("part"):
        case [int(), int()]:
            return record
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """What a file of lines holds.

    Attributes:
        records: The records that can be trusted, in order.
        content: Their lines, as they are.
        damaged: How many other lines there are; a torn one at the end is one of them.
        lost_bytes: Their size.
        torn: Whether that is one line that lacks its end, as a crash leaves it.
        foreign: Whether there are whole lines, and none of them has its checksum.
    """

    records: tuple[dict[str, Any], ...]
    content: bytes
    damaged: int
    lost_bytes: int
    torn: bool
    foreign: bool

    def __str__(self) -> str:
        lines = "line" if self.damaged == 1 else "lines"
        return f"{self.damaged} torn or damaged {lines} of {self.lost_bytes} bytes"


def parse(content: bytes) -> Lines:
    """The lines of a file, those of an append that isn't whole left out."""
    lines = content.splitlines(keepends=True)
    found = [(line, unseal(line)) for line in lines]
    whole = list(_whole(found))
    kept = b"".join(line for line, _ in whole)
    return Lines(
        records=tuple(record for _, record in whole),
        content=kept,
        damaged=len(lines) - len(whole),
        lost_bytes=len(content) - len(kept),
        torn=len(lines) == len(whole) + 1 and not content.endswith(b"\n"),
        foreign=b"\n" in content and not any(record for _, record in found),
    )


def _whole(
    lines: Sequence[tuple[bytes, dict[str, Any] | None]],
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Lines with their records, of which all parts follow one another."""
    parts: list[tuple[bytes, dict[str, Any]]] = []
    size = 0
    for line, record in lines:
        number, of = record.pop("part") if record else (0, 0)
        if number != len(parts) + 1 or (parts and of != size):
            parts = []  # what was begun before has no end
        if record and number == len(parts) + 1:
            parts.append((line, record))
            size = of
        if parts and len(parts) == size:
            yield from parts
            parts = []


def read_lines(path: Path) -> Lines:
    """The lines of a file that is left as it is; what can't be trusted is left out and told.

    Raises:
        OSError: If it can't be read.
    """
    found = parse(path.read_bytes())
    if found.damaged:
        _log.warning("%s has %s, left out here.", path, found)
    return found


class LineFile:
    """A file of lines, open for more; one process at a time may have it.

    On opening, what can't be trusted is taken out of the file, and that is told. A file in which
    nothing can be trusted isn't emptied: it may be of another version, and its work worth keeping.

    Attributes:
        path: The file.
        found: What it held.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it and its folders.

        Raises:
            OSError: If it can't be read or written.
            RecordError: If no line can be trusted, or those that can't aren't to be taken out.
        """
        self.path = path
        make_folder(path.parent)
        content = path.read_bytes() if path.exists() else b""
        self.found = parse(content)
        if self.found.foreign:
            raise RecordError(
                f"{path} has no line with a checksum, so that it is of another version or damaged; "
                "move it away to begin anew."
            )
        if not content.startswith(self.found.content):
            atomic_write(path, self.found.content)
        self._file = FileIO(path, "a")
        sync_folder(path.parent)
        self._size = len(self.found.content)
        self._file.truncate(self._size)
        if self.found.damaged:
            _log.warning("%s: %s cut out.", path, self.found)

    def append(self, records: Sequence[Record]) -> None:
        """Add records, all or none of them, and return when they are on disk.

        Raises:
            OSError: If they can't be written; the file then holds what it held before.
            TypeError: If one of them isn't JSON.
        """
        lines = b"".join(seal(each, i, len(records)) for i, each in enumerate(records, 1))
        try:
            if self._file.write(lines) != len(lines):
                raise OSError("the disk took only a part of it")
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # what stays has no end, and is cut off on opening
                self._file.truncate(self._size)
            raise
        self._size += len(lines)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
