"""The gate: whether a candidate is no worse than a margin, and as fast as it has to be.

Each of the two is a one-sided test, and GO needs both. Such an intersection of tests errs with at
most the level of one (Berger, Technometrics 24, 1982), so that nothing is corrected for there being
two.
"""

import math
import statistics
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ladder_eval.errors import RecordError, UsageError, brief
from ladder_eval.plain_json import parse_json
from ladder_eval.results.claims import LEVEL
from ladder_eval.results.decoding import decode
from ladder_eval.results.endpoint import Endpoint, Verdict, verdict_of
from ladder_eval.results.resampling import bootstrap_speedup
from ladder_eval.results.speed_records import Round
from ladder_eval.results.statistics import Interval

__all__ = ["EXIT_CODES", "FEWEST_ROUNDS", "SpeedAxis", "TimedRounds", "judged", "speed_axis"]

EXIT_CODES: Final = {"GO": 0, "NO-GO": 1, "INCONCLUSIVE": 3}
"""Exit code of a joint verdict; 2 is wrong input."""

FEWEST_ROUNDS: Final = 5
"""With fewer rounds, an interval of their ratio isn't to be relied on."""

ROUNDS_NAME: Final = "rounds.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedRounds:
    """The rounds of the last measurement of a run.

    Attributes:
        conditions: What was timed, where and how, as `rounds.jsonl` has it.
        rounds: Its rounds.
    """

    conditions: Mapping[str, Any]
    rounds: tuple[Round, ...]

    @classmethod
    def read(cls, folder: Path, candidate: str, baseline: str) -> "TimedRounds":
        """The last measurement in a run's folder of these two beside each other.

        A measurement that was broken off and begun again starts at round 1 again.

        Raises:
            UsageError: If the run has none.
            RecordError: If `rounds.jsonl` can't be read.
        """
        found: list[Round] = []
        conditions: Mapping[str, Any] = {}
        for line in _lines(folder / ROUNDS_NAME):
            own = {name: value for name, value in line.items() if name != "round"}
            each = cast("Round", decode(Round, line.get("round"), f"a round of {folder}"))
            if {candidate, baseline} <= {trial.arm for trial in each.trials}:
                found = [each] if own != conditions or each.number == 1 else [*found, each]
                conditions = own
        if not found:
            raise UsageError(
                f"{folder} has no rounds that time {candidate} beside {baseline}; run it without "
                "--no-speed."
            )
        return cls(conditions=conditions, rounds=tuple(found))

    def seconds(self, arm: str) -> npt.NDArray[np.float64]:
        """What a whole generation took an arm, its e2e latency, [rounds]."""
        trials = (next(t for t in each.trials if t.arm == arm) for each in self.rounds)
        return np.asarray([trial.ttft + math.fsum(trial.itl) for trial in trials])

    def has(self, arm: str) -> bool:
        """Whether every round timed an arm."""
        return all(arm in [trial.arm for trial in each.trials] for each in self.rounds)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedAxis:
    """The speed-up of a candidate, tested against the least that is wanted.

    Attributes:
        speedup: Geometric mean over rounds of baseline seconds / candidate seconds at equal work,
            prompt and output together.
        interval: The interval whose ends are each at the level; None with too few rounds, or where
            all are equal.
        median: The median over rounds, as the run's own report has of its phases.
        rounds: How many rounds.
        level: The one-sided level of either end.
        least: The wanted speed-up.
        verdict: PASS, FAIL or INCONCLUSIVE.
        control: The same of the baseline against itself (A/A), if that was timed, too.
        control_interval: Its interval.
        conditions: What was timed, where and how.
    """

    speedup: float
    interval: Interval | None
    median: float
    rounds: int
    level: float
    least: float
    verdict: Verdict
    control: float | None
    control_interval: Interval | None
    conditions: Mapping[str, Any]


def speed_axis(timed: TimedRounds, candidate: str, baseline: str, least: float) -> SpeedAxis:
    """The speed-up of a candidate by bootstrap over rounds, each a pair of trials.

    Args:
        timed: The rounds.
        candidate: The candidate's name.
        baseline: The baseline's name.
        least: The wanted speed-up.
    """
    theirs, own = timed.seconds(baseline), timed.seconds(candidate)
    speedup, interval = _ratio(theirs, own)
    again = f"{baseline} again"
    control = _ratio(theirs, timed.seconds(again)) if timed.has(again) else (None, None)
    return SpeedAxis(
        speedup=speedup,
        interval=interval,
        median=statistics.median((theirs / own).tolist()),
        rounds=len(own),
        level=LEVEL,
        least=least,
        verdict="INCONCLUSIVE" if interval is None else verdict_of(interval, least),
        control=control[0],
        control_interval=control[1],
        conditions=timed.conditions,
    )


def judged(accuracy: Endpoint | None, speed: SpeedAxis) -> str:
    """GO if both PASS, NO-GO if one is a FAIL, else INCONCLUSIVE.

    Raises:
        UsageError: If there's no endpoint.
    """
    if accuracy is None:
        raise UsageError("no task's metric is a fraction, so that no drop can be judged.")
    verdicts = {accuracy.verdict, speed.verdict}
    if "FAIL" in verdicts:
        return "NO-GO"
    return "GO" if verdicts == {"PASS"} else "INCONCLUSIVE"


def _ratio(
    theirs: npt.NDArray[np.float64], own: npt.NDArray[np.float64]
) -> tuple[float, Interval | None]:
    found = bootstrap_speedup(theirs, own, 1 - 2 * LEVEL) if len(own) >= FEWEST_ROUNDS else None
    return found or (math.exp(float(np.log(theirs / own).mean())), None)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """All whole lines; a run that was killed can leave a torn one."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
    except (OSError, ValueError) as error:
        raise RecordError(f"{file} can't be read ({brief(error)}); time the run again.") from None
    for line in lines:
        with suppress(ValueError):
            value = parse_json(line)
            if isinstance(value, dict):
                yield value
