"""Medians, ratios and shares of rounds that are written by hand."""

import random
from dataclasses import replace

import pytest
from scipy import stats

from ladder_eval.results.speed import (
    BASELINE,
    BOUND,
    CANDIDATE,
    CONTROL,
    TimedArm,
    median,
    speed_rows,
)
from ladder_eval.results.speed_records import Round, Trial, Work

ARMS = [
    TimedArm(name="standard", role=BASELINE, residual="standard"),
    TimedArm(name="ladder", role=CANDIDATE, residual="ladder", ladder_layers=(0, 1)),
    TimedArm(name="no-comm", role=BOUND, residual="no-comm"),
    TimedArm(name="standard again", role=CONTROL, residual="standard"),
]


def trial(arm, ttft, itl=(), prefill_bound=0.5, decode_bound=0.5):
    return Trial(
        arm=arm,
        ttft=ttft,
        itl=tuple(itl),
        driver_seconds=0.0,
        prefill_bound=prefill_bound,
        decode_bound=decode_bound,
    )


def round_of(number, *trials):
    return Round(
        number=number,
        latency=None,
        prefill_blocks=(),
        decode_blocks=(),
        copied_bytes_per_second=1.0,
        trials=trials,
    )


# Three rounds, with ttft, the gaps between three tokens, and the simulated bounds.
ROUNDS = [
    round_of(
        1,
        trial("standard", 10, (4, 6)),
        trial("ladder", 8, (3, 5), 0.8, 1.0),
        trial("no-comm", 6, (2, 2), 1.0, 1.0),
        trial("standard again", 10, (4, 4)),
    ),
    round_of(
        2,
        trial("standard again", 16, (8, 8)),
        trial("no-comm", 6, (3, 3), 1.0, 1.0),
        trial("ladder", 8, (4, 4), 0.8, 0.5),
        trial("standard", 12, (5, 7)),
    ),
    round_of(
        3,
        trial("standard", 11, (5, 5)),
        trial("ladder", 10, (4, 5), 0.5, 0.5),
        trial("no-comm", 6, (2, 4), 1.0, 1.0),
        trial("standard again", 11, (5, 5)),
    ),
]


def rows_of(rounds=ROUNDS, batch_size=2):
    rows = speed_rows(ARMS, rounds, batch_size)
    assert [row.arm for row in rows] == [arm.name for arm in ARMS]
    return {row.arm: row for row in rows}


def ends(estimate):
    return estimate.low, estimate.value, estimate.high


def close(*values):
    return pytest.approx(values, rel=1e-12)


def prefill_rounds(standard, ladder, no_comm, bounds=None):
    """Rounds of one token."""
    bounds = bounds or [0.5] * len(standard)
    columns = zip(standard, ladder, no_comm, bounds, strict=True)
    return [
        round_of(
            number,
            trial("standard", base),
            trial("ladder", own, (), bound, None),
            trial("no-comm", least),
            trial("standard again", base),
        )
        for number, (base, own, least, bound) in enumerate(columns, 1)
    ]


@pytest.mark.parametrize(
    ("values", "low", "value", "high", "confidence"),
    [
        # All n values lie on one side of the median with probability 2 / 2^n.
        ([3], 3, 3, 3, 0.0),
        ([5, 1], 1, 3, 5, 0.5),
        ([4, 1, 9], 1, 4, 9, 0.75),
        ([2, 8, 4, 1, 6], 1, 4, 8, 0.9375),
        ([2, 8, 4, 1, 6, 5], 1, 4.5, 8, 0.96875),
        # Without the outermost of 8, 1 - 2 (1 + 8) / 256 = 0.93 is too little.
        ([8, 7, 6, 5, 4, 3, 2, 1], 1, 4.5, 8, 1 - 2 / 256),
        # Of 9, 1 - 2 (1 + 9) / 512 is enough.
        ([9, 8, 7, 6, 5, 4, 3, 2, 1], 2, 5, 8, 0.9609375),
        # Of 12, 1 - 2 (1 + 12 + 66) / 4096; with the third left out, too, 0.85.
        (range(12, 0, -1), 3, 6.5, 10, 1 - 158 / 4096),
    ],
)
def test_the_interval_of_a_median_by_hand(values, low, value, high, confidence):
    found = median(values)
    assert ends(found) == (low, value, high)
    assert found.confidence == pytest.approx(confidence, abs=1e-12)
    assert found.rounds == len(values)


