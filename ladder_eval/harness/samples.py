"""What lm-eval found out about a model: a row a document, and files in lm-eval's own layout."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.loggers import EvaluationTracker
from lm_eval.utils import sanitize_model_name

from ladder_eval.errors import RecordError, UsageError
from ladder_eval.harness.chat import PLAIN, Prompting
from ladder_eval.harness.evaluation import PreparedTask
from ladder_eval.harness.suites import OUTPUTS, SuiteTask
from ladder_eval.results.metrics import term


def sample_rows(
    model: str, tasks: Sequence[PreparedTask], result: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """One row a document and filter, in the columns of `samples.parquet`.

    What waits for a judge has no value yet, and is left out.
    """
    for prepared in tasks:
        if prepared.task.answers != OUTPUTS:
            yield from task_rows(model, prepared.task, prepared.lm_tasks, result)


def task_rows(
    model: str, task: SuiteTask, parts: Iterable[str], result: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The rows of one task, of the parts that are named."""
    counts = headline_filter(task, result)
    categories = {part.name: getattr(part, "category", None) for part in task.parts}
    for part in parts:
        for sample in result["samples"][part]:
            value = term(task.headline, sample[task.headline])
            metrics = {name: sample[name] for name in sample["metrics"]}
            yield {
                "model": model,
                "task": task.name,
                "group": part if task.group else None,
                "category": categories[part],
                "is_headline": sample["filter"] == counts,
                "metric": task.headline,
                "value": value.value,
                "weight": value.weight,
                "metrics": json.dumps(metrics, default=_plain),
                **asked_and_answered(sample),
            }


def asked_and_answered(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that don't depend on what the answer is worth."""
    return {
        "filter": sample["filter"],
        "doc_id": sample["doc_id"],
        "doc_hash": sample["doc_hash"],
        "prompt_hash": prompt_hash(sample["arguments"]),
        "target_hash": sample["target_hash"],
        "target": str(sample["target"]),
        "answers": json.dumps(sample["filtered_resps"]),
        "document": json.dumps(sample["doc"], default=str, ensure_ascii=False),
    }


def headline_filter(task: SuiteTask, result: Mapping[str, Any]) -> str:
    """The filter whose answers count: the task's choice, or the first that lm-eval applied.

    Raises:
        UsageError: if lm-eval applied none of that name.
    """
    applied = [
        sample["filter"] for part in task.parts for sample in result["samples"].get(part.name, ())
    ]
    chosen: str = getattr(task, "filter", None) or applied[0]
    if chosen not in applied:
        known = ", ".join(dict.fromkeys(applied))
        raise UsageError(f"{task.name} has no filter {chosen!r}; its filters are {known}.")
    return chosen


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's, which alone JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a metric has the value {value!r}, which is no number")


def prompt_hash(arguments: Sequence[Sequence[Any]]) -> str:
    """Hash of everything that a model is asked about a document.

    lm-eval's own hash covers only the first request's context, which for WinoGrande leaves out
    half of the question.
    """
    text = json.dumps([list(request) for request in arguments], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_of(hashes: Sequence[str]) -> str:
    """Hash of the hashes of a task's documents or prompts, in their order."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def write_lm_eval_layout(
    folder: Path,
    model: str,
    model_args: Mapping[str, Any],
    result: dict[str, Any],
    *,
    prompting: Prompting = PLAIN,
    template: str = "",
) -> None:
    """Write the results as lm-eval's own command line would, in place of an earlier write.

    The samples in `result` are of no use afterwards: lm-eval rewrites them in place.

    Raises:
        RecordError: if the files can't be written.
    """
    name = sanitize_model_name(model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as unfinished:
            _track(Path(unfinished), model, model_args, result, prompting, template)
            shutil.rmtree(folder / name, ignore_errors=True)
            (Path(unfinished) / name).replace(folder / name)
    except OSError as error:
        raise RecordError(
            f"lm-eval's result files can't be written to {folder} ({error.strerror or error}); "
            "free some space there, or choose another --output-dir."
        ) from None


def _track(
    folder: Path,
    model: str,
    model_args: Mapping[str, Any],
    result: dict[str, Any],
    prompting: Prompting,
    template: str,
) -> None:
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.log_experiment_args(
        model_source="ladder-eval",
        model_args={"model": model},
        system_instruction=prompting.system_instruction or "",
        chat_template=template,
        fewshot_as_multiturn=prompting.fewshot_as_multiturn,
    )
    samples = result["samples"]
    # lm-eval leaves this empty for a model that it didn't make itself.
    config = {"model": model, "model_args": dict(model_args)}
    rest = {name: value for name, value in result.items() if name != "samples"}
    tracker.save_results_aggregated({**rest, "config": config}, samples)
    for name, rows in samples.items():
        tracker.save_results_samples(name, rows)
    # lm-eval logs its errors and goes on, so that files may be missing, cut or empty.
    lines = sum(len(file.read_text("utf-8").splitlines()) for file in folder.glob("*/*.jsonl"))
    if lines != sum(map(len, samples.values())) or not _is_json(folder.glob("*/*.json")):
        raise OSError("not all of them were")


def _is_json(files: Iterator[Path]) -> bool:
    try:
        return all(isinstance(json.loads(file.read_text("utf-8")), dict) for file in files)
    except ValueError:
        return False
