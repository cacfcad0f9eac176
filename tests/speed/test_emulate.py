"""What is drawn for ranks that aren't there, against known distributions and a real model."""

import statistics
from dataclasses import replace
from random import Random

import pytest
import torch
from test_extrapolation import ARMS, config_of

from ladder_eval.distributed.emulated import EmulatedParallel, HostDelays
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.timing import Timing, time_generation
from ladder_eval.models.random_weights import random_model
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.emulate import Drawn, Emulation, Forward, drawn_layers, emulate, lateness_of
from ladder_eval.speed.measure import Link, Measurement
from ladder_eval.speed.simulation import lateness

WIRE = Wire(latency=10.0, bandwidth=100.0)
LOAD = Workload(batch_size=2, prompt_len=3, output_len=4)
# Attention 1 or 3, each as often; MLP 2, always.
COIN = [[(1.0, 2.0)] * 8 + [(3.0, 2.0)] * 8]


def slowest(size, times, count=4000, skew=None):
    """Mean of the slowest of so many ranks' attention, drawn alone."""
    draw = Random(0)
    return statistics.fmean(
        max(drawn_layers(times, 1, skew, draw)[0][0] for _ in range(size)) for _ in range(count)
    )


@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_slowest_of_fair_coins(size):
    # All of them are 1 with probability 2^-n, else the slowest is 3. Its deviation is at most 1,
    # that of the mean of 4000 at most 0.016.
    assert slowest(size, COIN) == pytest.approx(3 - 2 * 0.5**size, abs=0.06)


@pytest.mark.parametrize(
    # The expected largest of n standard normal values: 0, 1/sqrt(pi), and, by Harter
    # (Biometrika 48, 1961), 1.42360 of eight.
    ("size", "deviations"),
    [(1, 0.0), (2, 0.56419), (8, 1.42360)],
)
def test_the_slowest_of_normal_times(size, deviations):
    times = [[(50.0, 9.0)] * 3]
    expected = 50 + 2 * deviations
    assert slowest(size, times, skew=2.0) == pytest.approx(expected, abs=0.13)


def test_a_slow_forward_slows_all_layers_of_a_rank():
    forwards = [[(1.0, 1.0)] * 4, [(5.0, 5.0)] * 4]
    draw = Random(1)
    drawn = [drawn_layers(forwards, 30, None, draw) for _ in range(40)]
    assert {len(set(layers)) for layers in drawn} == {1}
    assert {layers[0] for layers in drawn} == {(1.0, 1.0), (5.0, 5.0)}


def test_no_time_is_negative_and_seeds_decide():
    def drawn(seed, skew):
        return drawn_layers(COIN, 200, skew, Random(seed))

    assert min(min(layer) for layer in drawn(0, 100.0)) == 0
    assert drawn(0, 0.0) == [(2.0, 2.0)] * 200
    for skew in (None, 1.0):
        assert drawn(3, skew) == drawn(3, skew) != drawn(4, skew)


def test_lateness_by_hand():
    # Rank 0 has attention 5 and MLP 1, rank 1 has 2 and 3; messages are empty and take 10.
    ranks = [[(5.0, 1.0)] * 2, [(2.0, 3.0)] * 2]

    def late(residual, rank):
        return lateness(config_of(2, residual), ranks, WIRE, 0, rank)

    # Standard: all start together after each message.
    assert late("standard", 0) == (0, 2, 0, 2, 0)
    assert late("standard", 1) == (3, 0, 3, 0, 0)
    # Nothing is sent: 12 against 10 at the end.
    assert late("no-comm", 0) == (0,)
    assert late("no-comm", 1) == (2,)
    # Sums of both blocks.
    assert late("parallel", 1) == late("desync-2x", 1) == (1, 1, 0)
    # Rank 0 ends at 5 and 6, rank 1 at 2 and 5. The messages arrive at 15 and 25; block 3 ends
    # at 20 and 17, block 4 at 26 and 28.
    assert late("ladder", 0) == (0, 0, 0, 2, 0)
    assert late("ladder", 1) == (3, 1, 3, 0, 0)


class Counting(EmulatedParallel):
    """Keeps what each message was told to be late by, and whether one had nothing left."""

    def use(self, wire, lateness=()):
        self.told, self.sent = list(lateness), 0
        super().use(wire, ())

    def _send(self, tensor):
        self.sent += 1
        return super()._send(tensor)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("output_len", [1, 2, 4])
def test_every_message_of_a_real_generation_has_a_lateness(arm, output_len):
    config, load = ARMS[arm], replace(LOAD, output_len=output_len)
    layers = [(1.0, 2.0)] * config.num_hidden_layers
    forward = Forward(ranks=[layers] * 2, message_bytes=0)
    drawn = Drawn(wire=WIRE, prefill=forward, decode=[forward] * min(2, output_len - 1))
    tp = Counting(1, 2, HostDelays())
    model = random_model(config, dtype=torch.float32, device=torch.device("cpu"), tp=tp)
    tp.use(Wire(latency=0.0, bandwidth=float("inf")), lateness_of(config, drawn, load, 1))
    assert len(time_generation(model, load)) == output_len
    assert tp.sent == len(tp.told)
    assert set(tp.told) == {0}


