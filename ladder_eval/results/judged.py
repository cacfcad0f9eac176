"""Scores and comparisons of what a judge has compared with a reference, as AlpacaEval 2 does."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ladder_eval.results.length_controlled import LengthControlled
from ladder_eval.results.records import Comparison, Score

__all__ = ["LC_WIN_RATE", "METHOD", "WIN_RATE", "lc_comparison", "lc_score"]

WIN_RATE: Final = "win_rate"
"""The metric of the raw win rate, the mean of a document's preference minus 1."""

LC_WIN_RATE: Final = "lc_win_rate"
"""The metric of the length-controlled win rate, a fit to all documents."""

METHOD: Final = "bootstrap of documents, with the length-controlled fit repeated"


def lc_score(model: str, task: str, found: LengthControlled, documents: int) -> Score:
    """A model's length-controlled win rate, its interval the middle 95 % of draws."""
    low, high = _middle(found.draws, 0.95) if found.draws else (None, None)
    stderr = found.rate.stderr
    return Score(
        model=model,
        task=task,
        metric=LC_WIN_RATE,
        value=found.rate.percent / 100,
        n=documents,
        stderr=None if stderr is None else stderr / 100,
        low=low,
        high=high,
        method=METHOD if found.draws else "",
    )


def lc_comparison(
    names: tuple[str, str],
    task: str,
    found: tuple[LengthControlled, LengthControlled],
    preferences: tuple[Sequence[float], Sequence[float]],
    confidence: float = 0.95,
) -> Comparison | None:
    """A candidate against its baseline, each of which a judge compared with the same reference.

    The interval is that of the difference in each draw of documents, which both models share. None
    where there are no draws, as of the reference against itself.

    Args:
        names: Of candidate and baseline, as all pairs here.
        task: The task's name.
        found: Their rates.
        preferences: What the judge gave each document, in the same order for both.
        confidence: The interval's coverage.
    """
    own, theirs = found
    if not (own.draws and theirs.draws):
        return None
    differences = np.asarray(own.draws) - np.asarray(theirs.draws)
    low, high = _middle(differences.tolist(), confidence)
    ours, others = (np.asarray(each) for each in preferences)
    return Comparison(
        candidate=names[0],
        baseline=names[1],
        task=task,
        metric=LC_WIN_RATE,
        n=len(ours),
        baseline_value=theirs.rate.percent / 100,
        candidate_value=own.rate.percent / 100,
        difference=(own.rate.percent - theirs.rate.percent) / 100,
        low=low,
        high=high,
        confidence=confidence,
        gains=int((ours > others).sum()),
        losses=int((ours < others).sum()),
        method=METHOD,
        decided=not low <= 0 <= high,
    )


def _middle(percents: Sequence[float], confidence: float) -> tuple[float, float]:
    """The ends of the middle share of draws, as fractions."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(percents) / 100, [tail, 1 - tail])
    return float(low), float(high)
