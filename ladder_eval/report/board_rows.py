"""One run's result as rows of the leaderboard: a row a model, and a row a model and task."""

import hashlib
import json
from collections.abc import Iterable

from ladder_eval.report.speed import link_words
from ladder_eval.report.words import whole
from ladder_eval.results.averages import average_tasks, headlines, suite_average
from ladder_eval.results.records import (
    POOLED,
    Comparison,
    ModelRecord,
    RunResult,
    Score,
    TaskRecord,
)
from ladder_eval.results.speed_records import Estimate, SpeedRecord, SpeedRow

__all__ = ["Row", "model_rows", "score_rows"]

Row = dict[str, object]


def model_rows(result: RunResult) -> list[Row]:
    """A row a model, in `board_columns.MODEL_COLUMNS`."""
    return [_model_row(result, model) for model in result.models]


def score_rows(result: RunResult) -> list[Row]:
    """A row a model and task, in `board_columns.SCORE_COLUMNS`."""
    rows = []
    for model in result.models:
        scores, group = headlines(result, model.name), _group(result, model)
        common: Row = {"suite": result.suite, "group": group, "run_id": result.run_id}
        rows += [
            common | _score_row(model, task, scores[task.task])
            for task in result.tasks
            if task.task in scores
        ]
    return rows


def _model_row(result: RunResult, model: ModelRecord) -> Row:
    versions = result.provenance.versions
    return {
        "model": model.name,
        "residual": model.residual,
        "ladder_layers": json.dumps(model.ladder_layers) if model.ladder_layers else None,
        "num_hidden_layers": model.num_hidden_layers,
        "parameters": model.parameters,
        **_asked(result, model),
        **_mean(result, model.name),
        **_difference(_pooled(result, model.name)),
        **_speed(result, model.name),
        "dtype": model.dtype,
        "device": model.device,
        "tp_size": model.tp_size,
        "batch_size": model.batch_size,
        "weights": model.weights,
        "adaptation": model.adaptation,
        "weights_sha256": model.weights_sha256,
        "tokenizer_sha256": model.tokenizer_sha256,
        "fingerprint": model.fingerprint,
        "origin": model.origin or None,
        "run_id": result.run_id,
        "started_at": result.provenance.started_at,
        "commit": result.provenance.commit,
        "ladder_eval_version": versions.get("ladder-eval"),
        "lm_eval_version": versions.get("lm-eval"),
        "torch_version": versions.get("torch"),
        "transformers_version": versions.get("transformers"),
        "schema_version": result.schema_version,
    }


def _asked(result: RunResult, model: ModelRecord) -> Row:
    return {
        "suite": result.suite,
        "group": _group(result, model),
        "tasks": " ".join(task.task for task in result.tasks),
        "task_versions": " ".join(_version(task) for task in result.tasks),
        "prompting": model.prompts,
        "limit": result.limit,
        "seed": result.seed,
        "documents": sum(task.documents for task in result.tasks),
        "documents_whole": whole(result.tasks),
        "prompts_sha256": _hash_of(task.prompts_sha256 for task in result.tasks),
        "documents_sha256": _hash_of(task.documents_sha256 for task in result.tasks),
    }


def _group(result: RunResult, model: ModelRecord) -> str:
    """A hash of what a row's mean is of: equal ones may be ranked together, and no others.

    A task's hash of prompts is that of the run's first model, which in a run without comparisons
    needn't be what others were asked: their form tells. Where it isn't known what a model was
    asked, the model is in a group of its own. Runs of before documents were hashed are told apart
    by their data.
    """
    tasks = [
        [
            *(task.task, task.version, task.metric, task.filter, task.part, task.num_fewshot),
            *(task.documents, task.prompts_sha256, task.documents_sha256 or task.data_sha256),
        ]
        for task in result.tasks
    ]
    known = all(task.prompts_sha256 for task in result.tasks)
    judges = sorted(
        {(each.task, each.reference, each.judge, each.prompt) for each in result.judgements}
    )
    of = [result.suite, list(average_tasks(result)), tasks, judges, model.prompts]
    text = json.dumps([*of, "" if known else model.fingerprint])
    return f"g{hashlib.sha256(text.encode()).hexdigest()[:12]}"  # digits alone would be a number


