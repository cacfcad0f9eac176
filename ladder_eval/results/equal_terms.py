"""Accuracy at equal latency, and latency at equal accuracy, of the models of one run.

Within a family, the curve through its points says what accuracy it has at round speed-ups, and how
fast it may become until it loses so many points. Between families, each model is held against the
other family's curve at the model's own latency, and at its own accuracy.

All of it needs what was measured together: at least three points of a family, the baseline among
them, timed in the same rounds and asked the same documents. Where that isn't so, or a point lies
beyond what the family was measured at, nothing is computed, and the reason is given.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ladder_eval.errors import LadderEvalError
from ladder_eval.results.curves import (
    Curve,
    Reading,
    difference_draws,
    read,
    speedup_draws,
)
from ladder_eval.results.gate import FEWEST_ROUNDS, TimedRounds
from ladder_eval.results.pairing import Pair, pair
from ladder_eval.results.samples import samples_of
from ladder_eval.results.speed_records import MEASURED, Trial
from ladder_eval.results.store import read_samples
from ladder_eval.results.tradeoff import DECODE, Point, Tradeoff

__all__ = ["DROPS", "AtDrop", "AtSpeed", "EqualTerms", "Family", "Versus", "equal_terms"]

DROPS: Final = (0.005, 0.01, 0.02, 0.05)
"""Losses of accuracy, fractions, at which a family's speed-up is read."""

