"""Rows from files of every format that is read: none of them can carry code."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Dataset, load_from_disk

from ladder_eval.errors import DataError, brief
from ladder_eval.parquet import read_parquet
from ladder_eval.unpacking import unzipped

_DEEPEST = 12  # levels; rows of benchmarks have a few


def read_rows(places: Sequence[Path]) -> Dataset:
    """Rows of one folder of save_to_disk, or of Parquet or JSON files one after the other.

    Everything is held in memory, so that no cache files appear beside the user's data.

    Raises:
        DataError: if a file can't be read as rows.
    """
    first = places[0]
    with _readable(first if len(places) == 1 else first.parent):
        if first.is_dir():
            return _saved(first)
        if first.suffix == ".parquet":
            return Dataset(pa.concat_tables(read_parquet(place) for place in places))
        rows = [row for place in places for row in read_json(place)]
        _require_shallow(rows)
        return Dataset.from_list(rows)


def read_json(file: Path) -> list[dict[str, Any]]:
    """Objects of a `.json` file with one array, or of JSON lines, which may be gzipped.

    Raises:
        DataError: if it holds anything else.
    """
    with _readable(file):
        return [_object(value) for value in _values(file)]


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Turn whatever a damaged file leads to into a sentence."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # its reader may trust it, and fail as anything
        raise DataError(
            f"{place} can't be read as data ({brief(error)}); fetch it again."
        ) from None


def _require_shallow(rows: object) -> None:
    """Refuse what is nested deeply: `datasets` takes twice as long for every further level."""
    level: list[Any] = [rows]
    for _ in range(_DEEPEST):
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
    if level:
        raise ValueError("it is nested too deeply")


def _saved(folder: Path) -> Dataset:
    """The rows of one folder of save_to_disk, which may be one of several splits instead."""
    saved = load_from_disk(str(folder), keep_in_memory=True)
    if not isinstance(saved, Dataset):
        raise ValueError("it holds several splits; give the folder of one")
    saved.data.table.validate(full=True)  # its text may be no UTF-8, its offsets anything
    return saved


def _values(file: Path) -> Iterator[object]:
    if file.suffix == ".json":
        yield from json.loads(file.read_text(encoding="utf-8"))
        return
    content = unzipped(file) if file.suffix == ".gz" else file.read_bytes()
    for line in content.splitlines():
        if line.strip():
            yield json.loads(line)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a row is no JSON object")
    return value
