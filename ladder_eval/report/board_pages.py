"""The leaderboard as a page: a block for each group of rows that may be ranked together."""

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

import ladder_eval
from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.tables import block_markdown
from ladder_eval.report.words import bounds, figure, percent, points
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.speed_records import MEASURED, RANDOM

__all__ = ["board_blocks", "board_markdown", "score_blocks"]

_Row = dict[Any, Any]

_RANKS: Final = (
    "Ranks are by the mean alone; ± is its standard error, so that neighbours may be as good."
)

_COLUMNS: Final = (
    *("#", "model", "residual", "dtype", "mean %"),
    *("difference, points", "against", "decode speedup"),
)

# What can tell groups of one suite apart, by its column and in words.
_APART: Final = {
    "tasks": "tasks",
    "task_versions": "versions",
    "prompting": "questions",
    "documents": "documents",
    "documents_sha256": "documents' hash",
    "prompts_sha256": "prompts' hash",
}

_AS_TRAINED: Final = "as trained"


def board_blocks(models: pd.DataFrame) -> list[Block]:
    """A block a group, its rows ranked, under a title that says what they are of.

    Args:
        models: Rows of `leaderboard`, in its order.
    """
    found = []
    for suite, rows in models.groupby("suite", sort=False):
        apart = [name for name in _APART if rows[name].nunique(dropna=False) > 1]
        groups = [group for _, group in rows.groupby("group", sort=False)]
        for group in groups:
            table = group.to_dict("records")
            found.append(
                Block(
                    title=_title(str(suite), table[0]),
                    columns=_COLUMNS,
                    rows=tuple(_cells(rank, row) for rank, row in _numbered(table)),
                    notes=tuple(_notes(table, apart if len(groups) > 1 else [])),
                    folds=True,
                )
            )
    return found


def score_blocks(scores: pd.DataFrame) -> list[Block]:
    """A block a group with the headline score of each model on each task."""
    found = []
    for (suite, group), rows in scores.groupby(["suite", "group"], sort=False):
        columns = ("model", "task", "version", "metric", "score", "n")
        cells = tuple(_score_cells(row) for row in rows.to_dict("records"))
        found.append(
            Block(title=f"{suite} by task (group {group})", columns=columns, rows=cells, folds=True)
        )
    return found


def board_markdown(blocks: list[Block]) -> str:
    """Blocks as a Markdown page."""
    return "\n\n".join(["# Leaderboard", *map(block_markdown, blocks)]) + "\n"


def _title(suite: str, row: _Row) -> str:
    tasks, documents = len(row["tasks"].split()), row["documents"]
    parts = [f"{suite}: {tasks} task{'s' if tasks > 1 else ''}, {documents} documents"]
    if documents != row["documents_whole"]:
        parts.append(f"subset: {documents} of {row['documents_whole']}")
    if not _is_missing(row["limit"]):
        parts.append(f"limit {row['limit']}, seed {row['seed']}")
    return f"{', '.join(parts)} (group {row['group']})"


def _numbered(rows: list[_Row]) -> Iterator[tuple[str, _Row]]:
    for number, row in enumerate(rows, start=1):
        yield NOTHING if _is_missing(row["mean_headline"]) else str(number), row


def _cells(rank: str, row: _Row) -> tuple[str, ...]:
    return (
        rank,
        _marked(row),
        row["residual"],
        row["dtype"],
        _mean(row),
        _difference(row),
        NOTHING if _is_missing(row["baseline"]) else row["baseline"],
        _speedup(row),
    )


def _marked(row: _Row) -> str:
    stale, imported = " †" if _is_stale(row) else "", "" if _is_missing(row["origin"]) else " ‡"
    return f"{row['model']}{stale}{imported}"


def _mean(row: _Row) -> str:
    if _is_missing(row["mean_headline"]):
        return NOTHING
    stderr = row["mean_headline_stderr"]
    return percent(row["mean_headline"]) + ("" if _is_missing(stderr) else f" ± {percent(stderr)}")


def _difference(row: _Row) -> str:
    names = ("pooled_difference_points", "pooled_low_points", "pooled_high_points")
    difference, low, high = (row[name] for name in names)
    if _is_missing(difference):
        return NOTHING
    return f"{points(difference / 100)} {bounds(low / 100, high / 100)}"


def _speedup(row: _Row) -> str:
    """A speed-up with what it must not be quoted without."""
    if _is_missing(row["decode_speedup"]):
        return NOTHING
    labels = [] if row["speed_kind"] == MEASURED else [row["speed_kind"]]
    labels += ["random weights"] if row["speed_weights"] == RANDOM else []
    if row["speed_layers"] < row["num_hidden_layers"]:
        labels.append(f"{row['speed_layers']} of {row['num_hidden_layers']} layers timed")
    return ", ".join([f"{row['decode_speedup']:.2f} over {row['speed_link']}", *labels])


def _notes(rows: list[_Row], apart: list[str]) -> Iterator[str]:
    if apart:
        values = (f"{_APART[name]} {_short(name, rows[0][name])}" for name in apart)
        yield f"Ranked apart from other rows of this suite, by {'; '.join(values)}."
    if _is_missing(rows[0]["prompts_sha256"]):
        yield "Only aggregated results were imported: what the model was asked isn't known."
    if len(rows) > 1:
        yield _RANKS
    for text, names in _adaptations(rows).items():
        yield f"{' and '.join(names)}: {text}."
    for row in rows:
        if not _is_missing(row["origin"]):
            yield f"‡ {row['model']}: imported from {row['origin']}."
    if old := {str(row["ladder_eval_version"]) for row in rows if _is_stale(row)}:
        versions = " and ".join(sorted(old))
        yield f"† Made by ladder-eval {versions}; this is {ladder_eval.__version__}."


def _adaptations(rows: list[_Row]) -> dict[str, list[str]]:
    """Names of the models that aren't as trained, by how their weights came to fit."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["adaptation"] != _AS_TRAINED and _is_missing(row["origin"]):
            found.setdefault(row["adaptation"], []).append(row["model"])
    return found


def _short(name: str, value: Any) -> str:
    if _is_missing(value):
        return "unknown"
    return str(value)[:12] if name.endswith("sha256") else str(value)


def _is_missing(value: object) -> bool:
    return bool(pd.isna(value))  # type: ignore[call-overload]


def _is_stale(row: _Row) -> bool:
    """Whether another version of this package made the row."""
    return bool(row["ladder_eval_version"] != ladder_eval.__version__)


def _score_cells(row: _Row) -> tuple[str, ...]:
    shown = percent if is_fraction(row["metric"]) else figure
    stderr = "" if _is_missing(row["stderr"]) else f" ± {shown(row['stderr'])}"
    part = "" if _is_missing(row["part"]) else f" ({row['part']})"
    return (
        *(row["model"], row["task"], row["task_version"], f"{row['metric']}{part}"),
        *(f"{shown(row['value'])}{stderr}", str(row["n"])),
    )
