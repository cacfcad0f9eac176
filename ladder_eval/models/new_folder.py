"""Folders that appear complete or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside this one, which it becomes when the block ends without an error.

    Args:
        folder: The folder to make: absent, or empty.

    Raises:
        OSError: if it can't be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    unfinished.chmod(0o755)  # others may read it; mkdtemp makes private folders
    try:
        yield unfinished
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
