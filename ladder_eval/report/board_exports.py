"""The leaderboard for other programs and browsers: CSV, JSON, Markdown, HTML."""

import html
import json
from collections.abc import Sequence
from typing import Final

import pandas as pd

from ladder_eval.errors import UsageError
from ladder_eval.report.block import Block
from ladder_eval.report.board_columns import COLUMNS_VERSION
from ladder_eval.report.board_pages import board_blocks, board_markdown, score_blocks
from ladder_eval.report.leaderboard import Board, to_csv

__all__ = ["FORMATS", "board_html", "export", "to_json"]

FORMATS: Final = ("csv", "json", "md", "html")
"""What `export` writes."""

_STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; background: Canvas; color: CanvasText; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid GrayText; }
td { border-bottom: 1px solid color-mix(in srgb, CanvasText 15%, Canvas); }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid; }
"""

# Headings sort by number where cells begin with one; without scripts the table stays as it is.
_SCRIPT: Final = """\
const number = text => parseFloat(text.replace("−", "-"));
for (const heading of document.querySelectorAll("th")) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  heading.append(button);
  let up = false;
  button.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0], at = heading.cellIndex;
    const text = row => row.cells[at].textContent;
    const order = (a, b) => number(text(a)) - number(text(b)) || text(a).localeCompare(text(b));
    up = !up;
    const rows = [...body.rows].sort((a, b) => up ? order(a, b) : order(b, a));
    body.append(...rows);
  });
}
"""


def export(board: Board, kind: str, *, by_task: bool) -> str:
    """The board as text.

    Args:
        board: The leaderboard.
        kind: One of `FORMATS`.
        by_task: Give the score of each task, rather than a row a model.

    Raises:
        UsageError: If the format is unknown.
    """
    if kind not in FORMATS:
        raise UsageError(f"--format {kind!r} is unknown; known are {', '.join(FORMATS)}.")
    frame = board.scores if by_task else board.models
    if kind in ("csv", "json"):
        return to_csv(frame) if kind == "csv" else to_json(frame)
    blocks = score_blocks(frame) if by_task else board_blocks(frame)
    return board_markdown(blocks) if kind == "md" else board_html(blocks)


def to_json(frame: pd.DataFrame) -> str:
    """Rows as JSON objects, numbers as numbers and what is missing as null."""
    # pandas rounds floats in its own JSON.
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    page = {"columns_version": COLUMNS_VERSION, "rows": records}
    return json.dumps(page, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def board_html(blocks: Sequence[Block]) -> str:
    """Blocks as a page that needs no other file, in the reader's light or dark colours."""
    tables = "\n".join(map(_section, blocks))
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leaderboard</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>Leaderboard</h1>
{tables}
<script>
{_SCRIPT}</script>
</body>
</html>
"""


def _section(block: Block) -> str:
    rows = "\n".join(f"<tr>{_row(row)}</tr>" for row in block.rows)
    headings = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in block.columns)
    notes = "".join(f"\n<p>{html.escape(note)}</p>" for note in block.notes)
    return f"""\
<h2>{html.escape(block.title)}</h2>
<table>
<thead><tr>{headings}</tr></thead>
<tbody>
{rows}
</tbody>
</table>{notes}"""


def _row(cells: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
