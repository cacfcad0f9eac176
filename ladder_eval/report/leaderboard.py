"""All runs' models in one table: as a data frame, as CSV, and for the terminal."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.table import Table
from rich.text import Text

from ladder_eval.report.speed import link_words
from ladder_eval.report.words import bounds, percent, points
from ladder_eval.results.averages import suite_average
from ladder_eval.results.files import atomic_write
from ladder_eval.results.records import POOLED, Comparison, ModelRecord, RunResult
from ladder_eval.results.speed_records import MEASURED

__all__ = ["LEADERBOARD_COLUMNS", "leaderboard", "leaderboard_table", "to_csv", "write_csv"]

LEADERBOARD_COLUMNS: Final[dict[str, str]] = {
    "model": "string",
    "residual": "string",
    "ladder_layers": "string",
    "num_hidden_layers": "Int64",
    "parameters": "Int64",
    "suite": "string",
    "limit": "Int64",
    "seed": "Int64",
    "documents": "Int64",
    "prompts_sha256": "string",
    "mean_headline": "float64",
    "baseline": "string",
    "pooled_difference_points": "float64",
    "pooled_low_points": "float64",
    "pooled_high_points": "float64",
    "decode_speedup": "float64",
    "decode_speedup_low": "float64",
    "decode_speedup_high": "float64",
    "speed_kind": "string",
    "speed_tp_size": "Int64",
    "speed_link": "string",
    "speed_device": "string",
    "speed_dtype": "string",
    "speed_weights": "string",
    "speed_layers": "Int64",
    "dtype": "string",
    "device": "string",
    "tp_size": "Int64",
    "batch_size": "Int64",
    "weights": "string",
    "adaptation": "string",
    "fingerprint": "string",
    "run_id": "string",
    "started_at": "string",
    "ladder_eval_version": "string",
    "schema_version": "Int64",
}
"""Columns of the leaderboard in order, each with its pandas type. One row per model and run.

`ladder_layers` lists indexes with spaces between them; `limit` is missing for whole tasks.
`documents` is the sum over tasks and `prompts_sha256` a hash of all that was asked about them.
`mean_headline` is the unweighted mean of the headline metrics, a fraction, over the tasks that the
suite averages, or all whose metric is a fraction; missing if one of them is. `baseline` and the
`pooled_` columns, in percentage points with their interval, are missing where a model is compared
with nothing, and `decode_speedup` with its interval, the baseline's time by the model's, where it
wasn't timed. The `speed_` columns are the conditions of that, such as whether it was measured and
the link is virtual, which need not be those of scoring. `started_at` is ISO 8601.
"""

SAME_EVALUATION: Final = ["fingerprint", "suite", "prompts_sha256", "dtype", "device", "baseline"]
"""Columns that tell evaluations apart; of equal ones, the leaderboard keeps the newest."""


def leaderboard(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row per model and run, by suite, then by falling mean; columns `LEADERBOARD_COLUMNS`.

    A repeated evaluation, with equal `SAME_EVALUATION`, counts once: the newest.
    """
    newest_first = sorted(results, key=_started, reverse=True)
    rows = [_row(result, model) for result in newest_first for model in result.models]
    frame = pd.DataFrame(rows, columns=list(LEADERBOARD_COLUMNS)).astype(LEADERBOARD_COLUMNS)
    kept = frame.drop_duplicates(SAME_EVALUATION, keep="first")
    order = kept.sort_values(
        ["suite", "mean_headline", "model"], ascending=[True, False, True], kind="stable"
    )
    return order.reset_index(drop=True)


def to_csv(frame: pd.DataFrame) -> str:
    """The leaderboard as CSV that a spreadsheet opens as data.

    A spreadsheet runs text that starts with =, +, -, @, a tab or a line break as a formula; an
    apostrophe before it keeps it text. Numbers stay as they are, floats to their last bit.
    """
    safe = frame.astype(object).map(_defuse, na_action="ignore")
    return str(safe.to_csv(index=False, lineterminator="\n"))


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Replace a file with `to_csv` of the leaderboard.

    Raises:
        RecordError: If the file can't be written.
    """
    atomic_write(path, to_csv(frame))


def leaderboard_table(frame: pd.DataFrame) -> Table:
    """The leaderboard's main columns for the terminal."""
    headings = (
        "suite",
        "model",
        "residual",
        "documents",
        "mean %",
        "difference, points",
        "decode speedup",
        "against",
    )
    table = Table(title=Text("Leaderboard"), title_justify="left")
    for heading in headings:
        numeric = heading in ("documents", "mean %", "difference, points", "decode speedup")
        table.add_column(Text(heading), justify="right" if numeric else "left", overflow="fold")
    for row in frame.to_dict("records"):
        table.add_row(*map(Text, _cells(row)))
    return table


