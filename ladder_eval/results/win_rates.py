"""How often a judge prefers a model's outputs to a reference's, as AlpacaEval 2 counts it.

A *preference* is 1 where the reference is surely better and 2 where the model is, as in
AlpacaEval's files of annotations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ladder_eval.results.means import mean_stderr

__all__ = ["Rate", "probabilities", "win_rate"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A rate and how far another draw of documents may lie from it.

    Attributes:
        percent: The rate.
        stderr: Its standard error in points; None where there is no spread to estimate it from.
    """

    percent: float
    stderr: float | None


def probabilities(preferences: Sequence[float]) -> Floats:
    """What the judge gave the model, from 0 to 1.

    A preference of 0 is a draw in AlpacaEval's oldest annotations, and counts as 1.5.

    Raises:
        ValueError: Without preferences, or with one that is neither 0 nor from 1 to 2.
    """
    given = np.asarray(preferences, dtype=np.float64)
    given = np.where(given == 0, 1.5, given)
    if not len(given) or not np.all((given >= 1) & (given <= 2)):  # NaN fails, too
        raise ValueError("preferences lie between 1 and 2, and there must be at least one")
    return given - 1


def win_rate(preferences: Sequence[float]) -> Rate:
    """The raw win rate, 100 mean(preference - 1), with s / sqrt(n) over documents.

    Raises:
        ValueError: As for `probabilities`.
    """
    won = probabilities(preferences)
    stderr = mean_stderr(won.tolist())
    return Rate(percent=100 * float(won.mean()), stderr=None if stderr is None else 100 * stderr)
