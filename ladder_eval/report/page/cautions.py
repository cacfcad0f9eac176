"""What a reader has to know before believing a run's numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ladder_eval.report.judged import waiting_sentence
from ladder_eval.report.page.content import Run
from ladder_eval.report.speed import control_speedup, speed_title
from ladder_eval.report.words import subset, truncation
from ladder_eval.results.averages import headlines
from ladder_eval.results.gate import FEWEST_ROUNDS
from ladder_eval.results.mean_difference import candidates
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.records import POOLED, RunResult
from ladder_eval.results.speed_records import SpeedRecord
from ladder_eval.results.store import SAMPLES_NAME
from ladder_eval.results.ties import ties

__all__ = ["SMALL", "cautions"]

SMALL: Final = 100
"""With fewer documents, one of them moves a task's score by more than a point."""


def cautions(run: Run) -> tuple[str, ...]:
    """The run's own warnings, then those that follow from its numbers and its answers.

    Raises:
        RecordError: If the run has samples that can't be read.
    """
    found = (*run.result.warnings, *_found(run.result), *_tied(run.folder / SAMPLES_NAME))
    return tuple(dict.fromkeys(found))


def _found(result: RunResult) -> Iterator[str]:
    if part := subset(result.tasks):
        yield f"Only a {part} documents was scored; all of them may say something else."
    yield from _small(result)
    yield from _truncated(result)
    yield from _unscored(result)
    yield from _unchanged(result)
    if result.pending_tasks:
        yield waiting_sentence(result)
    for record in result.speed:
        yield from _timed(record)


def _small(result: RunResult) -> Iterator[str]:
    few = [t for t in result.tasks if is_fraction(t.metric) and 0 < t.documents < SMALL]
    if few:
        named = ", ".join(f"{task.task} ({task.documents})" for task in few)
        yield f"Few documents: in {named}, one document is more than a point of the score."


def _truncated(result: RunResult) -> Iterator[str]:
    """Prompts and texts that were cut, which answers suffer from."""
    yield from (truncation(model) for model in result.models if model.truncated_requests)
    for model in result.models:
        if model.cut_texts:
            yield (
                f"{model.name}: {_count(model.cut_texts, 'generated text')} ended only by the "
                "limit of length."
            )


def _unscored(result: RunResult) -> Iterator[str]:
    """Scores that are missing, as whole or of some documents: such values weren't finite."""
    for model in result.models:
        found = headlines(result, model.name)
        for task in result.tasks:
            if task.task in result.pending_tasks:
                continue
            score = found.get(task.task)
            if score is None:
                yield f"{model.name} has no score in {task.task}."
            elif not task.part and score.n < task.documents:
                gone = task.documents - score.n
                yield (
                    f"{model.name} has no value in {_count(gone, 'document')} of {task.task}, "
                    f"which its {task.metric} leaves out."
                )


def _unchanged(result: RunResult) -> Iterator[str]:
    """Tasks in which all pairs tie, so that their interval is of what was not seen."""
    for candidate in candidates(result):
        ties = [
            f"{each.task} ({each.n})"
            for each in result.comparisons
            if each.candidate == candidate and each.task != POOLED
            if not each.gains + each.losses
        ]
        if ties:
            yield (
                f"{candidate} and {result.baseline} tie on every document of {', '.join(ties)}: "
                "the intervals there come from the number of documents alone."
            )


def _tied(samples: Path) -> Iterator[str]:
    """Answers that the order of their choices decided."""
    for each in ties(samples) if samples.is_file() else ():
        yield (
            f"{each.model} has two most likely choices in {each.tied} of {each.documents} "
            f"documents of {each.task}; the first of them counts as its answer."
        )


def _timed(record: SpeedRecord) -> Iterator[str]:
    """A control out of bounds, and too few rounds."""
    control, title = control_speedup(record), speed_title(record)
    if record.rounds < FEWEST_ROUNDS:
        yield f"Only {_count(record.rounds, 'round')} timed of {title}: no interval to rely on."
    elif control is not None and not control.low <= 1 <= control.high:
        yield (
            f"A/A out of bounds: the baseline against itself is {control.value:.3f} times as fast "
            f"[{control.low:.3f}, {control.high:.3f}], which excludes 1; something beside the "
            f"residual changes times of {title}."
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