def _started(result: RunResult) -> datetime:
    return datetime.fromisoformat(result.provenance.started_at)


def _row(result: RunResult, model: ModelRecord) -> dict[str, object]:
    pooled = _pooled(result, model.name)
    return {
        "model": model.name,
        "residual": model.residual,
        "ladder_layers": " ".join(map(str, model.ladder_layers)),
        "num_hidden_layers": model.num_hidden_layers,
        "parameters": model.parameters,
        "suite": result.suite,
        "limit": result.limit,
        "seed": result.seed,
        "documents": sum(task.documents for task in result.tasks),
        "prompts_sha256": _prompts_sha256(result),
        "mean_headline": _mean_headline(result, model.name),
        "baseline": pooled.baseline if pooled else None,
        "pooled_difference_points": 100 * pooled.difference if pooled else None,
        "pooled_low_points": 100 * pooled.low if pooled else None,
        "pooled_high_points": 100 * pooled.high if pooled else None,
        **_speed(result, model.name),
        "dtype": model.dtype,
        "device": model.device,
        "tp_size": model.tp_size,
        "batch_size": model.batch_size,
        "weights": model.weights,
        "adaptation": model.adaptation,
        "fingerprint": model.fingerprint,
        "run_id": result.run_id,
        "started_at": result.provenance.started_at,
        "ladder_eval_version": result.provenance.versions.get("ladder-eval"),
        "schema_version": result.schema_version,
    }


def _prompts_sha256(result: RunResult) -> str:
    hashes = "\n".join(task.prompts_sha256 for task in result.tasks)
    return hashlib.sha256(hashes.encode()).hexdigest()


def _pooled(result: RunResult, model: str) -> Comparison | None:
    found = (each for each in result.comparisons if each.candidate == model)
    return next((each for each in found if each.task == POOLED), None)


def _speed(result: RunResult, model: str) -> dict[str, object]:
    """How much faster than its baseline a model decodes, and over what, if it was timed."""
    timed = ((record, row) for record in result.speed for row in record.rows if row.arm == model)
    record, row = next(timed, (None, None))
    speedup = row.decode.speedup if row is not None and row.decode is not None else None
    return {
        "decode_speedup": speedup.value if speedup else None,
        "decode_speedup_low": speedup.low if speedup else None,
        "decode_speedup_high": speedup.high if speedup else None,
        "speed_kind": record.kind if record else None,
        "speed_tp_size": record.tp_size if record else None,
        "speed_link": link_words(record.link) if record else None,
        "speed_device": record.device if record else None,
        "speed_dtype": record.dtype if record else None,
        "speed_weights": record.weights if record else None,
        "speed_layers": record.num_hidden_layers if record else None,
    }


def _mean_headline(result: RunResult, model: str) -> float | None:
    """The suite's average; None if any task is missing, as another mean isn't comparable."""
    average = suite_average(result, model)
    return average.value if average and average.is_complete else None


def _defuse(cell: object) -> object:
    dangerous = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{cell}" if dangerous else cell


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    limited = "" if pd.isna(row["limit"]) else f" (limit {row['limit']})"
    return (
        row["suite"],
        row["model"],
        row["residual"],
        f"{row['documents']}{limited}",
        "—" if pd.isna(row["mean_headline"]) else percent(row["mean_headline"]),
        _difference(row),
        _speedup(row),
        "—" if pd.isna(row["baseline"]) else row["baseline"],
    )


def _speedup(row: dict[Any, Any]) -> str:
    if pd.isna(row["decode_speedup"]):
        return "—"
    kind = "" if row["speed_kind"] == MEASURED else f", {row['speed_kind']}"
    return f"{row['decode_speedup']:.2f} over {row['speed_link']}{kind}"


def _difference(row: dict[Any, Any]) -> str:
    names = ("pooled_difference_points", "pooled_low_points", "pooled_high_points")
    difference, low, high = (row[name] for name in names)
    if pd.isna(difference):
        return "—"
    return f"{points(difference / 100)} {bounds(low / 100, high / 100)}"
