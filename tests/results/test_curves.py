"""What is read off a family's curve, by hand and over many made-up measurements."""

import math

import numpy as np
import pytest

from ladder_eval.results.curves import (
    Curve,
    difference_at,
    difference_draws,
    read,
    speedup_at,
    speedup_draws,
)
from ladder_eval.results.pairing import Pair

# Times 1, 0.8 and 0.5 of the baseline's.
SPEEDUPS = np.array([1.0, 1.25, 2.0])
LOST = np.array([0.0, -0.02, -0.05])


@pytest.mark.parametrize(
    ("time", "expected"),
    [(1.0, 0.0), (0.9, -0.01), (0.8, -0.02), (0.65, -0.035), (0.5, -0.05)],
)
def test_the_curve_is_straight_over_time(time, expected):
    assert difference_at(SPEEDUPS, LOST, 1 / time) == pytest.approx(expected)
    assert speedup_at(SPEEDUPS, LOST, expected) == pytest.approx(1 / time)


def test_the_order_of_points_is_that_of_their_times():
    shuffled = [2, 0, 1]
    assert difference_at(SPEEDUPS[shuffled], LOST[shuffled], 1 / 0.65) == pytest.approx(-0.035)
    assert speedup_at(SPEEDUPS[shuffled], LOST[shuffled], -0.035) == pytest.approx(1 / 0.65)


def test_nothing_is_read_beyond_the_measured_points():
    assert math.isnan(difference_at(SPEEDUPS, LOST, 2.01))
    assert math.isnan(difference_at(SPEEDUPS, LOST, 0.99))
    assert speedup_at(SPEEDUPS, LOST, -0.0501) == math.inf
    assert speedup_at(SPEEDUPS, LOST, 0.001) == -math.inf


def test_the_first_fall_counts_where_a_faster_point_is_better_again():
    # -0.02 is first reached two thirds of the way from time 1 to 0.8.
    bumpy = np.array([0.0, -0.03, -0.01])
    assert speedup_at(SPEEDUPS, bumpy, -0.02) == pytest.approx(1 / (1 - 0.2 * 2 / 3))
    assert difference_at(SPEEDUPS, bumpy, 1 / 0.65) == pytest.approx(-0.02)


def test_points_slower_than_the_baseline_are_left_out_of_the_fall():
    speedups, lost = np.array([1.0, 0.8, 2.0]), np.array([0.0, -0.04, -0.02])
    assert speedup_at(speedups, lost, -0.01) == pytest.approx(1 / 0.75)
    assert difference_at(speedups, lost, 0.8) == pytest.approx(-0.04)


def test_equally_fast_points_fall_at_their_time():
    speedups, lost = np.array([1.0, 1.25, 1.25]), np.array([0.0, -0.04, -0.02])
    assert speedup_at(speedups, lost, -0.01) == pytest.approx(1 / 0.9)
    assert speedup_at(speedups, lost, -0.03) == pytest.approx(1.25)


def test_an_interval_is_of_the_draws():
    found = read([5.0, *range(1, 1001)])
    assert (found.value, found.low, found.high) == (5.0, pytest.approx(25, abs=1), 975.0)


def test_an_end_is_open_where_too_many_draws_leave_the_range():
    draws = [1.0] * 900
    assert read([1.0, *draws, *[math.inf] * 100]).high is None
    assert read([1.0, *draws, *[math.inf] * 100]).low == 1.0
    unknown = read([1.0, *draws, *[math.nan] * 100])
    assert (unknown.low, unknown.high) == (None, None)
    few = read([1.0, *[1.0] * 990, *[math.nan] * 10])
    assert (few.low, few.high) == (1.0, 1.0)
    assert read([math.nan, *draws]) is None
    assert read([math.inf, *draws]) is None


