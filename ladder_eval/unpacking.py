"""Archives from the network, unpacked as if they were hostile, whatever their hash says.

A member that lies outside the folder, is a link or device, or would unpack to more than there is
room for is refused before anything is written. The rules are those of ZIP's application note
(https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT) and of Python's zipfile.
"""

import gzip
import shutil
import stat
import zlib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ladder_eval.errors import FetchError, brief

_MAX_UNPACKED_BYTES = 2 * 2**30
_ALWAYS_FITS = 64 * 2**20  # bytes
_MOST_TIMES = 100  # that packed data grow: text grows tenfold, a bomb a thousandfold
_JSON_VALUE_BYTES = 64  # of an empty object, which is three bytes of JSON
_LONGEST_NAME = 255  # bytes of a part of a path, as on all usual file systems
_ENCRYPTED = 0x1


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of some glob patterns, in which ``*`` also matches ``/``."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def most_unpacked(size: int) -> int:
    """Bytes that data may unpack to which are `size` bytes when packed; a bomb is larger."""
    return _ALWAYS_FITS + _MOST_TIMES * size


def unzipped(file: Path) -> bytes:
    """The content of a gzip file of JSON.

    Raises:
        OSError: if it can't be read; EOFError or zlib.error: if it is damaged.
        ValueError: if it, or its values once they are read, take more than `most_unpacked`.
    """
    most = most_unpacked(file.stat().st_size)
    with gzip.open(file) as opened:
        content = opened.read(most + 1)
    values = sum(map(content.count, (b",", b"[", b"{")))  # those within texts as well
    if max(len(content), _JSON_VALUE_BYTES * values) > most:
        raise ValueError(f"it unpacks to more than {most / 1e6:.0f} MB")
    return content


def unpack(archive: Path, folder: Path, patterns: Sequence[str], title: str) -> list[str]:
    """Unpack the members of a ZIP archive that fit one of some patterns.

    Args:
        archive: The archive.
        folder: Where they go; it is made.
        patterns: As of `matches`; each has to fit a member.
        title: What messages call the archive.

    Returns:
        Their names.

    Raises:
        FetchError: if the archive is damaged, unsafe or too large, or a pattern fits nothing.
        OSError: if a file can't be written.
    """
    try:
        with ZipFile(archive) as opened:
            members = _wanted(opened.infolist(), patterns, title)
            for member in members:
                _unpack_member(opened, member, folder / member.filename)
    # zipfile has no class of its own for a header that contradicts itself.
    except (BadZipFile, EOFError, zlib.error, ValueError, NotImplementedError) as error:
        raise FetchError(f"{title} is no sound wheel ({brief(error)}); don't use it.") from error
    return [member.filename for member in members]


def _wanted(members: Sequence[ZipInfo], patterns: Sequence[str], title: str) -> list[ZipInfo]:
    """Chooses the members to unpack, refusing an archive that no honest tool would write."""
    for member in members:
        if not _is_harmless(member):
            raise FetchError(f"{title} holds the unsafe member {member.filename!r}; don't use it.")
    wanted = [m for m in members if not m.is_dir() and matches(m.filename, patterns)]
    if _collide(wanted):
        raise FetchError(f"{title} holds several members in one place; don't use it.")
    if sum(member.file_size for member in wanted) > _MAX_UNPACKED_BYTES:
        raise FetchError(f"{title} would unpack to more than 2 GiB; don't use it.")
    for pattern in patterns:
        if not any(matches(member.filename, [pattern]) for member in wanted):
            raise FetchError(f"{title} holds no file that matches {pattern}; correct the pattern.")
    return wanted


def _is_harmless(member: ZipInfo) -> bool:
    path = PurePosixPath(member.filename)
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archiver recorded no file type
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and not set(member.filename) & set("\\:")  # a folder or a drive to Windows
        and all(len(part.encode(errors="replace")) <= _LONGEST_NAME for part in path.parts)
        and kind in (0, stat.S_IFREG, stat.S_IFDIR)
        # Others unpack without a bound on memory, or need what no wheel needs.
        and member.compress_type in (ZIP_STORED, ZIP_DEFLATED)
        and not member.flag_bits & _ENCRYPTED
        and member.header_offset >= 0
    )


def _collide(members: Sequence[ZipInfo]) -> bool:
    """Whether two members have one place, or one's place is a folder of another's."""
    places = [PurePosixPath(member.filename) for member in members]
    folders = {parent for place in places for parent in place.parents}
    return len(set(places)) < len(places) or bool(folders & set(places))


def _unpack_member(archive: ZipFile, member: ZipInfo, target: Path) -> None:
    """Copies one member; zipfile checks its CRC and hands out no more bytes than declared."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 2**20)
    if target.stat().st_size != member.file_size:
        raise BadZipFile(f"{member.filename} has not its declared size")
