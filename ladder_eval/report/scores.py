"""Scores as blocks: a model's headlines, the suite's average in the paper's layout, and all."""

from collections import Counter
from collections.abc import Callable, Sequence

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.words import documents, figure, percent, printed, subset
from ladder_eval.results.averages import average_tasks, headlines, suite_average
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.published import published_metric
from ladder_eval.results.records import ModelRecord, PublishedRow, RunResult, Score, TaskRecord
from ladder_eval.results.summary import MACRO, SUBJECT

__all__ = ["all_scores", "average_blocks", "metric_words", "score_blocks"]


def score_blocks(result: RunResult) -> tuple[Block, ...]:
    """A block of scores a model; one more where lower is better."""
    blocks = (
        _score_block(result, model, fractions)
        for model in result.models
        for fractions in (True, False)
    )
    return tuple(block for block in blocks if block.rows)


def metric_words(result: RunResult, task: TaskRecord) -> str:
    """A task's headline metric, with its filter where there are several, and its part."""
    filters = {each.filter for each in result.scores if each.task == task.task}
    kind = f" ({task.filter})" if len(filters) > 1 else ""
    return f"{task.metric}{kind}{' (macro)' if task.part == MACRO else ''}"


def average_blocks(result: RunResult) -> list[Block]:
    """A row a model and a column a task, the average last, and beside it what isn't part of it.

    Published rows stand below the models that they are of. There's no such block if the suite names
    no tasks to average, or a single one.
    """
    names = average_tasks(result)
    if not result.average_tasks or len(names) < 2 or not result.scores:
        return []
    beside = [task for task in result.tasks if task.task not in names]
    rows = []
    for model in result.models:
        rows.append(_average_row(result, model, names, beside))
        published = [row for row in result.published if row.model == model.name]
        rows += [_published_row(row, names, beside) for row in published]
    extra = [f"{task.task} {task.metric}" for task in beside]
    return [
        Block(
            title="tasks and their average: percent, and perplexity",
            columns=("", *names, "average", *extra),
            rows=tuple(rows),
            notes=_average_notes(result, names),
        )
    ]


def all_scores(result: RunResult) -> Block:
    """Every metric after every filter, of tasks and of their parts."""
    subjects = Counter(_key(each) for each in result.scores if each.part.startswith(SUBJECT))
    return Block(
        title="all scores",
        columns=(
            "model",
            "task",
            "part",
            "metric",
            "filter",
            "documents",
            "score",
            "standard error",
            "95 % interval",
        ),
        rows=tuple(
            (
                each.model,
                each.task,
                _part_words(each, subjects[_key(each)]),
                each.metric,
                each.filter,
                str(each.n),
                _four(each.value),
                NOTHING if each.stderr is None else _four(each.stderr),
                _interval(each, _four),
            )
            for each in result.scores
        ),
    )


def _score_block(result: RunResult, model: ModelRecord, fractions: bool) -> Block:
    found = headlines(result, model.name)
    rows = [
        _score_row(task, metric_words(result, task), found[task.task])
        for task in result.tasks
        if task.task in found and is_fraction(task.metric) == fractions
    ]
    lower = "" if fractions else ", lower is better"
    return Block(
        title=f"scores of {model.name}{lower}",
        columns=("task", "n", "metric", "score %" if fractions else "score", "95 % interval"),
        rows=tuple(rows),
    )


def _score_row(task: TaskRecord, metric: str, score: Score) -> tuple[str, ...]:
    shown = percent if is_fraction(score.metric) else figure
    return task.task, documents(task), metric, shown(score.value), _interval(score, shown)


def _average_row(
    result: RunResult, model: ModelRecord, names: Sequence[str], beside: Sequence[TaskRecord]
) -> tuple[str, ...]:
    found = headlines(result, model.name)
    tasks = [_value(found.get(name)) for name in names]
    extra = [_value(found.get(task.task)) for task in beside]
    return model.name, *tasks, _average(result, model.name), *extra


def _value(score: Score | None) -> str:
    if score is None:
        return NOTHING
    return percent(score.value) if is_fraction(score.metric) else figure(score.value)


def _average(result: RunResult, model: str) -> str:
    """Such as "58.9 ± 0.6 (7 of 9)"."""
    average = suite_average(result, model)
    if average is None:
        return NOTHING
    error = "" if average.stderr is None else f" ± {percent(average.stderr)}"
    part = "" if average.is_complete else f" ({average.counted} of {average.tasks})"
    return f"{percent(average.value)}{error}{part}"


def _published_row(
    row: PublishedRow, names: Sequence[str], beside: Sequence[TaskRecord]
) -> tuple[str, ...]:
    keys = [published_metric(name, "") for name in names]
    keys += ["average", *(published_metric(task.task, task.metric) for task in beside)]
    return f"{row.row} (published)", *(printed(row.metrics.get(key)) for key in keys)


def _average_notes(result: RunResult, names: Sequence[str]) -> tuple[str, ...]:
    measured = {task.task for task in result.tasks}
    missing = [name for name in names if name not in measured]
    used = [task for task in result.tasks if task.task in names]
    notes = ["The average is the mean of the tasks' headline metrics, ± its standard error."]
    if missing:
        notes.append(
            f"Incomplete: without {', '.join(missing)}, so no average of all {len(names)} tasks "
            "compares with it."
        )
    if part := subset(used):
        notes.append(f"Measured on a {part}.")
    if result.published:
        notes.append("Published rows are a paper's own figures, not measured here.")
    return tuple(notes)


def _key(score: Score) -> tuple[str, str, str, str]:
    return score.model, score.task, score.metric, score.filter


def _part_words(score: Score, subjects: int) -> str:
    if score.part == MACRO:
        return f"macro (mean of {subjects} subjects)"
    return "micro (all documents)" if subjects and not score.part else score.part


def _four(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def _interval(score: Score, shown: Callable[[float], str]) -> str:
    if score.low is None or score.high is None:
        return NOTHING
    return f"[{shown(score.low)}, {shown(score.high)}]"
