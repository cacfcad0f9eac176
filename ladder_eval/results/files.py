"""Writing a file so that a crash leaves the old content or the new, never half of either."""

import os
import tempfile
from pathlib import Path

from ladder_eval.errors import RecordError

__all__ = ["atomic_write", "make_folder", "remove_unfinished", "sync_folder"]

_UNFINISHED = ".unfinished"


def atomic_write(path: Path, content: str | bytes) -> None:
    """Replace a file's content in one step, and wait until it's on disk. Text becomes UTF-8.

    Raises:
        RecordError: If the file can't be written.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        temporary = _write_beside(path, data)
        try:
            os.replace(temporary, path)
        except OSError:
            temporary.unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise RecordError(
            f"can't write {path} ({error.strerror or error}); "
            "free some space there, or choose another folder."
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if need be, and wait until their names are on disk.

    Raises:
        OSError: If one of them can't be made.
    """
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        sync_folder(each.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what `atomic_write` left at or below a folder when it was killed.

    Raises:
        OSError: If it can't be removed.
    """
    for file in folder.rglob(f".*{_UNFINISHED}"):
        file.unlink()


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's new files are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_beside(path: Path, data: bytes) -> Path:
    """Write a temporary file in the same folder, because a rename can't cross file systems."""
    descriptor, name = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=_UNFINISHED, dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp's 0600 would hide results from colleagues
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