def test_speedups_are_medians_over_rounds_drawn_for_all_together():
    baseline = np.array([1.0, 1.2, 0.9, 1.1, 1.0])
    candidate = np.array([0.5, 0.8, 0.5, 0.5, 0.8])
    found = speedup_draws(baseline, np.column_stack((candidate, candidate)), 50)
    assert found.shape == (51, 3)
    assert found[0].tolist() == pytest.approx([1.0, 1.8, 1.8])  # of 2, 1.5, 1.8, 2.2, 1.25
    assert (found[:, 0] == 1).all()
    assert (found[:, 1] == found[:, 2]).all()
    assert len(set(found[1:, 1])) > 1


def pairs(task, values, weights=None, sources=None):
    return [
        Pair(
            task=task,
            metric="acc",
            baseline=1.0,
            candidate=1.0 + value,
            weight=weights[i] if weights else 1.0,
            source=sources[i] if sources else f"{task} {i}",
        )
        for i, value in enumerate(values)
    ]


def test_differences_are_means_over_tasks_drawn_for_all_together():
    one = [*pairs("a", [-1, 0, 0, 0]), *pairs("b", [-1, -1, 0], weights=[3.0, 1.0, 4.0])]
    found = difference_draws([one, one], 50)
    assert found.shape == (51, 3)
    assert found[0].tolist() == pytest.approx([0.0, -0.375, -0.375])  # of -1/4 and -4/8
    assert (found[:, 0] == 0).all()
    assert (found[:, 1] == found[:, 2]).all()


def test_draws_spread_as_the_standard_error_says():
    lost = pairs("a", [-1] * 60 + [0] * 340)
    found = difference_draws([lost], 2000)[1:, 1]
    assert found.mean() == pytest.approx(-0.15, abs=0.002)
    # A gained and a lost document more: variance (62 - 60²/402)/402².
    assert found.std() == pytest.approx(math.sqrt(62 - 60**2 / 402) / 402, rel=0.06)


def test_documents_of_one_source_are_drawn_together():
    values = [-1] * 40 + [0] * 160
    alone = difference_draws([pairs("a", values)], 1000)[1:, 1]
    shared = difference_draws(
        [pairs("a", values, sources=[f"s{i // 10}" for i in range(200)])], 1000
    )
    assert shared[0, 1] == pytest.approx(-0.2)
    assert shared[1:, 1].std() > 2 * alone.std()


def test_no_change_is_no_certainty():
    found = difference_draws([pairs("a", [0] * 30)], 500)[:, 1]
    assert found[0] == 0
    assert found.std() > 0.02


def measured(rng, times, wrong):
    """Nine rounds with 3 % of noise, and two tasks of 120 documents; losses grow with speed."""
    noise = np.exp(0.03 * rng.normal(size=(9, len(times))))
    seconds = np.asarray(times) * noise
    hard = rng.random((2, 120))
    found = [
        [p for t in range(2) for p in pairs("ab"[t], np.where(hard[t] < each, -1, 0).tolist())]
        for each in wrong
    ]
    return Curve(
        arms=("dense", *"xyz"),
        speedups=speedup_draws(seconds[:, 0], seconds[:, 1:], 300),
        differences=difference_draws(found, 300),
    )


def test_intervals_cover_what_is_true():
    """Of 150 made-up measurements; 0.95 are meant to be covered, less 3.5 standard errors."""
    rng = np.random.default_rng(1)
    times, wrong = [1.0, 0.9, 0.75, 0.6], [0.04, 0.1, 0.2]
    truth = (1 / np.asarray(times), np.asarray([0.0, *(-each for each in wrong)]))
    at, drop = difference_at(*truth, 1.25), speedup_at(*truth, -0.07)
    hits = []
    for _ in range(150):
        curve = measured(rng, times, wrong)
        there = read(curve.differences_at([1.25] * 301))
        faster = read(curve.speedups_at([-0.07] * 301))
        hits.append((_holds(there, at), _holds(faster, drop)))
    assert (np.mean(hits, axis=0) > 0.95 - 3.5 * math.sqrt(0.95 * 0.05 / 150)).all()


def _holds(reading, value):
    low = -math.inf if reading.low is None else reading.low
    high = math.inf if reading.high is None else reading.high
    return low <= value <= high
