"""From rounds to medians, ratios and shares, each with an interval over rounds."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ladder_eval.results.medians import median
from ladder_eval.results.speed_records import (
    PhaseRecord,
    Round,
    SpeedRow,
    Trial,
    Work,
)
from ladder_eval.results.utilisation import utilised

__all__ = ["BASELINE", "BOUND", "CANDIDATE", "CONTROL", "TimedArm", "median", "speed_rows"]

BASELINE, CANDIDATE, BOUND, CONTROL = "baseline", "candidate", "bound", "control"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedArm:
    """One of the things that a round times.

    Attributes:
        name: Its name.
        role: BASELINE, CANDIDATE, BOUND or CONTROL.
        residual: Its residual.
        ladder_layers: Its ladder layers.
    """

    name: str
    role: str
    residual: str
    ladder_layers: tuple[int, ...] = ()


def speed_rows(
    arms: Sequence[TimedArm],
    rounds: Sequence[Round],
    batch_size: int,
    *,
    communicates: bool = True,
    work: Work | None = None,
) -> tuple[SpeedRow, ...]:
    """What all rounds say of each arm.

    Args:
        arms: The arms, among them one baseline and one bound.
        rounds: The rounds, with a trial of each arm.
        batch_size: Rows of a generation.
        communicates: Whether there are ranks; without, nothing can be hidden or saved.
        work: What a generation asks of the ranks; None where it isn't known.
    """
    trials = {
        arm.name: [next(t for t in each.trials if t.arm == arm.name) for each in rounds]
        for arm in arms
    }
    baseline, bound = (next(a.name for a in arms if a.role == role) for role in (BASELINE, BOUND))
    shared = (trials, baseline, bound, communicates)
    prefill = _Phase(*shared, _ttft, lambda trial: trial.prefill_bound)
    decode = _Phase(*shared, _tpot, lambda trial: trial.decode_bound)
    total = _Phase(*shared, _e2e, lambda _: None)
    rows = (_row(arm, trials[arm.name], prefill, decode, total, batch_size) for arm in arms)
    return tuple(utilised(row, rounds, trials[row.arm], batch_size, work) for row in rows)


def _row(
    arm: TimedArm,
    trials: Sequence[Trial],
    prefill: "_Phase",
    decode: "_Phase",
    total: "_Phase",
    batch_size: int,
) -> SpeedRow:
    decodes = bool(trials[0].itl)
    tokens = batch_size * (len(trials[0].itl) + 1)
    return SpeedRow(
        arm=arm.name,
        role=arm.role,
        residual=arm.residual,
        ladder_layers=arm.ladder_layers,
        comm_name="hidden_comm" if arm.ladder_layers else "comm_saved",
        prefill=prefill.record(arm),
        decode=decode.record(arm) if decodes else None,
        total=total.record(arm),
        itl=median([statistics.median(trial.itl) for trial in trials]) if decodes else None,
        tokens_per_s=median([tokens / _e2e(trial) for trial in trials]),
    )


@dataclass(frozen=True, slots=True)
class _Phase:
    """A part of a generation, in the rounds of a measurement."""

    trials: Mapping[str, Sequence[Trial]]
    baseline: str
    bound: str
    communicates: bool
    seconds: Callable[[Trial], float]
    simulated: Callable[[Trial], float | None]

    def record(self, arm: TimedArm) -> PhaseRecord:
        own, base = self._times(arm.name), self._times(self.baseline)
        ratios = [b / o for b, o in zip(base, own, strict=True)]
        shares = self.communicates and arm.role == CANDIDATE
        comm = self._comm(arm.name) if shares else []
        bounds = [self.simulated(trial) for trial in self.trials[arm.name]]
        known = [bound for bound in bounds if bound is not None]
        complete = bool(comm) and len(known) == len(comm) and min(known) > 0
        return PhaseRecord(
            seconds=median(own),
            speedup=None if arm.role == BASELINE else median(ratios),
            comm=median(comm) if comm else None,
            bound=median(known) if complete else None,
            efficiency=median([c / k for c, k in zip(comm, known, strict=True)])
            if complete
            else None,
        )

    def _times(self, arm: str) -> list[float]:
        return [self.seconds(trial) for trial in self.trials[arm]]

    def _comm(self, arm: str) -> list[float]:
        """The share of exposed communication, by round; empty if noise is larger than all of it."""
        own, base, least = (self._times(name) for name in (arm, self.baseline, self.bound))
        exposed = [b - n for b, n in zip(base, least, strict=True)]
        if median(exposed).low <= 0:
            return []
        return [(b - o) / e for b, o, e in zip(base, own, exposed, strict=True)]


def _ttft(trial: Trial) -> float:
    return trial.ttft


def _tpot(trial: Trial) -> float:
    return statistics.fmean(trial.itl)


def _e2e(trial: Trial) -> float:
    return trial.ttft + sum(trial.itl)
