"""Answers that a finished run lends to another: the same baseline is scored once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import UsageError
from ladder_eval.results.records import ModelRecord
from ladder_eval.results.requests import Answer, read_answers
from ladder_eval.results.store import read_result, requests_file

__all__ = ["Lent", "lend"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lent:
    """Recorded answers of a model of another run.

    Attributes:
        run: That run's folder.
        model: How it ran the model.
        answers: Its answers by request key, which holds all that an answer depends on.
    """

    run: Path
    model: ModelRecord
    answers: Mapping[str, Answer]


def lend(run: Path, fingerprint: str, dtype: str) -> Lent:
    """What a finished run has answered by the same model in the same dtype; nothing is written.

    Raises:
        UsageError: If it has no such model.
        RecordError: If the run isn't finished, or can't be read.
    """
    folder = run if run.is_dir() else run.parent
    models = read_result(run).models
    for model in models:
        if (model.fingerprint, model.dtype) == (fingerprint, dtype):
            answers = read_answers(requests_file(folder, model.name))
            return Lent(run=folder, model=model, answers=answers)
    names = ", ".join(f"{model.name} in {model.dtype}" for model in models)
    raise UsageError(
        f"--baseline-run {run} has no answers of this baseline's weights in {dtype}, but of "
        f"{names or 'no model'}; give a run that scored it, or leave the option out."
    )
