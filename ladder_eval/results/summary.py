"""From samples, one row a model, document and filter, to scores and comparisons."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pandas as pd

from ladder_eval.results.estimates import Estimate, estimate, mean_of_strata
from ladder_eval.results.metrics import Term, is_fraction, term
from ladder_eval.results.pairing import compare, pair
from ladder_eval.results.records import Comparison, Score
from ladder_eval.results.samples import samples_of

__all__ = ["CATEGORY", "MACRO", "SUBJECT", "comparisons", "scores"]

SUBJECT: Final = "subject "
"""What `Score.part` begins with for the score of one subject."""

CATEGORY: Final = "category "
"""What `Score.part` begins with for all documents of one category of subjects."""

MACRO: Final = "macro"
"""`Score.part` of the mean over subjects."""


def scores(samples: pd.DataFrame) -> tuple[Score, ...]:
    """Every metric of every model on every task, after every filter, of the whole and of parts.

    `n` counts the documents that have a value of the metric: filters are different readings of the
    same documents, and a metric may leave documents out. The parts of a task are its subjects,
    their categories and the mean of its subjects.
    """
    return tuple(
        score
        for (model, task, kind), rows in samples.groupby(["model", "task", "filter"], sort=False)
        for score in _scores(str(model), str(task), str(kind), rows)
    )


def comparisons(baseline: str | None, samples: pd.DataFrame) -> tuple[Comparison, ...]:
    """Every other model against the baseline, if there is one, after the headline filters.

    Raises:
        PairingError: if two models were not asked the same.
    """
    if baseline is None:
        return ()
    theirs = samples_of(samples, baseline)
    return tuple(
        comparison
        for model in samples["model"].unique()
        if model != baseline
        for comparison in compare(str(model), baseline, pair(samples_of(samples, model), theirs))
    )


def _scores(model: str, task: str, kind: str, rows: pd.DataFrame) -> Iterator[Score]:
    measured = [json.loads(text) for text in rows["metrics"]]
    for metric in dict.fromkeys(name for each in measured for name in each):
        terms = [term(metric, each[metric]) if metric in each else None for each in measured]
        for part, found in _estimates(task, metric, terms, rows):
            interval = found.interval
            yield Score(
                model=model,
                task=task,
                metric=metric,
                value=found.value,
                n=found.n,
                stderr=found.stderr,
                filter=kind,
                part=part,
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                method=interval.method if interval else "",
            )


def _estimates(
    task: str, metric: str, terms: Sequence[Term | None], rows: pd.DataFrame
) -> Iterator[tuple[str, Estimate]]:
    """The metric of the whole, then of its parts, if it has several."""
    whole = [each for each in terms if each is not None and each.weight]
    if not whole:
        return
    yield "", estimate(metric, whole)
    subjects = _grouped(terms, rows["group"])
    if not subjects:
        return
    each_subject = {name: estimate(metric, own) for name, own in subjects.items()}
    if is_fraction(metric):
        yield MACRO, mean_of_strata(list(each_subject.values()))
    for name, own in _grouped(terms, rows["category"]).items():
        yield f"{CATEGORY}{name}", estimate(metric, own)
    for name, found in each_subject.items():
        yield f"{SUBJECT}{name.removeprefix(f'{task}_')}", found


def _grouped(terms: Sequence[Term | None], names: Iterable[object]) -> dict[str, list[Term]]:
    found: dict[str, list[Term]] = {}
    for name, each in zip(names, terms, strict=True):
        if each is not None and each.weight and isinstance(name, str):
            found.setdefault(name, []).append(each)
    return found
