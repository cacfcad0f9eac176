"""One side of a comparison across runs: a model of a finished run, as `RUN` or `RUN:MODEL`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import UsageError
from ladder_eval.results.records import ModelRecord, RunResult
from ladder_eval.results.samples import Sample, samples_of
from ladder_eval.results.store import read_result, read_samples

__all__ = ["Side", "baseline_side", "candidate_side"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A model of a finished run.

    Attributes:
        folder: The run's folder.
        result: The run's result.
        model: How the model was run.
        samples: Its answers after the headline filters.
    """

    folder: Path
    result: RunResult
    model: ModelRecord
    samples: tuple[Sample, ...]

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name


def candidate_side(text: str) -> Side:
    """The named model of a run, or the only one beside its baseline.

    Raises:
        UsageError: If there are several, or none of that name.
        RecordError: If the run isn't finished, or can't be read.
    """
    folder, name, result = _read(text)
    names = [model.name for model in result.models]
    others = [each for each in names if each != result.baseline]
    return _side(folder, result, name, others if len(others) == 1 else names)


def baseline_side(text: str) -> Side:
    """The named model of a run, or the run's baseline, or its only model.

    Raises:
        UsageError: As `candidate_side`.
        RecordError: As `candidate_side`.
    """
    folder, name, result = _read(text)
    names = [model.name for model in result.models]
    return _side(folder, result, name, [result.baseline] if result.baseline in names else names)


def _read(text: str) -> tuple[Path, str | None, RunResult]:
    folder, name = Path(text), None
    if not folder.exists() and ":" in text:  # a path may hold a colon, too
        run, _, name = text.rpartition(":")
        folder = Path(run)
    if not folder.exists():
        raise UsageError(f"{folder} doesn't exist; give a finished run's folder.")
    return folder, name, read_result(folder)


def _side(
    folder: Path, result: RunResult, name: str | None, candidates: Sequence[str | None]
) -> Side:
    """The model called `name`, or the only one of `candidates`."""
    models = {model.name: model for model in result.models}
    if not models:
        raise UsageError(f"{folder} holds times, but no scores; give a run that scored models.")
    chosen = name if name is not None or len(candidates) != 1 else candidates[0]
    if chosen not in models:
        problem = "has several models" if name is None else f"has no model {name!r}"
        raise UsageError(f"{folder} {problem}; choose as {folder}:MODEL among {', '.join(models)}.")
    home = folder if folder.is_dir() else folder.parent
    samples = tuple(samples_of(read_samples(home), chosen))
    return Side(folder=home, result=result, model=models[chosen], samples=samples)
