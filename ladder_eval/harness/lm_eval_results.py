"""What `lm_eval --output_path ... --log_samples` wrote about any model, read back."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ladder_eval.errors import RecordError, UsageError, brief
from ladder_eval.plain_json import parse_json

__all__ = ["LmEvalResults", "read_lm_eval"]

# lm-eval's date_id, datetime.isoformat() with hyphens for colons, ends both files' names.
_DATE = re.compile(r"_(\d{4}-\d\d-\d\dT[\d.-]+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class LmEvalResults:
    """One evaluation of one model.

    Attributes:
        file: The results_*.json.
        values: Its content.
        samples: What was asked and answered, by lm-eval's task, ascending by document; of the
            tasks whose samples were logged.
    """

    file: Path
    values: Mapping[str, Any]
    samples: Mapping[str, list[dict[str, Any]]]

    @property
    def config(self) -> Mapping[str, Any]:
        """How the model was run, as far as lm-eval recorded it."""
        return self.values.get("config") or {}

    @property
    def started_at(self) -> str:
        """When it began, or where that wasn't recorded, when its file was written; ISO 8601."""
        date = self.values.get("date")
        seconds = date if isinstance(date, int | float) else self.file.stat().st_mtime
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    def documents(self, task: str) -> tuple[int, int]:
        """How many documents of a task were asked, and how many there are; 0 if not recorded."""
        counts = (self.values.get("n-samples") or {}).get(task) or {}
        return int(counts.get("effective", 0)), int(counts.get("original", 0))

    def value(self, task: str, metric: str, kind: str) -> float | None:
        """A task's metric after a filter; None if it isn't there or no finite number."""
        found = (self.values["results"].get(task) or {}).get(f"{metric},{kind}")
        if isinstance(found, int | float) and math.isfinite(found):
            return float(found)
        return None

    def filters(self, task: str, metric: str) -> list[str]:
        """The filters after which a task's metric was computed."""
        keys = (key.rpartition(",") for key in self.values["results"].get(task) or {})
        return [kind for name, _, kind in keys if name == metric]


def read_lm_eval(path: Path) -> LmEvalResults:
    """Read a results_*.json, or the only one at or below a folder, and the samples beside it.

    Raises:
        UsageError: If there is none, or there are several.
        RecordError: If it, or its samples, can't be read.
    """
    file = _only(path)
    values = _json(file, _text(file))
    if not isinstance(values, dict) or not isinstance(values.get("results"), dict):
        raise RecordError(f"{file} has no results of lm-eval's; give what --output_path wrote.")
    dated = _DATE.search(file.stem)
    samples = {
        task: _samples(logged)
        for task in _table(values, "configs")
        if dated and (logged := file.parent / f"samples_{task}_{dated[1]}.jsonl").is_file()
    }
    return LmEvalResults(file=file, values=values, samples=samples)


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _only(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.rglob("results_*.json"))
    if not found:
        raise UsageError(f"{path} holds no results_*.json; give what lm_eval --output_path wrote.")
    if len(found) > 1:
        raise UsageError(
            f"{path} holds {len(found)} results, such as {found[0]} and {found[-1]}; give one."
        )
    return found[0]


def _samples(file: Path) -> list[dict[str, Any]]:
    lines = _text(file).splitlines()
    try:
        rows = [{**row, "arguments": _requests(row)} for row in (_json(file, x) for x in lines)]
        return sorted(rows, key=lambda row: int(row["doc_id"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RecordError(
            f"{file} has a line that is no sample of lm-eval's ({brief(repr(error))})."
        ) from None


def _requests(row: Mapping[str, Any]) -> list[list[Any]]:
    """What was asked about a document, as lm-eval had it before it wrote it down."""
    logged = row["arguments"]
    if isinstance(logged, list):
        return [list(request) for request in logged]
    return [
        [logged[f"gen_args_{i}"][f"arg_{j}"] for j in range(len(logged[f"gen_args_{i}"]))]
        for i in range(len(logged))
    ]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecordError(f"can't read {file} ({brief(error)}); restore it.") from None


def _json(file: Path, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise RecordError(f"{file} isn't valid JSON ({brief(error)}); restore it.") from None
