"""Judging as a job: a run's outputs before a judge, and what that makes of the run's result."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    task, old = waiting.task.task, _earlier_samples(folder.path)
    rates = _controlled(judged)
    metric = LC_WIN_RATE if rates else WIN_RATE
    rows = pd.DataFrame(
        [row for model in judged for row in _rows(waiting, model, is_headline=not rates)],
        columns=list(SAMPLE_COLUMNS),
    )
    kept = rows if old is None else pd.concat([old[old["task"] != task], rows], ignore_index=True)
    compared = (
        _compared(result.baseline, task, rates, rows)
        if rates
        else [each for each in comparisons(result.baseline, rows) if each.task == task]
    )
    record = replace(waiting.task, metric=metric)
    documents = record.documents
    found = replace(
        result,
        tasks=(*(each for each in result.tasks if each.task != task), record),
        scores=(
            *(each for each in result.scores if each.task != task),
            *scores(rows),
            *(lc_score(model, task, rate, documents) for model, rate in rates.items()),
        ),
        comparisons=_merged(result.comparisons, task, compared),
        pending_tasks=tuple(name for name in result.pending_tasks if name != task),
        judgements=(
            *(each for each in result.judgements if each.task != task),
            *(_record(model, task, each) for model, each in judged.items()),
        ),
    )
    folder.write_samples(kept)
    write_pages(folder, found)
    return found


def _earlier_samples(run: Path) -> pd.DataFrame | None:
    try:
        return read_samples(run)
    except RecordError:  # a run of nothing but this task
        return None


def _controlled(judged: Mapping[str, Judgement]) -> dict[str, LengthControlled]:
    """Each model's length-controlled rate; empty if one has none."""
    rates = {model: each.rates.length_controlled for model, each in judged.items() if each.rates}
    found = {model: rate for model, rate in rates.items() if rate is not None}
    return found if len(found) == len(judged) else {}


def _rows(waiting: Waiting, model: str, *, is_headline: bool) -> Iterator[dict[str, Any]]:
    """The model's rows of `samples.parquet`."""
    verdicts = read_annotations(waiting.of(model) / job.ANNOTATIONS_NAME, None)
    won = {row.instruction: (row.preference or 1.5) - 1 for row in verdicts.rows}
    for row in waiting.rows(model):
        value = won[row["instruction"]]
        yield {
            "model": model,
            "task": waiting.task.task,
            "group": None,
            "category": None,
            "is_headline": is_headline,
            "metric": WIN_RATE,
            "value": value,
            "weight": 1.0,
            "metrics": json.dumps({WIN_RATE: value}),
            **row["sample"],
        }


def _compared(
    baseline: str | None, task: str, rates: Mapping[str, LengthControlled], rows: pd.DataFrame
) -> list[Comparison]:
    """Each candidate's length-controlled rate against the baseline's."""
    if baseline is None:
        return []
    values = {name: own["value"].tolist() for name, own in rows.groupby("model", sort=False)}
    found = (
        lc_comparison(
            (name, baseline),
            task,
            (rates[name], rates[baseline]),
            (values[name], values[baseline]),
        )
        for name in rates
        if name != baseline
    )
    return [each for each in found if each is not None]


def _merged(
    old: Sequence[Comparison], task: str, new: Sequence[Comparison]
) -> tuple[Comparison, ...]:
    """All comparisons of a candidate together, the pooled one last, as `compare` gives them."""
    every = [*(each for each in old if each.task != task), *new]
    names = dict.fromkeys(each.candidate for each in every)
    return tuple(
        sorted(every, key=lambda each: (list(names).index(each.candidate), each.task == POOLED))
    )


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
