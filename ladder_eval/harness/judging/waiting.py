"""Outputs that wait for a judge, in the folder of the run that wrote them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from ladder_eval.errors import RecordError, brief
from ladder_eval.harness.evaluation import PreparedTask
from ladder_eval.harness.samples import asked_and_answered
from ladder_eval.harness.suites import OUTPUTS
from ladder_eval.plain_json import parse_json
from ladder_eval.results.decoding import decode
from ladder_eval.results.files import atomic_write
from ladder_eval.results.records import TaskRecord
from ladder_eval.results.store import slug

__all__ = ["Waiting", "outputs_of", "read_waiting"]

_FOLDER: Final = "judge"
_TASK: Final = "task.json"
_REFERENCE: Final = "reference.json"
_OUTPUTS: Final = "outputs.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A task's outputs.

    Attributes:
        folder: Where they are.
        task: The task, all but what its headline metric will be.
    """

    folder: Path
    task: TaskRecord

    @property
    def reference(self) -> Path:
        """The file of the outputs that the judge compares with."""
        return self.folder / _REFERENCE

    def of(self, model: str) -> Path:
        """The folder of a model's outputs, and of the verdicts on them."""
        return self.folder / slug(model)

    def outputs(self, model: str) -> Path:
        """The file of a model's outputs."""
        return self.of(model) / _OUTPUTS

    def rows(self, model: str) -> list[dict[str, Any]]:
        """What a model was asked and answered: an `instruction`, an `output` and a `sample` each.

        Raises:
            RecordError: If the file can't be read.
        """
        rows: list[dict[str, Any]] = _read(self.outputs(model))
        return rows

    def write(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Write all models' rows, as `outputs_of` gives them, and what they are compared with.

        Raises:
            RecordError: If they can't be written.
        """
        first = next(iter(rows.values()))
        documents = [json.loads(row["sample"]["document"]) for row in first]
        _write(self.reference, [{name: doc[name] for name in _COLUMNS} for doc in documents])
        for model, own in rows.items():
            _write(self.outputs(model), own)
        _write(self.folder / _TASK, asdict(self.task))

    @classmethod
    def at(cls, run: Path, task: TaskRecord) -> "Waiting":
        """The place of a task's outputs in the folder of a run."""
        return cls(folder=run / _FOLDER / task.task, task=task)


_COLUMNS: Final = ("instruction", "output", "generator")


def outputs_of(
    model: str, tasks: Sequence[PreparedTask], result: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """What a model answered to the tasks that wait for a judge, by task.

    The columns are AlpacaEval's, and `sample`, what a row of `samples.parquet` needs besides.
    """
    return {
        each.task.name: [
            {
                "instruction": sample["doc"]["instruction"],
                "output": str(sample["filtered_resps"][0]),
                "generator": model,
                "sample": asked_and_answered(sample),
            }
            for part in each.lm_tasks
            for sample in result["samples"][part]
        ]
        for each in tasks
        if each.task.answers == OUTPUTS
    }


def read_waiting(run: Path) -> list[Waiting]:
    """All tasks of a run that wait for a judge, or have waited.

    Raises:
        RecordError: If there are none, or they can't be read.
    """
    files = sorted(run.glob(f"{_FOLDER}/*/{_TASK}"))
    if not files:
        raise RecordError(
            f"{run} has no outputs for a judge; run a task that writes some, such as alpaca_eval."
        )
    return [Waiting(folder=file.parent, task=_task(file)) for file in files]


def _task(file: Path) -> TaskRecord:
    return cast("TaskRecord", decode(TaskRecord, _read(file), "task"))


def _read(file: Path) -> Any:
    try:
        return parse_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RecordError(f"{file} can't be read ({brief(error)}); run the task again.") from None


def _write(file: Path, value: object) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"can't write to {file.parent} ({error.strerror or error}); choose another folder."
        ) from error
    atomic_write(file, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