FEWEST_POINTS: Final = 3
"""Points of a family, with its baseline, below which there's no curve to speak of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AtSpeed:
    """What a family loses at a speed-up.

    Attributes:
        speedup: Over the baseline.
        seconds: The phase's seconds there.
        difference: The mean difference from the baseline there.
    """

    speedup: float
    seconds: float
    difference: Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class AtDrop:
    """How fast a family may become until it has lost so much.

    Attributes:
        drop: The loss, a fraction above zero.
        speedup: The speed-up at which the curve first falls by it; None if it never does.
    """

    drop: float
    speedup: Reading | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A family's curve, read at round numbers.

    Attributes:
        name: The kind of residual, and how weights were adapted to it.
        arms: Its points, the baseline first.
        at_speeds: What it loses, by speed-up.
        at_drops: How fast it becomes, by loss.
        reason: Why nothing is computed; "" where something is.
    """

    name: str
    arms: tuple[str, ...]
    at_speeds: tuple[AtSpeed, ...] = ()
    at_drops: tuple[AtDrop, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Versus:
    """Another family beside a model.

    Attributes:
        arm: The model.
        family: The other family's name.
        difference: The family's accuracy minus the model's, at the model's latency; None where the
            family wasn't measured there.
        speedup: The model's seconds by the family's, at the model's accuracy; None likewise.
    """

    arm: str
    family: str
    difference: Reading | None
    speedup: Reading | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualTerms:
    """What can be said at equal latency or accuracy.

    Attributes:
        tradeoff: The points that it is about.
        families: Each family.
        versus: Each model beside each other family that has a curve.
    """

    tradeoff: Tradeoff
    families: tuple[Family, ...]
    versus: tuple[Versus, ...]


def equal_terms(tradeoff: Tradeoff, folder: Path) -> EqualTerms:
    """Read every family of a trade-off; what can't be computed says why.

    Args:
        tradeoff: One of `tradeoffs`.
        folder: The folder of its run, with samples and rounds.
    """
    groups = _families(tradeoff.points)
    long = {name: arms for name, arms in groups.items() if len(arms) >= FEWEST_POINTS}
    curve: Curve | str = _few(tradeoff.points) if not long else _curve(tradeoff, folder)
    if isinstance(curve, str):
        families = [Family(name=name, arms=arms, reason=curve) for name, arms in groups.items()]
        return EqualTerms(tradeoff=tradeoff, families=tuple(families), versus=())
    seconds = tradeoff.points[0].seconds.value
    return EqualTerms(
        tradeoff=tradeoff,
        families=tuple(
            _family(name, curve.of(arms), seconds)
            if name in long
            else Family(name=name, arms=arms, reason=_few(arms))
            for name, arms in groups.items()
        ),
        versus=tuple(_versus(tradeoff.points, curve, long)),
    )


def _families(points: Sequence[Point]) -> dict[str, tuple[str, ...]]:
    """Names of each family's points, the baseline first."""
    baseline, *candidates = points
    names = dict.fromkeys(point.family for point in candidates)
    return {
        name: (baseline.arm, *(point.arm for point in candidates if point.family == name))
        for name in names
    }


def _few(points: Sequence[object]) -> str:
    return (
        f"not computable from {len(points)} points: a curve needs at least {FEWEST_POINTS} of one "
        "family, the baseline among them"
    )


def _curve(tradeoff: Tradeoff, folder: Path) -> Curve | str:
    """All points with their draws, or why there are none."""
    record, points = tradeoff.record, tradeoff.points
    if record.kind != MEASURED:
        return f"not computable: these times are {record.kind}, and a curve needs measured ones"
    if record.rounds < FEWEST_ROUNDS:
        return f"not computable from {record.rounds} rounds: at least {FEWEST_ROUNDS} are needed"
    if len({point.tasks for point in points[1:]}) > 1:
        return "not computable: the models weren't compared on the same tasks"
    try:
        pairs, seconds = _pairs(points, folder), _seconds(tradeoff, folder)
    except LadderEvalError as error:
        return f"not computable: {error}"
    return _drawn(points, pairs, seconds)


def _drawn(
    points: Sequence[Point], pairs: Sequence[Sequence[Pair]], seconds: npt.NDArray[np.float64]
) -> Curve | str:
    """The curve, if it goes through the points that the result records."""
    if not all([each.doc_hash for each in one] == [p.doc_hash for p in pairs[0]] for one in pairs):
        return "not computable: the models weren't asked the same documents"
    curve = Curve(
        arms=tuple(point.arm for point in points),
        speedups=speedup_draws(seconds[:, 0], seconds[:, 1:]),
        differences=difference_draws(pairs),
    )
    recorded = [[point.speedup for point in points], [point.difference for point in points]]
    if not np.allclose([curve.speedups[0], curve.differences[0]], recorded, rtol=1e-6, atol=1e-9):
        return "not computable: the run's rounds or samples aren't those of its result"
    return curve


def _pairs(points: Sequence[Point], folder: Path) -> list[list[Pair]]:
    """Each candidate's pairs in the tasks of the mean, in the baseline's order."""
    samples = read_samples(folder)
    baseline, *candidates = points
    theirs = samples_of(samples, baseline.arm)
    return [
        [each for each in pair(samples_of(samples, one.arm), theirs) if each.task in one.tasks]
        for one in candidates
    ]


def _seconds(tradeoff: Tradeoff, folder: Path) -> npt.NDArray[np.float64]:
    """Seconds of the phase, [rounds, arms]."""
    arms = [point.arm for point in tradeoff.points]
    timed = TimedRounds.read(folder, arms[1], arms[0])
    trials = [{trial.arm: trial for trial in each.trials} for each in timed.rounds]
    decodes = tradeoff.phase == DECODE
    complete = [each for each in trials if set(arms) <= set(each)]
    return np.asarray([[_of(each[arm], decodes) for arm in arms] for each in complete])


def _of(trial: Trial, decodes: bool) -> float:
    return statistics.fmean(trial.itl) if decodes else trial.ttft


def _family(name: str, curve: Curve, seconds: float) -> Family:
    rows = len(curve.speedups)
    at_drops = [
        AtDrop(drop=drop, speedup=read(curve.speedups_at([-drop] * rows))) for drop in DROPS
    ]
    found = (
        (speedup, read(curve.differences_at([speedup] * rows)))
        for speedup in _round_speedups(curve.speedups[0])
    )
    return Family(
        name=name,
        arms=curve.arms,
        at_speeds=tuple(
            AtSpeed(speedup=speedup, seconds=seconds / speedup, difference=difference)
            for speedup, difference in found
            if difference is not None
        ),
        at_drops=tuple(at_drops),
    )


def _round_speedups(speedups: npt.NDArray[np.float64]) -> list[float]:
    """Up to five round speed-ups above 1 within the range of the measured ones."""
    fastest = float(speedups.max())
    room = fastest - 1
    if room <= 0:
        return []
    unit = 10.0 ** math.floor(math.log10(room / 5))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= room / 5)
    return [1 + step * number for number in range(1, int(room / step) + 1)]


def _versus(
    points: Sequence[Point], curve: Curve, families: dict[str, tuple[str, ...]]
) -> Iterator[Versus]:
    for point in points[1:]:
        column = curve.arms.index(point.arm)
        speedups, differences = curve.speedups[:, column], curve.differences[:, column]
        for name, arms in families.items():
            if name == point.family:
                continue
            other = curve.of(arms)
            there = np.asarray(other.differences_at(speedups.tolist())) - differences
            faster = np.asarray(other.speedups_at(differences.tolist())) / speedups
            yield Versus(
                arm=point.arm,
                family=name,
                difference=read(there.tolist()),
                speedup=read(faster.tolist()),
            )