def test_lateness_goes_over_the_drawn_steps_again():
    config = config_of(1, "standard")

    def forward(other):
        return Forward(ranks=[[(1.0, 1.0)], [(other, 1.0)]], message_bytes=0)

    drawn = Drawn(wire=WIRE, prefill=forward(9.0), decode=[forward(2.0), forward(4.0)])
    found = lateness_of(config, drawn, replace(LOAD, output_len=4), 0)
    # The meeting; then of each forward the embedding, attention, MLP and the choice of a token.
    assert found == (0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0)


class Driver:
    """Notes what it is asked; blocks take 4 and 6 seconds in the prompt, 1 and 2 in a step."""

    def __init__(self):
        self.arranged, self.calls = [], []

    def arrange(self, arms, carrier, capacity):
        self.arranged.append((list(arms), carrier, capacity))

    def copied_bytes_per_second(self):
        return 1000.0

    def matmul_flops_per_second(self):
        return 7e9

    def time(self, arm, workload, wire, *, cached=0, watched=False, lateness=()):
        assert (arm, cached) == ("no-comm", 0) or not watched
        self.calls.append((arm, workload, wire, watched, lateness))
        layers = [[(4.0, 6.0)] * 2, *[[(1.0, 2.0)] * 2] * (workload.output_len - 1)]
        moments = tuple(float(5 + n) for n in range(workload.output_len))
        return Timing(seconds=moments, blocks=(layers,) if watched else ())


ROUND_ARMS = {name: config_of(2, name) for name in ("standard", "ladder", "no-comm")}
WHOLE = {name: config_of(6, name) for name in ("standard", "ladder", "no-comm")}


def rounds_of(driver, skew=None, workload=LOAD, **link):
    what = Measurement(
        arms=ROUND_ARMS,
        baseline="standard",
        bound="no-comm",
        workload=workload,
        link=Link(**{"mode": "serial", "bandwidth": float("inf"), "ratio": 2.0} | link),
        rounds=2,
    )
    emulation = Emulation(rank=1, tp_size=4, skew=skew, whole=WHOLE)
    return list(emulate(driver, what, emulation, message_bytes=1200))


def test_a_round_watches_first_and_times_with_lateness():
    driver = Driver()
    first, second = rounds_of(driver, skew=0.5)
    assert driver.arranged == [(["standard", "ladder", "no-comm"], None, 1200)]
    warm_up, look = ["standard", "ladder", "no-comm"], ["no-comm"] * 2
    names = [call[0] for call in driver.calls]
    assert names == warm_up + look + warm_up + look + warm_up[::-1]
    assert [call[3] for call in driver.calls] == [False] * 3 + ([True] * 2 + [False] * 3) * 2
    for each in (first, second):
        # Twice the mean block of a step, (1 + 2) / 2.
        assert each.latency == 3.0
        assert (each.prefill_blocks, each.decode_blocks) == (((4, 6),), ((1, 2),))
        assert each.copied_bytes_per_second == 1000
        assert all((t.ttft, t.itl) == (5, (1, 1, 1)) for t in each.trials)
    for _, workload, wire, _, late in driver.calls[5:8]:
        assert (workload, wire.latency) == (LOAD, 3.0)
        assert max(late) > 0
    # All arms meet the same times; other rounds meet others.
    by_round = [{c[0]: c[4] for c in driver.calls[at : at + 3]} for at in (5, 10)]
    assert by_round[0]["standard"] != by_round[1]["standard"]
    # A message of standard is sent by the slowest of four when its block has ended: 1.03 standard
    # deviations later than the mean, which is the expected time of the emulated rank.
    assert first.lateness == pytest.approx(0.5 * 1.029, rel=0.2)


def test_without_skew_nobody_is_late_and_bounds_are_those_of_all_layers():
    (first, _) = rounds_of(Driver(), skew=0.0)
    assert first.lateness == 0
    bounds = {trial.arm: trial.decode_bound for trial in first.trials}
    # Latency 3 is longer than any block. Six layers: standard 6 (3 + 6), no-comm 6 * 3, and a
    # ladder 1 + 12 * 3, since the wire is always busy.
    assert bounds == pytest.approx({"standard": 0, "no-comm": 1, "ladder": (54 - 37) / (54 - 18)})


def test_bytes_of_prompt_and_step():
    (first, _) = rounds_of(Driver(), skew=0.0, ratio=None, latency=0.0, bandwidth=100.0)
    bounds = {trial.arm: trial for trial in first.trials}["ladder"]
    # The prompt's 1200 bytes take 12: standard 6 (10 + 24), alone 60, a ladder 4 + 12 * 12.
    assert bounds.prefill_bound == pytest.approx((204 - 148) / (204 - 60))
    # A step's 400 take 4: standard 6 (3 + 8), alone 18, a ladder 1 + 12 * 4.
    assert bounds.decode_bound == pytest.approx((66 - 49) / (66 - 18))


def test_one_token_has_the_prompt_alone():
    driver = Driver()
    first, _ = rounds_of(driver, skew=0.0, workload=replace(LOAD, output_len=1))
    assert (first.latency, first.decode_blocks) == (10.0, ())  # twice (4 + 6) / 2
    assert {trial.decode_bound for trial in first.trials} == {None}
    assert all(trial.prefill_bound is not None for trial in first.trials)
    assert {len(call[4]) for call in driver.calls if call[4]} == {2 + 4 + 1, 2 + 1}


def test_at_most_16_steps_are_watched():
    driver = Driver()
    rounds_of(driver, skew=0.0, workload=replace(LOAD, output_len=40))
    assert {call[1].output_len for call in driver.calls if call[3]} == {17}
