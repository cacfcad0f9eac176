"""Accuracy against speed: the models of a run as points, and those that no other one dominates.

A point is a candidate's mean difference from its baseline and its speed-up over it, both as the
run recorded them. The baseline itself is the point of no difference and speed-up 1. Points share a
`Tradeoff` only if they were timed in the same rounds, so that measured and emulated times, or two
settings, never meet in one front.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ladder_eval.results.mean_difference import mean_difference
from ladder_eval.results.records import UNKNOWN, RunResult
from ladder_eval.results.speed import BASELINE, CANDIDATE
from ladder_eval.results.speed_records import Estimate, PhaseRecord, SpeedRecord, SpeedRow
from ladder_eval.results.statistics import Interval

__all__ = ["DECODE", "PREFILL", "Point", "Tradeoff", "front", "phase_of", "tradeoffs"]

DECODE: Final = "decode"
PREFILL: Final = "prefill"

_LADDERS: Final = ("ladder", "hybrid ladder")


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A model in the plane of speed and accuracy.

    Attributes:
        arm: The model's name.
        role: BASELINE or CANDIDATE.
        family: What it is one of several of: the same kind of residual, adapted in the same way.
        adaptation: How its weights came to fit its residual.
        difference: Mean difference from the baseline over tasks, a fraction; 0 of the baseline.
        accuracy: Its interval, by square-and-add; None of the baseline.
        tasks: Tasks that the difference is the mean of; empty of the baseline.
        speedup: The baseline's seconds by its own, in the same rounds; 1 of the baseline.
        speed: The speed-up's interval; None of the baseline.
        seconds: Of the phase: tpot, or ttft where nothing is decoded.
        tokens_per_s: Tokens of all rows by e2e latency.
    """

    arm: str
    role: str
    family: str
    adaptation: str
    difference: float
    accuracy: Interval | None
    tasks: tuple[str, ...]
    speedup: float
    speed: Estimate | None
    seconds: Estimate
    tokens_per_s: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Tradeoff:
    """Models that were timed in the same rounds.

    Attributes:
        run_id: The run.
        record: Their times, and under which conditions.
        phase: DECODE, or PREFILL where nothing is decoded.
        points: The baseline first, then the candidates that have both a difference and a time.
        missing: Names of candidates that have only one of the two.
    """

    run_id: str
    record: SpeedRecord
    phase: str
    points: tuple[Point, ...]
    missing: tuple[str, ...]


def tradeoffs(result: RunResult) -> tuple[Tradeoff, ...]:
    """A trade-off for each measurement that timed a compared candidate beside its baseline."""
    found = (_tradeoff(result, record) for record in result.speed)
    return tuple(each for each in found if len(each.points) > 1)


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """The Pareto front, from the slowest to the fastest: points that no other one dominates.

    A point dominates another one if it is at least as fast and at least as accurate, and one of the
    two more so. Equal points don't dominate each other. It is of the estimates alone: neighbours
    whose intervals overlap may well be in the other order.
    """
    kept = [each for each in points if not any(_dominates(other, each) for other in points)]
    return tuple(sorted(kept, key=lambda each: each.speedup))


def phase_of(row: SpeedRow) -> PhaseRecord:
    """Decoding, or prefill where nothing is decoded."""
    return row.decode or row.prefill


def _dominates(one: Point, other: Point) -> bool:
    ours, theirs = (one.speedup, one.difference), (other.speedup, other.difference)
    return ours != theirs and all(a >= b for a, b in zip(ours, theirs, strict=True))


def _tradeoff(result: RunResult, record: SpeedRecord) -> Tradeoff:
    rows = [row for row in record.rows if row.role in (BASELINE, CANDIDATE)]
    base = [_baseline(row) for row in rows if row.arm == result.baseline]
    found = [point for row in rows for point in _candidate(result, row)] if base else []
    compared = {each.candidate for each in result.comparisons}
    timed = {row.arm for row in rows if row.role == CANDIDATE}
    drawn = {point.arm for point in found}
    return Tradeoff(
        run_id=result.run_id,
        record=record,
        phase=DECODE if record.workload.output_len > 1 else PREFILL,
        points=(*base, *found),
        missing=tuple(sorted((compared | timed) - drawn)),
    )


def _baseline(row: SpeedRow) -> Point:
    return Point(
        arm=row.arm,
        role=BASELINE,
        family="",
        adaptation="",
        difference=0.0,
        accuracy=None,
        tasks=(),
        speedup=1.0,
        speed=None,
        seconds=phase_of(row).seconds,
        tokens_per_s=row.tokens_per_s,
    )


def _candidate(result: RunResult, row: SpeedRow) -> Iterator[Point]:
    """The row's point; nothing for the baseline, and where accuracy or speed-up is unknown."""
    phase, found = phase_of(row), mean_difference(result, row.arm)
    if found is None or phase.speedup is None:
        return
    models = {model.name: model for model in result.models}
    adaptation = models[row.arm].adaptation if row.arm in models else UNKNOWN
    yield Point(
        arm=row.arm,
        role=CANDIDATE,
        family=f"{_kind(row.residual)}, {adaptation}",
        adaptation=adaptation,
        difference=found.difference,
        accuracy=found.interval,
        tasks=found.tasks,
        speedup=phase.speedup.value,
        speed=phase.speedup,
        seconds=phase.seconds,
        tokens_per_s=row.tokens_per_s,
    )


def _kind(residual: str) -> str:
    """Ladders of any depth are of one kind, and so is desync of any period."""
    if residual in _LADDERS:
        return "ladder"
    return residual.partition("-")[0] if residual.startswith("desync-") else residual
