"""From samples, one row a model and document, to scores and comparisons."""

import json

import pandas as pd

from ladder_eval.results.pairing import compare, pair
from ladder_eval.results.records import Comparison, Score
from ladder_eval.results.statistics import mean_stderr
from ladder_eval.results.store import samples_of

__all__ = ["comparisons", "scores"]


def scores(samples: pd.DataFrame) -> tuple[Score, ...]:
    """Every metric of every model on every task, as a mean over documents."""
    return tuple(
        _score(str(model), str(task), str(name), values.astype(float).tolist())
        for (model, task), rows in samples.groupby(["model", "task"], sort=False)
        for name, values in pd.DataFrame([json.loads(text) for text in rows["metrics"]]).items()
    )


def comparisons(baseline: str | None, samples: pd.DataFrame) -> tuple[Comparison, ...]:
    """Every other model against the baseline, if there is one.

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


def _score(model: str, task: str, metric: str, values: list[float]) -> Score:
    return Score(
        model=model,
        task=task,
        metric=metric,
        value=sum(values) / len(values),
        n=len(values),
        stderr=mean_stderr(values),
    )
