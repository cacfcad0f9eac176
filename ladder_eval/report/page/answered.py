"""The documents of a run with each model's value, as columns; texts are read when wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ladder_eval.errors import RecordError, brief
from ladder_eval.parquet import read_parquet
from ladder_eval.report.page.content import Run
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.samples import SAMPLE_COLUMNS
from ladder_eval.results.store import SAMPLES_NAME

__all__ = ["Answered", "Cells", "read_answered", "read_cells"]

_COLUMNS: Final = (
    *("model", "task", "group", "is_headline"),
    *("doc_id", "doc_hash", "metric", "value"),
)
_REPEATED: Final = ["model", "task", "group", "metric"]
_CELLS: Final = ["value", "weight", "target", "answers"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answered:
    """What a run's models were asked, and how good their answers are.

    Attributes:
        run: The run.
        models: Names of the models, the baseline first.
        compared: Whether the first is a baseline.
        table: One row a document, in the order of the samples: task, subject ("" without), doc_id,
            doc_hash, metric.
        rows: Which row of the samples has a model's answer, -1 where none; [documents, models].
        changes: 1 where a candidate gained, -1 where it lost, else 0; [documents, models].
    """

    run: Run
    models: tuple[str, ...]
    compared: bool
    table: pd.DataFrame
    rows: npt.NDArray[np.int64]
    changes: npt.NDArray[np.int8]

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """Whether any candidate gained or lost, of each document."""
        return np.asarray((self.changes != 0).any(axis=1))

    @property
    def tasks(self) -> dict[str, npt.NDArray[np.int64]]:
        """Numbers of the documents of each task, in order."""
        found = self.table.groupby("task", sort=False, observed=True).indices
        return {str(task): np.sort(numbers) for task, numbers in found.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """What the samples have of answers.

    Attributes:
        table: The columns `_CELLS`, and `document` where wanted.
    """

    table: pa.Table

    def take(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Some rows of the samples."""
        found: list[dict[str, Any]] = self.table.take(pa.array(rows, pa.int64())).to_pylist()
        return found


def read_answered(run: Run) -> Answered | None:
    """The documents of a run; None where it has no samples.

    Raises:
        RecordError: If the samples can't be read.
    """
    if not (run.folder / SAMPLES_NAME).is_file():
        return None
    frame = _read(run, _COLUMNS, _REPEATED).to_pandas()
    frame = frame[frame.pop("is_headline").to_numpy()]
    models = _models(run, set(frame["model"]))
    if frame.empty or not models:
        return None
    frame = frame[frame["model"].isin(models)]
    document = _documents(frame)
    model = frame["model"].map(models.index).to_numpy(dtype=np.int64)
    shape = (int(document.max()) + 1, len(models))
    rows, values = np.full(shape, -1), np.full(shape, np.nan)
    rows[document, model], values[document, model] = frame.index, frame["value"]
    compared = run.result.baseline == models[0]
    table = _table(frame[~pd.Series(document, frame.index).duplicated()])
    changes = _changes(values, table["metric"], compared=compared)
    return Answered(
        run=run, models=models, compared=compared, table=table, rows=rows, changes=changes
    )


def read_cells(run: Run, more: Sequence[str] = ()) -> Cells:
    """What the samples of a run have of answers, and the columns named.

    Raises:
        RecordError: If the samples can't be read.
    """
    return Cells(table=_read(run, (*_CELLS, *more), ()))


def _read(run: Run, columns: Sequence[str], repeated: Sequence[str]) -> pa.Table:
    file = run.folder / SAMPLES_NAME
    try:
        if tuple(pq.read_schema(file).names) == SAMPLE_COLUMNS:
            return _encoded(read_parquet(file, columns).select(list(columns)), repeated)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RecordError(
            f"can't read {file} ({brief(error)}); restore it, or run the evaluation again."
        ) from error
    raise RecordError(
        f"{file} has other columns than this ladder-eval writes; "
        "use the ladder-eval that wrote it, or run the evaluation again."
    )


def _encoded(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with columns encoded that have few values, as often as there are answers."""
    for name in names:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].dictionary_encode())
    return table


def _models(run: Run, answered: set[str]) -> tuple[str, ...]:
    """The models that answered, the baseline first."""
    names = [model.name for model in run.result.models if model.name in answered]
    return tuple(sorted(names, key=lambda name: name != run.result.baseline))


def _documents(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The number of each row's document, as `results.pairing` pairs them."""
    by_model = frame.groupby(["model", "task", "doc_hash"], sort=False, observed=True)
    keyed = frame[["task", "doc_hash"]].assign(again=by_model.cumcount())
    by_document = keyed.groupby(["task", "doc_hash", "again"], sort=False, observed=True)
    return np.asarray(by_document.ngroup(), dtype=np.int64)


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a document; `frame` has them in the order of their numbers."""
    subject = frame["group"].astype(object).where(frame["group"].notna(), "").astype("category")
    kept = frame[["task", "doc_id", "doc_hash", "metric"]]
    return kept.assign(subject=subject).reset_index(drop=True)


def _changes(
    values: npt.NDArray[np.float64], metrics: "pd.Series[str]", *, compared: bool
) -> npt.NDArray[np.int8]:
    """As `results.flips`: of metrics that are fractions, whose values differ."""
    if not compared:
        return np.zeros(values.shape, np.int8)
    differences = np.sign(np.nan_to_num(values - values[:, :1]))
    fractions = metrics.astype(str).map(is_fraction).to_numpy(dtype=np.bool_)
    changes: npt.NDArray[np.int8] = (differences * fractions[:, None]).astype(np.int8)
    return changes
