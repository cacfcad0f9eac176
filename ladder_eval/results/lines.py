"""Files of checksummed JSON lines that only grow: what was appended is there again, or is missed.

Each line ends with the CRC-32 of all that stands before it. A line that doesn't agree with its own
is never trusted, wherever it stands; lines after it are, since each has a checksum of its own. What
is appended together counts down in `left`, so that a crash leaves all of it or none.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
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
"""What a line holds: a JSON object with at least one member, none of them `left` or `crc32`."""

_SEAL: Final = b',"crc32":"%08x"}\n'
_SEAL_SIZE: Final = len(_SEAL % 0)


def seal(record: Record, left: int = 0) -> bytes:
    """A record as a line, and how many lines of the same append follow it.

    Raises:
        TypeError: If the record isn't JSON.
    """
    body = json.dumps({**record, "left": left}, separators=(",", ":"))[:-1].encode()
    return body + _SEAL % crc32(body)


def unseal(line: bytes) -> dict[str, Any] | None:
    """What a line holds, with `left`; None if it doesn't agree with its checksum."""
    body = line[:-_SEAL_SIZE]
    if not body or line[-_SEAL_SIZE:] != _SEAL % crc32(body):
        return None
    try:
        record: dict[str, Any] = json.loads(body + b"}")
    except (ValueError, RecursionError):
        return None
    return record if type(record.get("left")) is int else None


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
    """The lines of a file, those of an append that isn't whole at the end left out."""
    lines = content.splitlines(keepends=True)
    found = [(line, record) for line in lines if (record := unseal(line)) is not None]
    foreign = not found and b"\n" in content
    while found and found[-1][1]["left"]:
        found.pop()
    kept = b"".join(line for line, _ in found)
    return Lines(
        records=tuple({k: v for k, v in each.items() if k != "left"} for _, each in found),
        content=kept,
        damaged=len(lines) - len(found),
        lost_bytes=len(content) - len(kept),
        torn=len(lines) == len(found) + 1 and not content.endswith(b"\n"),
        foreign=foreign,
    )


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
        left = range(len(records) - 1, -1, -1)
        lines = b"".join(map(seal, records, left))
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
