"""The baseline against itself, where another run on the page has it as well, run otherwise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ladder_eval.errors import PairingError
from ladder_eval.report.claims import control_sentence
from ladder_eval.report.page.content import Run
from ladder_eval.results.compared import Control, controlled, run_otherwise
from ladder_eval.results.records import ModelRecord
from ladder_eval.results.sides import Side, baseline_side

__all__ = ["BaselineControl", "controls"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineControl:
    """A run's baseline against itself.

    Attributes:
        run_id: The run.
        baseline: Its baseline.
        control: What changed though nothing should.
    """

    run_id: str
    baseline: str
    control: Control

    @property
    def sentence(self) -> str:
        """What a reader is told of it."""
        return control_sentence(self.baseline, self.control)

    @property
    def is_out_of_bounds(self) -> bool:
        """Whether the interval of the mean difference excludes zero."""
        found = self.control.endpoint
        return found is not None and not found.interval.low <= 0 <= found.interval.high


def controls(runs: Sequence[Run]) -> tuple[BaselineControl, ...]:
    """For each run the first other run that has its baseline at another batch size or tp_size.

    Raises:
        RecordError: If samples can't be read.
    """
    return tuple(found for run in runs for found in _of(run, runs))


def _of(run: Run, runs: Sequence[Run]) -> Iterator[BaselineControl]:
    own = next((m for m in run.result.models if m.name == run.result.baseline), None)
    if own is None:
        return
    for other in runs:
        for model in other.result.models:
            if not _is_same(model, own) or not run_otherwise(model, own):
                continue
            try:
                control = controlled(_side(other, model), _side(run, own))
            except PairingError:  # the other run asked something else
                continue
            yield BaselineControl(run_id=run.result.run_id, baseline=own.name, control=control)
            return


def _side(run: Run, model: ModelRecord) -> Side:
    return baseline_side(f"{run.folder}:{model.name}")


def _is_same(model: ModelRecord, other: ModelRecord) -> bool:
    return (model.fingerprint, model.dtype) == (other.fingerprint, other.dtype)
