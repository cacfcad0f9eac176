"""Judging as a job: a run's outputs before a judge, and what that makes of the run's result."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd

from ladder_eval.errors import RecordError
from ladder_eval.harness.data.length_files import length_files_if_any
from ladder_eval.harness.data.splits import DataSources
from ladder_eval.harness.judging import job
from ladder_eval.harness.judging.annotations import read_annotations
from ladder_eval.harness.judging.judgement import Judgement
from ladder_eval.harness.judging.options import Judge, Judging, LengthControl
from ladder_eval.harness.judging.waiting import Waiting, read_waiting
from ladder_eval.pages import write_pages
from ladder_eval.results.judged import LC_WIN_RATE, WIN_RATE, lc_comparison, lc_score
from ladder_eval.results.length_controlled import LengthControlled
from ladder_eval.results.records import (
    POOLED,
    Comparison,
    JudgementRecord,
    RunResult,
    TaskRecord,
)
from ladder_eval.results.store import SAMPLE_COLUMNS, RunFolder, read_result, read_samples
from ladder_eval.results.summary import comparisons, scores
from ladder_eval.results.win_rates import probabilities

__all__ = ["RunJudgement", "judge_run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJudgement:
    """What a judge said of a run.

    Attributes:
        judgements: A model each.
        result: The run's result, with scores if no verdict is missing.
    """

    judgements: Sequence[Judgement]
    result: RunResult

    @property
    def complete(self) -> bool:
        """Whether no verdict is missing."""
        return all(each.judged.complete for each in self.judgements)


def judge_run(
    run: Path,
    judge: Judge,
    sources: DataSources,
    bar: Callable[[int], Callable[[], None]],
) -> RunJudgement:
    """Put each model's outputs before the judge, and the scores into the run's result.

    Verdicts are kept in the run's folder, each on disk before it counts. As long as one is missing,
    the result stays as it is.

    Args:
        run: The run's folder.
        judge: The judge.
        sources: Where files for length control are taken from, unless the judge comes with some.
        bar: Makes a bar of so many questions, and gives what advances it by one.

    Raises:
        LadderEvalError: If the run has nothing to judge, or the judge refuses all questions.
    """
    with RunFolder.open(run) as folder:
        result, found = read_result(run), []
        for waiting in read_waiting(run):
            asked = _with_lengths(judge, waiting.task, sources)
            judged = {
                model.name: job.judge(_judging(asked, waiting, model.name), bar)
                for model in result.models
            }
            found += list(judged.values())
            if all(each.judged.complete for each in judged.values()):
                result = _with_scores(folder, result, waiting, judged)
        return RunJudgement(judgements=found, result=result)


def _with_lengths(judge: Judge, task: TaskRecord, sources: DataSources) -> Judge:
    """The judge with the files for length control, if they can be had and mean something."""
    if judge.lengths.gamed:
        return judge
    if task.documents != task.official_documents:
        because = f"needs all {task.official_documents} instructions; {task.documents} were asked"
        return replace(judge, lengths=LengthControl(because=because))
    files = length_files_if_any(sources)
    if files is None:
        return judge
    return replace(judge, lengths=LengthControl(gamed=files.gamed, difficulty=files.difficulty))


def _judging(judge: Judge, waiting: Waiting, model: str) -> Judging:
    return Judging(
        outputs=waiting.outputs(model),
        reference=waiting.reference,
        judge=judge,
        out=waiting.of(model),
    )


def _with_scores(
    folder: RunFolder, result: RunResult, waiting: Waiting, judged: Mapping[str, Judgement]
) -> RunResult:
    """The result with the task's scores, on disk with its samples and pages."""
    rates = _controlled(judged)
    rows = _samples(waiting, judged, is_headline=not rates)
    record = replace(waiting.task, metric=LC_WIN_RATE if rates else WIN_RATE)
    name = record.task
    found = replace(
        result,
        tasks=(*_others(result.tasks, name), record),
        scores=(
            *_others(result.scores, name),
            *scores(rows),
            *(lc_score(model, name, rate, record.documents) for model, rate in rates.items()),
        ),
        comparisons=_merged(
            _others(result.comparisons, name), _compared(result.baseline, name, rates, rows)
        ),
        pending_tasks=tuple(each for each in result.pending_tasks if each != name),
        judgements=(
            *_others(result.judgements, name),
            *(_record(model, name, each) for model, each in judged.items()),
        ),
    )
    folder.write_samples(_beside_others(folder.path, rows))
    write_pages(folder, found)
    return found


