"""Answers in which the most likely choice is none: two or more have the same log-likelihood.

lm-eval then takes the first, so that such an answer is right or wrong by the order of its choices.
It happens with coarse number formats, and with models that have learned nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ladder_eval.errors import RecordError, brief
from ladder_eval.parquet import read_parquet

__all__ = ["Ties", "ties"]

_METRIC: Final = "acc"
"""The metric that takes the largest log-likelihood as it is."""

# As samples have it: [[-15.04, false], [-15.81, true]]
_CHOICES: Final = r"^\[\[-?[0-9]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ties:
    """How often one model's answer was left to the order of choices.

    Attributes:
        model: The model's name.
        task: The task's name.
        tied: Documents whose largest log-likelihood several choices have.
        documents: Documents with choices.
    """

    model: str
    task: str
    tied: int
    documents: int


def ties(file: Path) -> tuple[Ties, ...]:
    """Each model's ties in each task that is judged by the most likely choice, where it has any.

    Args:
        file: A run's samples; columns and answers are read as a whole, not document by document.

    Raises:
        RecordError: If the file can't be read.
    """
    wanted = (pc.field("metric") == _METRIC) & pc.field("is_headline")
    try:
        table = read_parquet(file, ("model", "task", "metric", "is_headline", "answers"))
        table = table.filter(wanted)
        table = table.filter(pc.match_substring_regex(table["answers"], _CHOICES))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise RecordError(f"{file} can't be read ({brief(error)}); restore it.") from None
    if not len(table):
        return ()
    frame = table.select(["model", "task"]).to_pandas()
    frame["tied"] = _tied(table["answers"])
    found = frame.groupby(["model", "task"], sort=False)["tied"].agg(["sum", "size"])
    return tuple(
        Ties(model=str(model), task=str(task), tied=int(row["sum"]), documents=int(row["size"]))
        for (model, task), row in found.iterrows()
        if row["sum"]
    )


def _tied(answers: Any) -> npt.NDArray[np.bool_]:
    """Of each answer, whether its largest log-likelihood occurs more than once, [documents]."""
    plain = answers
    for word, by in (("true", ""), ("false", ""), (", ], [", ","), ("[[", ""), (", ]]", ",")):
        plain = pc.replace_substring(plain, word, by)  # one number and one comma a choice
    counts = np.asarray(pc.count_substring(plain, ","))
    values = np.fromstring("".join(plain.to_pylist()), sep=",")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    largest = np.repeat(np.maximum.reduceat(values, starts), counts)
    return np.asarray(np.add.reduceat((values == largest).astype(np.int64), starts) > 1)