@pytest.mark.parametrize("n", [6, 7, 9, 10, 15, 16, 20, 37, 100])
def test_the_interval_of_a_median_is_scipys(n):
    draw = random.Random(n)
    values = [draw.expovariate(1.0) for _ in range(n)]
    expected = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    found = median(values)
    assert (found.low, found.high) == (expected.low, expected.high)
    # Its coverage: the number of values below the median lies between both ends.
    inside = sum(low < found.high for low in values), sum(low < found.low for low in values)
    exact = stats.binom.cdf(inside[0], n, 0.5) - stats.binom.cdf(inside[1], n, 0.5)
    assert found.confidence == pytest.approx(exact)
    assert found.confidence >= 0.95


def test_equal_values_have_an_interval_of_no_width():
    assert ends(median([2.5] * 7)) == (2.5, 2.5, 2.5)


def test_no_values_have_no_median():
    with pytest.raises(ValueError, match="no round, no median"):
        median([])


def test_seconds_of_every_phase():
    standard, ladder = rows_of()["standard"], rows_of()["ladder"]
    assert ends(standard.prefill.seconds) == (10, 11, 12)
    assert ends(ladder.prefill.seconds) == (8, 8, 10)
    assert ends(standard.decode.seconds) == (5, 5, 6)  # means of the gaps: 5, 6, 5
    assert ends(ladder.decode.seconds) == (4, 4, 4.5)
    assert ends(standard.total.seconds) == (20, 21, 24)  # 10+4+6, 12+5+7, 11+5+5
    assert ends(ladder.total.seconds) == (16, 16, 19)
    assert standard.prefill.seconds.confidence == 0.75
    assert standard.prefill.seconds.rounds == 3


def test_gaps_and_throughput():
    rows = rows_of()
    assert ends(rows["ladder"].itl) == (4, 4, 4.5)
    # 2 rows of 3 tokens in 16, 16 and 19 seconds.
    assert ends(rows["ladder"].tokens_per_s) == close(6 / 19, 6 / 16, 6 / 16)
    assert ends(rows_of(batch_size=7)["ladder"].tokens_per_s) == close(21 / 19, 21 / 16, 21 / 16)


def test_itl_is_a_median_where_tpot_is_a_mean():
    long = [
        round_of(1, *(trial(arm.name, 1, (1, 1, 1, 9)) for arm in ARMS)),
    ]
    row = rows_of(long)["ladder"]
    assert (row.itl.value, row.decode.seconds.value) == (1, 3)


def test_speedups_are_taken_within_a_round():
    rows = rows_of()
    assert ends(rows["ladder"].prefill.speedup) == close(11 / 10, 10 / 8, 12 / 8)
    assert ends(rows["ladder"].decode.speedup) == close(5 / 4.5, 5 / 4, 6 / 4)
    assert ends(rows["ladder"].total.speedup) == close(21 / 19, 20 / 16, 24 / 16)
    assert ends(rows["no-comm"].total.speedup) == close(21 / 12, 20 / 10, 24 / 12)
    # 20/18, 24/32 and 21/21: what chance alone does.
    assert ends(rows["standard again"].total.speedup) == close(24 / 32, 1, 20 / 18)


