"""Percentiles over requests and what follows from batches, by hand and by numpy."""

import numpy as np
import pytest

from ladder_eval.results.load import (
    load_rows,
    percentile,
    percentile_ratio,
    replay_rows,
)
from ladder_eval.results.load_records import LoadRound, LoadTrial, ReplayRound, Served
from ladder_eval.results.speed import BASELINE, CANDIDATE, TimedArm

ARMS = [
    TimedArm(name="standard", role=BASELINE, residual="standard"),
    TimedArm(name="ladder", role=CANDIDATE, residual="ladder", ladder_layers=(0, 1)),
]


def column(*values):
    """One round."""
    return np.array(values, dtype=float)[:, None]


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ((4, 1, 3, 2), 50, 2),  # the smallest with half of them at or below it
        ((5, 1, 4, 2, 3), 50, 3),
        ((7,), 99, 7),
        (range(1, 100), 99, 99),  # of fewer than 100 the largest
        (range(1, 101), 99, 99),
        (range(1, 102), 99, 100),
        (range(1, 201), 99, 198),
        (range(1, 201), 100, 200),
    ],
)
def test_percentiles_are_values_by_nearest_rank(values, percent, expected):
    assert percentile(column(*values), percent).value == expected


def test_percentiles_are_numpys_inverted_cdf_over_all_rounds():
    values = np.random.default_rng(0).exponential(size=(73, 3))
    for percent in (50, 99):
        expected = np.quantile(values, percent / 100, method="inverted_cdf")
        assert percentile(values, percent).value == expected


def test_the_interval_draws_requests_with_all_their_rounds():
    # Rounds that only repeat what they have seen say nothing new.
    once = np.random.default_rng(1).exponential(size=(60, 1))
    one, many = percentile(once, 50), percentile(np.repeat(once, 5, axis=1), 50)
    assert one == many
    assert one.low < one.value < one.high
    assert one == percentile(once, 50)  # seeded
    # Near sqrt(1 / n) / density, 1 / sqrt(60) for the median of an exponential: +/- 2 of that.
    assert one.high - one.low == pytest.approx(4 / 60**0.5, rel=0.4)


def test_values_without_spread_have_no_interval():
    for values in (column(3, 3, 3), column(3)):
        found = percentile(values, 50)
        assert (found.value, found.low, found.high) == (3, None, None)


def test_the_interval_of_a_ratio_uses_the_same_draws():
    base = np.random.default_rng(2).exponential(size=(40, 2))
    ratio = percentile_ratio(2 * base, base, 99)
    assert (ratio.value, ratio.low, ratio.high) == (2, None, None)
    apart = percentile_ratio(base, base[::-1], 50)
    assert apart.value == 1
    assert apart.low < 1 < apart.high


def served(arrival, start, first, last, output_len=3):
    return Served(
        arrival=arrival, start=start, first=first, last=last, prompt_len=4, output_len=output_len
    )


def trial(arm, scale):
    """Three requests in batches of two and of one, and one more that is only read."""
    return LoadTrial(
        arm=arm,
        served=(
            served(0, 2, 2 + scale, 2 + 3 * scale),
            served(1, 2, 2 + scale, 2 + 3 * scale),
            served(10, 10, 10 + scale, 10 + 3 * scale),
            served(19, 19, 20, 20, output_len=1),
        ),
    )


def test_rows_say_what_a_hand_calculation_does():
    rounds = [
        LoadRound(number=1, latency=None, trials=(trial("standard", 2), trial("ladder", 1))),
        LoadRound(number=2, latency=None, trials=(trial("ladder", 1), trial("standard", 2))),
    ]
    standard, ladder = load_rows(ARMS, rounds, batch_size=2)
    # ttft of standard: 4, 3, 2 and 1 s in both rounds; tpot is 2 s.
    assert (standard.ttft.p50.value, standard.ttft.p99.value) == (2, 4)
    assert standard.ttft.requests == 4
    assert standard.tpot.p50.value == standard.tpot.p99.value == 2
    assert standard.tpot.requests == 3  # one has no second token
    assert standard.ttft.speedup_p50 is standard.tpot.speedup_p99 is None
    # ladder: 3, 2, 1 and 1 s.
    assert (ladder.ttft.p50.value, ladder.ttft.p99.value) == (1, 3)
    assert ladder.ttft.speedup_p50.value == 2
    assert ladder.ttft.speedup_p99.value == pytest.approx(4 / 3)
    assert ladder.tpot.speedup_p50.value == 2
    # Batches of 6, 6 and 1 s in 20 s; one of three is full.
    assert standard.utilisation == pytest.approx(13 / 20)
    assert standard.capacity == pytest.approx(2 / 6)
    assert standard.requests_per_s == pytest.approx(4 / 20)
    assert standard.mean_batch == pytest.approx(4 / 3)
    assert (ladder.residual, ladder.ladder_layers, ladder.role) == ("ladder", (0, 1), "candidate")


def test_without_a_full_batch_no_capacity_is_known():
    rounds = [LoadRound(number=1, latency=None, trials=(trial("standard", 2),))]
    (row,) = load_rows(ARMS[:1], rounds, batch_size=3)
    assert row.capacity is None


def test_prompts_alone_have_no_tpot():
    only = LoadTrial(arm="standard", served=(served(0, 0, 1, 1, output_len=1),))
    (row,) = load_rows(ARMS[:1], [LoadRound(number=1, latency=None, trials=(only,))], batch_size=1)
    assert row.tpot is None
    assert row.capacity == 1


def test_replayed_seconds_are_medians_over_rounds_of_sums_over_batches():
    times = [((3, 1), (2, 0.5)), ((5, 1), (2, 1)), ((4, 2), (2, 4))]
    rounds = [
        ReplayRound(number=number, latency=None, seconds={"standard": base, "ladder": own})
        for number, (base, own) in enumerate(times, start=1)
    ]
    standard, ladder = replay_rows(ARMS, rounds, tokens=60)
    # standard: 4, 6 and 6 s; ladder: 2.5, 3 and 6 s.
    assert (standard.seconds.value, ladder.seconds.value) == (6, 3)
    assert (standard.tokens_per_s.value, ladder.tokens_per_s.value) == (10, 20)
    assert standard.speedup is None
    assert ladder.speedup.value == pytest.approx(1.6)  # of 1.6, 2 and 1
    assert (ladder.speedup.low, ladder.speedup.high) == (1, 2)
