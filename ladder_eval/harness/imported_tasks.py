"""One task of a suite among lm-eval's results of any model: its record, its rows and its score."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ladder_eval.errors import RecordError, brief
from ladder_eval.harness.listings import official_rows
from ladder_eval.harness.lm_eval_results import LmEvalResults
from ladder_eval.harness.samples import hash_of, task_rows
from ladder_eval.harness.suites import SuiteTask
from ladder_eval.results.estimates import mean_of_tasks
from ladder_eval.results.metrics import over, term
from ladder_eval.results.records import UNKNOWN, Score, TaskRecord
from ladder_eval.results.summary import MACRO

__all__ = ["ImportedTask", "find_task"]

_SOURCE: Final = "what lm-eval loaded"

# Two sums of the same numbers in another order.
_SAME: Final = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTask:
    """A task that lm-eval evaluated.

    Attributes:
        task: The task as a suite has it.
        parts: Those of its lm-eval tasks that have results.
        filter: The filter whose answers count.
        values: The headline metric of each part, and its standard error if it is known.
        counts: Documents of each part that were asked, and that there are.
        rows: A row of samples.parquet a document and filter; empty if samples weren't logged.
        version: lm-eval's version of the task.
        num_fewshot: Examples in a prompt.
    """

    task: SuiteTask
    parts: tuple[str, ...]
    filter: str
    values: tuple[tuple[float, float | None], ...]
    counts: tuple[tuple[int, int], ...]
    rows: tuple[Mapping[str, Any], ...]
    version: str
    num_fewshot: int

    def record(self) -> TaskRecord:
        """The task and the documents of it that the model was asked about."""
        split, official = self.task.parts[0].evaluated, official_rows(self.task)
        there_are = sum(count for _, count in self.counts)
        if len(self.parts) < len(self.task.parts):  # lm-eval counts no part without documents
            there_are = max(there_are, official or 0)
        asked = [row for row in self.rows if row["is_headline"]]
        return TaskRecord(
            task=self.task.name,
            dataset=split.hub_id,
            split=split.name,
            metric=self.task.headline,
            num_fewshot=self.num_fewshot,
            version=self.version,
            documents=sum(count for count, _ in self.counts),
            documents_in_split=there_are,
            official_documents=official,
            source=_SOURCE,
            data_sha256="",
            prompts_sha256=hash_of([row["prompt_hash"] for row in asked]) if asked else "",
            filter=self.filter,
            part=MACRO if self.task.is_macro else "",
            documents_sha256=hash_of([row["doc_hash"] for row in asked]) if asked else "",
        )

    def score(self, model: str) -> Score:
        """lm-eval's own score: of several parts their mean, where documents or parts count alike.

        The standard error of a mean over documents is sqrt(sum (n_i se_i)²) / sum n_i, that of
        independent samples of n_i documents each.
        """
        sizes = [count for count, _ in self.counts]
        n, errors = sum(sizes), [stderr for _, stderr in self.values]
        known = [error for error in errors if error is not None]
        if self.task.is_macro:
            value, stderr = mean_of_tasks(self.values)
        elif len(self.values) == 1:
            ((value, stderr),) = self.values
        else:
            value = sum(k * each for k, (each, _) in zip(sizes, self.values, strict=True)) / n
            spread = [k * error for k, error in zip(sizes, known, strict=False)]
            stderr = math.hypot(*spread) / n if len(known) == len(errors) else None
        return Score(
            model=model,
            task=self.task.name,
            metric=self.task.headline,
            value=value,
            n=n,
            stderr=stderr,
            filter=self.filter,
            part=MACRO if self.task.is_macro else "",
        )


def find_task(found: LmEvalResults, task: SuiteTask, model: str) -> ImportedTask | None:
    """A task among lm-eval's results; None if its headline metric isn't there.

    Args:
        found: The results.
        task: The task as a suite has it.
        model: The model's name in the rows.

    Raises:
        RecordError: If its samples give another value than the results have, or are no samples; or
            if it isn't known how many documents were asked.
    """
    parts = tuple(part.name for part in task.parts if part.name in found.values["results"])
    kinds = [kind for part in parts for kind in found.filters(part, task.headline)]
    kind = task.filter or next(iter(kinds), "none")
    values = [
        (value, found.value(part, f"{task.headline}_stderr", kind))
        for part in parts
        if (value := found.value(part, task.headline, kind)) is not None
    ]
    if not parts or len(values) != len(parts):
        return None
    counts = tuple(map(found.documents, parts))
    if not all(asked for asked, _ in counts):
        raise RecordError(f"{found.file} doesn't say how many documents of {task.name} were asked.")
    rows = _rows(found, task, parts, model) if all(map(found.samples.get, parts)) else ()
    if rows:
        _check(found, task, parts, kind)
    return ImportedTask(
        task=task,
        parts=parts,
        filter=kind,
        values=tuple(values),
        counts=counts,
        rows=rows,
        version=str((found.values.get("versions") or {}).get(task.name, UNKNOWN)),
        num_fewshot=int((found.values.get("n-shot") or {}).get(parts[0]) or 0),
    )


def _rows(
    found: LmEvalResults, task: SuiteTask, parts: Sequence[str], model: str
) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(task_rows(model, task, parts, {"samples": found.samples}))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"the samples of {task.name} beside {found.file} aren't as lm-eval writes them "
            f"({brief(repr(error))}); move them away to import its aggregated results alone."
        ) from None


def _check(found: LmEvalResults, task: SuiteTask, parts: Sequence[str], kind: str) -> None:
    """Refuse samples that are of another evaluation than the results."""
    for part in parts:
        own = [row for row in found.samples[part] if row["filter"] == kind]
        theirs = found.value(part, task.headline, kind)
        terms = [term(task.headline, row[task.headline]) for row in own]
        mean = over(task.headline, terms) if terms else math.nan
        if theirs is None or not math.isclose(mean, theirs, rel_tol=_SAME, abs_tol=_SAME):
            raise RecordError(
                f"the samples of {part} give {task.headline} {mean:.6g}, but {found.file} has "
                f"{theirs}; give results and samples of one evaluation."
            )