def test_the_share_of_communication_is_taken_within_a_round():
    row = rows_of()["ladder"]
    # Exposed 10-6, 12-6, 11-6, of which 2, 4 and 1 are gone.
    assert ends(row.prefill.comm) == close(1 / 5, 2 / 4, 4 / 6)
    # Exposed 5-2, 6-3, 5-3, of which 1, 2 and 1/2 are gone.
    assert ends(row.decode.comm) == close(0.5 / 2, 1 / 3, 2 / 3)
    # Exposed 20-10, 24-12, 21-12, of which 4, 8 and 2 are gone.
    assert ends(row.total.comm) == close(2 / 9, 4 / 10, 8 / 12)


def test_efficiency_is_the_share_by_its_bound_within_a_round():
    row = rows_of()["ladder"]
    assert ends(row.prefill.bound) == (0.5, 0.8, 0.8)
    # 1/2 by 0.8, 2/3 by 0.8, 1/5 by 0.5.
    assert ends(row.prefill.efficiency) == close(0.4, 0.625, 2 / 2.4)
    assert ends(row.decode.bound) == (0.5, 0.5, 1)
    # 1/3 by 1, 2/3 by 0.5, 1/4 by 0.5.
    assert ends(row.decode.efficiency) == close(1 / 3, 0.5, 4 / 3)
    # Nothing simulates prompt and decoding together.
    assert (row.total.bound, row.total.efficiency) == (None, None)


def test_only_a_candidate_has_a_share_and_only_the_baseline_no_speedup():
    rows = rows_of()
    for name in ("standard", "no-comm", "standard again"):
        for phase in (rows[name].prefill, rows[name].decode, rows[name].total):
            assert (phase.comm, phase.bound, phase.efficiency) == (None, None, None)
            assert (phase.speedup is None) == (name == "standard")


def test_rows_say_what_an_arm_is():
    rows = rows_of()
    told = [(row.arm, row.role, row.residual, row.ladder_layers) for row in rows.values()]
    assert told == [
        ("standard", "baseline", "standard", ()),
        ("ladder", "candidate", "ladder", (0, 1)),
        ("no-comm", "bound", "no-comm", ()),
        ("standard again", "control", "standard", ()),
    ]


def test_a_negative_share_is_told_as_it_is():
    row = rows_of(prefill_rounds([10, 10], [11, 12], [6, 6]))["ladder"]
    assert ends(row.prefill.comm) == close(-0.5, -0.375, -0.25)
    assert ends(row.prefill.efficiency) == close(-1, -0.75, -0.5)


@pytest.mark.parametrize("no_comm", [[6, 10, 6], [6, 11, 6]], ids=["as slow", "slower"])
def test_communication_within_noise_has_no_shares(no_comm):
    # With three rounds the interval is the whole range, and reaches 0 in the second.
    row = rows_of(prefill_rounds([10, 10, 10], [8, 8, 8], no_comm))["ladder"]
    assert (row.prefill.comm, row.prefill.bound, row.prefill.efficiency) == (None, None, None)
    assert row.prefill.speedup.value == 1.25


def test_one_odd_round_of_nine_takes_no_share_away():
    # The interval of 9 leaves out the smallest value: exposed is 4, and -1 once.
    no_comm = [6] * 4 + [11] + [6] * 4
    row = rows_of(prefill_rounds([10] * 9, [8] * 9, no_comm))["ladder"]
    assert ends(row.prefill.comm) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("bounds", [[0.5, None], [None, None], [0.5, 0.0]])
def test_without_a_bound_of_every_round_there_is_no_efficiency(bounds):
    row = rows_of(prefill_rounds([10, 10], [8, 8], [6, 6], bounds))["ladder"]
    assert row.prefill.comm.value == 0.5
    assert (row.prefill.bound, row.prefill.efficiency) == (None, None)


def test_one_token_has_no_decoding():
    for row in rows_of(prefill_rounds([10, 12], [8, 8], [6, 6]), batch_size=4).values():
        assert (row.decode, row.itl) == (None, None)
        assert row.total.seconds == row.prefill.seconds
    row = rows_of(prefill_rounds([10, 12], [8, 8], [6, 6]), batch_size=4)["ladder"]
    assert row.tokens_per_s.value == 4 / 8


