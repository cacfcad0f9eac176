"""Speed-ups over rounds, and the joint verdict."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from run_folders import timed
from scipy import stats

from ladder_eval.errors import UsageError
from ladder_eval.results.endpoint import Endpoint
from ladder_eval.results.gate import TimedRounds, judged, speed_axis
from ladder_eval.results.resampling import bootstrap_speedup
from ladder_eval.results.statistics import Interval


def write(folder, *measurements):
    lines = [json.dumps(line) for lines in measurements for line in lines]
    (folder / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def lines(speedups, **changes):
    return timed(speedups, candidate="ladder", baseline="dense", **changes)


def test_speedup_is_the_geometric_mean_over_rounds(tmp_path):
    read = TimedRounds.read(write(tmp_path, lines([1.2, 1.3, 1.4] * 3)), "ladder", "dense")
    found = speed_axis(read, "ladder", "dense", 1.2)
    baseline, candidate = read.seconds("dense"), read.seconds("ladder")
    assert found.speedup == pytest.approx(stats.gmean(baseline / candidate))
    assert found.median == pytest.approx(np.median(baseline / candidate))
    assert found.rounds == 9
    assert found.control == pytest.approx(1.0, abs=0.01)
    assert found.control_interval.low < found.control < found.control_interval.high


def test_an_interval_is_no_narrower_than_scipys_t():
    rng = np.random.default_rng(0)
    baseline, candidate = np.exp(0.05 * rng.normal(size=(2, 9)))
    value, found = bootstrap_speedup(baseline, candidate, 0.9)
    x = np.log(baseline / candidate)
    low, high = stats.t.interval(0.9, 8, loc=x.mean(), scale=stats.sem(x))
    assert math.log(value) == pytest.approx(x.mean())
    assert math.log(found.low) <= low + 1e-12
    assert math.log(found.high) >= high - 1e-12
    assert math.log(found.high / found.low) < 2 * (high - low)


def test_rounds_that_agree_but_for_one_are_no_certainty():
    _, found = bootstrap_speedup(np.array([2.0, 2.0, 2.0, 2.0, 2.2]), np.ones(5), 0.9)
    assert found.low < 2.0
    assert 2.2 < found.high < 1e9


def test_no_spread_no_interval():
    assert bootstrap_speedup(np.full(9, 2.0), np.ones(9)) is None
    assert bootstrap_speedup(np.ones(1), np.ones(1)) is None


@pytest.mark.parametrize(
    ("speedup", "verdict"), [(1.4, "PASS"), (1.0, "FAIL"), (1.2, "INCONCLUSIVE")]
)
def test_verdicts_on_speed(tmp_path, speedup, verdict):
    read = TimedRounds.read(write(tmp_path, lines([speedup] * 9)), "ladder", "dense")
    assert speed_axis(read, "ladder", "dense", 1.2).verdict == verdict


def test_few_rounds_decide_nothing(tmp_path):
    read = TimedRounds.read(write(tmp_path, lines([2.0] * 4)), "ladder", "dense")
    found = speed_axis(read, "ladder", "dense", 1.2)
    assert (found.verdict, found.interval) == ("INCONCLUSIVE", None)


def test_the_last_measurement_counts(tmp_path):
    folder = write(tmp_path, lines([1.0] * 3), lines([1.5] * 6))
    assert len(TimedRounds.read(folder, "ladder", "dense").rounds) == 6
    folder = write(tmp_path, lines([1.0] * 6), lines([1.5] * 5, output_len=32))
    assert TimedRounds.read(folder, "ladder", "dense").conditions["workload"]["output_len"] == 32


def test_a_torn_line_is_passed_over(tmp_path):
    write(tmp_path, lines([1.5] * 6))
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"model": "lad')
    assert len(TimedRounds.read(tmp_path, "ladder", "dense").rounds) == 6


def test_a_line_that_is_nested_too_deeply_is_passed_over(tmp_path):
    write(tmp_path, lines([1.5] * 6))
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write("[" * 10**5 + "\n")
    assert len(TimedRounds.read(tmp_path, "ladder", "dense").rounds) == 6


def test_runs_without_these_rounds_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no rounds that time ladder beside dense"):
        TimedRounds.read(tmp_path, "ladder", "dense")
    with pytest.raises(UsageError, match="no rounds that time other beside dense"):
        TimedRounds.read(write(tmp_path, lines([1.5] * 6)), "other", "dense")


def endpoint(verdict):
    none = Interval(low=0.0, high=0.0, method="")
    return Endpoint(
        tasks=("arc",),
        difference=0.0,
        stderr=0.01,
        interval=none,
        micro=0.0,
        micro_interval=none,
        level=0.05,
        margin=0.01,
        verdict=verdict,
        detectable=0.01,
        needed=None,
        needed_documents=None,
    )


@pytest.mark.parametrize(
    ("accuracy", "speed", "verdict"),
    [
        ("PASS", "PASS", "GO"),
        ("PASS", "FAIL", "NO-GO"),
        ("FAIL", "INCONCLUSIVE", "NO-GO"),
        ("INCONCLUSIVE", "PASS", "INCONCLUSIVE"),
        ("PASS", "INCONCLUSIVE", "INCONCLUSIVE"),
    ],
)
def test_go_needs_both(tmp_path, accuracy, speed, verdict):
    read = TimedRounds.read(write(tmp_path, lines([1.5] * 6)), "ladder", "dense")
    axis = replace(speed_axis(read, "ladder", "dense", 1.2), verdict=speed)
    assert judged(endpoint(accuracy), axis) == verdict
    with pytest.raises(UsageError, match="no drop can be judged"):
        judged(None, axis)