class _OfTask(Protocol):
    """A record of one task."""

    @property
    def task(self) -> str: ...


_Record = TypeVar("_Record", bound=_OfTask)


def _others(records: Sequence[_Record], task: str) -> tuple[_Record, ...]:
    """The records of other tasks: a run that is judged once more forgets what was said before."""
    return tuple(each for each in records if each.task != task)


def _beside_others(run: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """A run's samples, those of one task replaced."""
    try:
        old = read_samples(run)
    except RecordError:  # a run of nothing but this task
        return rows
    others = old[~old["task"].isin(rows["task"])]
    return pd.concat([others, rows], ignore_index=True) if len(others) else rows


def _controlled(judged: Mapping[str, Judgement]) -> dict[str, LengthControlled]:
    """Each model's length-controlled rate; empty if one has none."""
    rates = {model: each.rates.length_controlled for model, each in judged.items() if each.rates}
    found = {model: rate for model, rate in rates.items() if rate is not None}
    return found if len(found) == len(judged) else {}


def _samples(
    waiting: Waiting, judged: Mapping[str, Judgement], *, is_headline: bool
) -> pd.DataFrame:
    """The rows of `samples.parquet`, in which a document's value is what the judge gave it."""
    return pd.DataFrame(
        [
            {
                "model": model,
                "task": waiting.task.task,
                "group": None,
                "category": None,
                "is_headline": is_headline,
                "metric": WIN_RATE,
                "value": value,
                "weight": 1.0,
                "metrics": json.dumps({WIN_RATE: value}),
                **sample,
            }
            for model in judged
            for value, sample in _valued(waiting, model)
        ],
        columns=list(SAMPLE_COLUMNS),
    )


def _valued(waiting: Waiting, model: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """What each output was worth beside the reference's, from 0 to 1, and the row's rest."""
    verdicts = read_annotations(waiting.of(model) / job.ANNOTATIONS_NAME, None).rows
    preferences = {row.instruction: row.preference or 0 for row in verdicts}
    rows = waiting.rows(model)
    values = probabilities([preferences[row["instruction"]] for row in rows])
    for value, row in zip(values.tolist(), rows, strict=True):
        yield value, row["sample"]


def _compared(
    baseline: str | None, task: str, rates: Mapping[str, LengthControlled], rows: pd.DataFrame
) -> list[Comparison]:
    """Each candidate against the baseline: by length-controlled rates where there are some."""
    if baseline is None:
        return []
    if not rates:
        return [each for each in comparisons(baseline, rows) if each.task == task]
    values = {str(name): own["value"].tolist() for name, own in rows.groupby("model")}
    found = (
        lc_comparison(
            (name, baseline), task, (rates[name], rates[baseline]), (values[name], values[baseline])
        )
        for name in rates
        if name != baseline
    )
    return [each for each in found if each is not None]


def _merged(old: Sequence[Comparison], new: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """All comparisons of a candidate together, the pooled one last, as `compare` gives them."""
    every = [*old, *new]
    names = list(dict.fromkeys(each.candidate for each in every))
    return tuple(sorted(every, key=lambda each: (names.index(each.candidate), each.task == POOLED)))


def _record(model: str, task: str, judgement: Judgement) -> JudgementRecord:
    rates, made = judgement.rates, judgement.provenance
    if rates is None:
        raise ValueError("a judgement without a verdict has no rates")
    controlled = rates.length_controlled
    return JudgementRecord(
        model=model,
        task=task,
        reference=judgement.reference,
        judge=made.judge,
        url=made.url or "",
        prompt=f"{made.prompt} (SHA-256 {(made.prompt_sha256 or '')[:12]})",
        seed=made.seed or 0,
        documents=judgement.judged.documents,
        win_rate=rates.win_rate.percent / 100,
        win_rate_stderr=_fraction(rates.win_rate.stderr),
        lc_win_rate=_fraction(controlled.rate.percent) if controlled else None,
        lc_win_rate_stderr=_fraction(controlled.rate.stderr) if controlled else None,
        why_not=None if controlled else rates.why_not,
        mean_length=rates.mean_length,
        reference_mean_length=rates.reference_mean_length,
        price=made.costs.price if made.costs else None,
    )


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
