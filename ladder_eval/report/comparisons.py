"""Comparisons as blocks: differences in points, and ratios where lower is better."""

from collections.abc import Sequence
from dataclasses import replace

from ladder_eval.report.block import Block
from ladder_eval.report.scores import metric_words
from ladder_eval.report.words import bounds, documents, figure, percent, points, verdict
from ladder_eval.results.means import MEAN_METHODS
from ladder_eval.results.records import POOLED, Comparison, RunResult, TaskRecord

__all__ = ["comparison_blocks"]


def comparison_blocks(result: RunResult) -> tuple[Block, ...]:
    """A block of differences a candidate, and one of ratios if there are any."""
    candidates = dict.fromkeys(each.candidate for each in result.comparisons)
    blocks = (
        make(result, candidate) for candidate in candidates for make in (_differences, _ratios)
    )
    return tuple(block for block in blocks if block.rows)


def _differences(result: RunResult, candidate: str) -> Block:
    found = _found(result, candidate, ratios=False)
    tasks = [task for task in result.tasks if task.task in found]
    rows = [
        _difference_row(task.task, documents(task), _metric(result, task), found[task.task])
        for task in tasks
    ]
    pooled = found.get(POOLED)
    if pooled:
        metric = "headline" if ", " in pooled.metric else pooled.metric
        rows.append(_difference_row(POOLED, str(pooled.n), metric, pooled))
    return Block(
        title=f"{_title(result, candidate)}: difference in points",
        columns=(
            "task",
            "n",
            "metric",
            "base %",
            "cand. %",
            "points",
            _interval_heading(found),
            "+/−",
        ),
        rows=tuple(rows),
        notes=_notes(pooled, [(task, found[task.task]) for task in tasks]),
        total=pooled is not None,
    )


def _ratios(result: RunResult, candidate: str) -> Block:
    found = _found(result, candidate, ratios=True)
    return Block(
        title=f"{_title(result, candidate)}: ratio cand. / base, lower is better",
        columns=("task", "n", "metric", "base", "cand.", "ratio", _interval_heading(found), "+/−"),
        rows=tuple(
            _ratio_row(documents(task), metric_words(result, task), found[task.task])
            for task in result.tasks
            if task.task in found
        ),
        notes=tuple(_ratio_verdict(each) for each in found.values()),
    )


def _found(result: RunResult, candidate: str, *, ratios: bool) -> dict[str, Comparison]:
    return {
        each.task: each
        for each in result.comparisons
        if each.candidate == candidate and (each.ratio is not None) == ratios
    }


def _metric(result: RunResult, task: TaskRecord) -> str:
    """The metric that is compared: over documents, even where the headline is over subjects."""
    return metric_words(result, replace(task, part="")) + (" (micro)" if task.part else "")


def _title(result: RunResult, candidate: str) -> str:
    return f"{candidate} (cand.) against {result.baseline} (base)"


def _interval_heading(found: dict[str, Comparison]) -> str:
    levels = dict.fromkeys(f"{100 * each.confidence:g} %" for each in found.values())
    return f"{' or '.join(levels)} interval"


def _difference_row(name: str, count: str, metric: str, found: Comparison) -> tuple[str, ...]:
    return (
        name,
        count,
        metric,
        percent(found.baseline_value),
        percent(found.candidate_value),
        points(found.difference),
        bounds(found.low, found.high),
        f"{found.gains}/{found.losses}",
    )


def _ratio_row(count: str, metric: str, found: Comparison) -> tuple[str, ...]:
    return (
        found.task,
        count,
        metric,
        figure(found.baseline_value),
        figure(found.candidate_value),
        figure(found.ratio or 0.0),
        f"[{figure(found.low)}, {figure(found.high)}]",
        f"{found.gains}/{found.losses}",
    )


def _ratio_verdict(found: Comparison) -> str:
    """What a ratio says, and no more than that."""
    level = f"{100 * found.confidence:g} % interval [{figure(found.low)}, {figure(found.high)}]"
    if not found.decided:
        return (
            f"{found.task}: the ratio {figure(found.ratio or 0.0)} is too near to 1 to decide; the "
            f"{level} contains 1."
        )
    way = "better" if found.difference < 0 else "worse"
    return (
        f"{found.task}: {found.candidate} is {way} than {found.baseline}, at "
        f"{figure(found.ratio or 0.0)} times its {found.metric} ({level})."
    )


def _notes(
    pooled: Comparison | None, compared: Sequence[tuple[TaskRecord, Comparison]]
) -> tuple[str, ...]:
    """The verdict; where tasks aren't pooled, because of their metric, this too."""
    if pooled is None:
        return ("No pooled difference: no task's metric is 0 or 1 for each document.",)
    inside = [task for task, each in compared if each.method not in MEAN_METHODS]
    sentence = verdict(pooled, inside)
    outside = [task.task for task, _ in compared if task not in inside]
    if not outside:
        return (sentence,)
    return sentence, f"Not pooled, as no right or wrong per document: {', '.join(outside)}."