def _version(task: TaskRecord) -> str:
    """A task's version; with its letter, no spreadsheet takes 2.10 for 2.1."""
    return f"v{task.version}"


def _hash_of(hashes: Iterable[str]) -> str | None:
    """A hash of all tasks' hashes; None if one isn't known."""
    every = list(hashes)
    return hashlib.sha256("\n".join(every).encode()).hexdigest() if all(every) else None


def _mean(result: RunResult, model: str) -> Row:
    """The suite's average; missing if any task is, as another mean isn't comparable."""
    average = suite_average(result, model)
    if average is None or not average.is_complete:
        return dict.fromkeys(("mean_headline", "mean_headline_stderr", "mean_headline_n"))
    scores = headlines(result, model)
    return {
        "mean_headline": average.value,
        "mean_headline_stderr": average.stderr,
        "mean_headline_n": sum(scores[name].n for name in average_tasks(result)),
    }


def _pooled(result: RunResult, model: str) -> Comparison | None:
    found = (each for each in result.comparisons if each.candidate == model)
    return next((each for each in found if each.task == POOLED), None)


def _difference(pooled: Comparison | None) -> Row:
    return {
        "baseline": pooled.baseline if pooled else None,
        "pooled_difference_points": 100 * pooled.difference if pooled else None,
        "pooled_low_points": 100 * pooled.low if pooled else None,
        "pooled_high_points": 100 * pooled.high if pooled else None,
        "pooled_n": pooled.n if pooled else None,
    }


def _speed(result: RunResult, model: str) -> Row:
    """A model's times and how much faster than its baseline it decodes, if it was timed."""
    timed = ((record, row) for record in result.speed for row in record.rows if row.arm == model)
    record, row = next(timed, (None, None))
    return {} if record is None or row is None else {**_times(row), **_speed_conditions(record)}


def _times(row: SpeedRow) -> Row:
    speedup = row.decode.speedup if row.decode else None
    return {
        "ttft_ms": _milliseconds(row.prefill.seconds),
        "tpot_ms": _milliseconds(row.decode.seconds) if row.decode else None,
        "tokens_per_s": row.tokens_per_s.value,
        "decode_speedup": speedup.value if speedup else None,
        "decode_speedup_low": speedup.low if speedup else None,
        "decode_speedup_high": speedup.high if speedup else None,
    }


def _speed_conditions(record: SpeedRecord) -> Row:
    return {
        "speed_kind": record.kind,
        "speed_rounds": record.rounds,
        "speed_batch_size": record.workload.batch_size,
        "speed_prompt_len": record.workload.prompt_len,
        "speed_output_len": record.workload.output_len,
        "speed_tp_size": record.tp_size,
        "speed_link": link_words(record.link),
        "speed_device": record.device,
        "speed_dtype": record.dtype,
        "speed_weights": record.weights,
        "speed_layers": record.num_hidden_layers,
    }


def _milliseconds(estimate: Estimate) -> float:
    return 1e3 * estimate.value


def _score_row(model: ModelRecord, task: TaskRecord, score: Score) -> Row:
    return {
        "model": model.name,
        "task": task.task,
        "task_version": _version(task),
        "dataset": task.dataset,
        "split": task.split,
        "num_fewshot": task.num_fewshot,
        "metric": task.metric,
        "filter": task.filter,
        "part": task.part or None,
        "value": score.value,
        "stderr": score.stderr,
        "low": score.low,
        "high": score.high,
        "n": score.n,
        "documents": task.documents,
        "documents_in_split": task.documents_in_split,
        "prompts_sha256": task.prompts_sha256 or None,
        "documents_sha256": task.documents_sha256 or None,
        "data_sha256": task.data_sha256 or None,
        "dtype": model.dtype,
        "device": model.device,
        "fingerprint": model.fingerprint,
        "origin": model.origin or None,
    }
