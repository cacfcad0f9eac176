"""Reading files of rows: JSON, JSON lines or parquet."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ladder_eval.errors import DataError, brief
from ladder_eval.models.config_values import shown
from ladder_eval.parquet import read_parquet

__all__ = ["Row", "few", "read_rows", "text_of"]

Row = dict[str, Any]


def read_rows(path: Path, needed: Sequence[str]) -> list[Row]:
    """The rows of a file, whose ending says how it is written.

    Raises:
        DataError: If it can't be read, holds no rows, or a row lacks one of the `needed` columns.
    """
    try:
        rows = _read(path)
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise DataError(
            f"{path} can't be read ({brief(error)}); give a .json, .jsonl or .parquet file of rows."
        ) from error
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path} holds no rows; give a list of objects, one an instruction.")
    for place, row in enumerate(rows):
        missing = [name for name in needed if not isinstance(row, dict) or name not in row]
        if missing:
            raise DataError(f"row {place} of {path} has no {missing[0]!r}; give every row one.")
    return rows


def text_of(row: Row, name: str, path: Path) -> str:
    """A cell that must be text.

    Raises:
        DataError: If it isn't.
    """
    value = row[name]
    if not isinstance(value, str):
        raise DataError(
            f"{path} has {shown(value)} where {name!r} should be text; "
            "write an empty one for no output."
        )
    return value


def few(names: Iterable[str], most: int = 3) -> str:
    """The first few of some texts, each cut short, fit for one sentence."""
    listed = list(names)
    shown = [repr(name if len(name) <= 60 else f"{name[:57]}...") for name in listed[:most]]
    more = len(listed) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _read(path: Path) -> Any:
    if path.suffix == ".parquet":
        return read_parquet(path).to_pylist()
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in content.split("\n") if line.strip()]
    return json.loads(content)
