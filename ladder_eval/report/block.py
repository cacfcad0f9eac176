"""A table as text, which the terminal and Markdown print alike."""

from dataclasses import dataclass, replace
from typing import Final

__all__ = ["NOTHING", "Block", "transposed"]

NOTHING: Final = "—"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A table as plain text cells, and what it says.

    Attributes:
        title: What the table shows.
        columns: Headings; the first column is text, the others are numbers.
        rows: Cells, as many a row as there are headings.
        notes: Sentences below the table.
        total: Whether the last row sums up the others.
        folds: Whether any cell may take several lines where the terminal is narrow.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    total: bool = False
    folds: bool = False


def transposed(block: Block) -> Block:
    """The block with its columns as rows, for where there's more height than width."""
    first, *rows = zip(block.columns, *block.rows, strict=True)
    return replace(block, columns=first, rows=tuple(rows), folds=True)
