"""All runs' models, ranked among those that were asked the same; as data frames and as CSV."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ladder_eval.errors import UsageError
from ladder_eval.report.board_columns import LEADERBOARD_COLUMNS, SCORE_COLUMNS, kinds
from ladder_eval.report.board_rows import model_rows, score_rows
from ladder_eval.results.cells import as_data
from ladder_eval.results.index import Table, read_runs
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import EMULATED, MEASURED

__all__ = [
    "SAME_EVALUATION",
    "Board",
    "Wanted",
    "leaderboard",
    "read_board",
    "to_csv",
]

SAME_EVALUATION: Final = ["fingerprint", "group", "dtype", "device"]
"""Columns that tell evaluations apart; of equal ones, the leaderboard keeps the newest."""

_TABLES: Final = (
    Table(name="models", columns=LEADERBOARD_COLUMNS, rows=model_rows),
    Table(name="scores", columns=kinds(SCORE_COLUMNS), rows=score_rows),
)

SPEED_KINDS: Final = (MEASURED, EMULATED, "predicted")
"""What a time can be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which rows are wanted; None leaves a column alone. Texts may be patterns such as `*_1b`.

    Attributes:
        suite: Suite.
        model: Name of the model.
        residual: Residual.
        dtype: Number format of the scoring.
        kind: One of `SPEED_KINDS`: only models with such times.
        since: Runs that started at this ISO 8601 time or later; without an offset, of UTC.
    """

    suite: str | None = None
    model: str | None = None
    residual: str | None = None
    dtype: str | None = None
    kind: str | None = None
    since: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """A leaderboard.

    Attributes:
        models: One row a model, suite and conditions: `LEADERBOARD_COLUMNS`, ranked by group.
        scores: One row a model and task: `SCORE_COLUMNS`.
        repeated: Older evaluations of the same that were left out.
        skipped: Why runs that can't be read can't, a sentence each.
    """

    models: pd.DataFrame
    scores: pd.DataFrame
    repeated: int
    skipped: tuple[str, ...]


def leaderboard(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row a model, suite and conditions: by suite and group, then by falling mean.

    A repeated evaluation, with equal `SAME_EVALUATION`, counts once: the newest.
    """
    rows = [row for result in results for row in model_rows(result)]
    frame = pd.DataFrame(rows, columns=list(LEADERBOARD_COLUMNS)).astype(LEADERBOARD_COLUMNS)
    return _ranked(frame)


def read_board(folder: Path, wanted: Wanted) -> Board:
    """The leaderboard of all runs at or below a folder.

    Raises:
        RecordError: If `folder` isn't a folder.
        UsageError: If it holds no scored run that can be read, or none that is wanted.
    """
    _check_kind(wanted.kind)
    indexed = read_runs(folder, _TABLES)
    if not indexed.runs:
        raise UsageError(f"{folder} holds no finished run; `ladder-eval run` makes one.")
    models = indexed.tables["models"]
    if models.empty and indexed.skipped:
        raise UsageError(indexed.skipped[0])
    if models.empty:
        raise UsageError(f"{folder} holds no scored run; `ladder-eval report` prints a timing.")
    ranked = _ranked(models)
    repeated = len(models) - len(ranked)
    ranked = ranked[_fits(ranked, wanted)].reset_index(drop=True)
    if ranked.empty:
        raise UsageError(f"No model in {folder} is as wanted; leave some of the filters out.")
    scores = _of(indexed.tables["scores"], ranked)
    return Board(models=ranked, scores=scores, repeated=repeated, skipped=indexed.skipped)


def to_csv(frame: pd.DataFrame) -> str:
    """The leaderboard as CSV that spreadsheets and pandas open as data (`results.cells`).

    Numbers stay as they are, floats to their last bit.
    """
    safe = frame.astype(object).map(as_data, na_action="ignore")
    return str(safe.to_csv(index=False, lineterminator="\n"))


def _ranked(frame: pd.DataFrame) -> pd.DataFrame:
    started = frame["started_at"].map(datetime.fromisoformat)
    newest_first = frame.loc[started.sort_values(ascending=False, kind="stable").index]
    kept = newest_first.drop_duplicates(SAME_EVALUATION, keep="first")
    order = kept.sort_values(
        ["suite", "documents", "group", "mean_headline", "model"],
        ascending=[True, False, True, False, True],
        kind="stable",
    )
    return order.reset_index(drop=True)


def _of(scores: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """The scores of the models that are on the board, in its order."""
    keys = [*SAME_EVALUATION, "run_id", "model"]
    once = scores.drop_duplicates([*keys, "task"])
    return models[keys].merge(once, on=keys)[list(scores.columns)].reset_index(drop=True)


def _fits(frame: pd.DataFrame, wanted: Wanted) -> npt.NDArray[np.bool_]:
    """Of each row, whether it is wanted."""
    fits = np.ones(len(frame), dtype=np.bool_)
    for name in ("suite", "model", "residual", "dtype"):
        pattern = getattr(wanted, name)
        if pattern is not None:
            fits &= np.array([fnmatch.fnmatchcase(text, pattern) for text in frame[name]])
    if wanted.kind is not None:
        fits &= np.array(
            [kind is not pd.NA and kind == wanted.kind for kind in frame["speed_kind"]]
        )
    if wanted.since is not None:
        since = _time(wanted.since)
        fits &= np.array([datetime.fromisoformat(text) >= since for text in frame["started_at"]])
    return fits


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text!r} is no time such as 2025-01-31; give one.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _check_kind(kind: str | None) -> None:
    if kind not in (None, *SPEED_KINDS):
        raise UsageError(f"--kind {kind!r} is unknown; known are {', '.join(SPEED_KINDS)}.")