def test_the_order_within_a_round_does_not_matter():
    backwards = [replace(each, trials=each.trials[::-1]) for each in ROUNDS]
    assert rows_of(backwards) == rows_of()


def test_without_ranks_nothing_is_hidden_or_saved():
    rows = speed_rows(ARMS, ROUNDS, 2, communicates=False)
    for row in rows:
        for part in (row.prefill, row.decode, row.total):
            assert (part.comm, part.bound, part.efficiency) == (None, None, None)
    assert [row.decode.seconds for row in rows] == [
        row.decode.seconds for row in rows_of().values()
    ]
    ladder = next(row for row in rows if row.arm == "ladder")
    # 10 / 8, 12 / 8 and 11 / 10.
    assert ladder.prefill.speedup.value == pytest.approx(1.25)


def test_only_ladder_layers_hide():
    hybrid = TimedArm(name="ladder", role=CANDIDATE, residual="hybrid ladder", ladder_layers=(1,))
    less = replace(hybrid, residual="parallel", ladder_layers=())
    for arm, name in ((ARMS[1], "hidden_comm"), (hybrid, "hidden_comm"), (less, "comm_saved")):
        rows = speed_rows([ARMS[0], arm, *ARMS[2:]], ROUNDS, 2)
        assert [row.comm_name for row in rows] == ["comm_saved", name, "comm_saved", "comm_saved"]


WORK = Work(ranks=4, prefill_flops=240.0, step_bytes=60.0)


def used(rounds=ROUNDS, batch_size=2):
    rows = speed_rows(ARMS, rounds, batch_size, work=WORK)
    return next(row for row in rows if row.arm == "ladder")


def test_rates_of_a_user_and_of_a_device():
    row = used()
    # 6 tokens in 19, 16 and 16 seconds, for 2 users, by 4 devices.
    assert ends(row.tokens_per_s_per_row) == close(3 / 19, 3 / 16, 3 / 16)
    assert ends(row.tokens_per_s_per_rank) == close(1.5 / 19, 1.5 / 16, 1.5 / 16)


def test_utilisation_is_taken_within_a_round():
    machines = [(30.0, 80.0), (60.0, 100.0), (20.0, 60.0)]
    rounds = [
        replace(each, copied_bytes_per_second=copied, matmul_flops_per_second=flops)
        for each, (copied, flops) in zip(ROUNDS, machines, strict=True)
    ]
    row = used(rounds)
    # 60 bytes in 4, 4 and 4.5 seconds by 30, 60 and 20 a second.
    assert ends(row.bandwidth_utilisation) == close(15 / 60, 15 / 30, 60 / 4.5 / 20)
    # 240 operations in 8, 8 and 10 seconds by 80, 100 and 60 a second.
    assert ends(row.flop_utilisation) == close(30 / 100, 30 / 80, 24 / 60)


def test_what_is_not_known_of_every_round_is_not_told():
    assert used().flop_utilisation is None  # no matrix product was timed
    row = rows_of()["ladder"]
    assert (row.tokens_per_s_per_rank, row.bandwidth_utilisation) == (None, None)
    one = prefill_rounds([10, 12], [8, 8], [6, 6])
    assert used(one).bandwidth_utilisation is None  # nothing is decoded


def with_energy(each, joules):
    trials = tuple(replace(trial, joules=joules) for trial in each.trials)
    return replace(each, trials=trials)


def test_energy_is_shared_by_all_tokens():
    rounds = [with_energy(each, j) for each, j in zip(ROUNDS, [12, 30, 18], strict=True)]
    assert ends(used(rounds).joules_per_token) == (2, 3, 5)  # of 6 tokens
    assert used([*rounds[:2], with_energy(ROUNDS[2], None)]).joules_per_token is None
