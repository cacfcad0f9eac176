"""Costs by hand: a step of 1 s, and 100 bytes a second."""

import pytest

from ladder_eval.errors import UsageError
from ladder_eval.speed.all_reduce import (
    NCCL_BASE,
    Fabric,
    all_reduce,
    measured_seconds,
    nccl,
    two_level,
)

FABRIC = Fabric(hop=1.0, bandwidth=100.0)


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        ("ring", 6 + 1.5 * 8),  # 2·3 steps, 2·3/4 of 800 bytes
        ("one-shot", 1 + 3 * 8),
        ("two-shot", 2 + 1.5 * 8),
        ("message", 1 + 8),
        ("custom", 2 + 1.5 * 8),
        ("5us", 5e-6),
    ],
)
def test_four_ranks_and_800_bytes(algorithm, seconds):
    assert all_reduce(algorithm, 800, 4, FABRIC).seconds == pytest.approx(seconds)


def test_one_rank_sends_nothing():
    assert all_reduce("ring", 800, 1, FABRIC).seconds == 0


def test_what_is_mostly_transfer_crowds_computing():
    assert not all_reduce("ring", 100, 4, FABRIC).crowds  # 6 s of steps, 1.5 s of bytes
    assert all_reduce("ring", 1000, 4, FABRIC).crowds
    assert not all_reduce("5us", 1e9, 4, FABRIC).crowds


def test_nccl_takes_flags_with_data_for_little_and_apart_for_much():
    little, much = nccl(10, 4, FABRIC), nccl(10_000, 4, FABRIC)
    assert little.seconds == pytest.approx(NCCL_BASE + 6 + 1.5 * 10 / 50)  # half are flags
    assert much.seconds == pytest.approx(NCCL_BASE + 12 + 1.5 * 10_000 / 100)
    assert (little.crowds, much.crowds) == (False, True)


def test_switches_sum_for_more_than_two_ranks():
    switched = Fabric(hop=1.0, bandwidth=100.0, switch_bandwidth=1000.0)
    assert nccl(10_000, 4, switched).seconds == pytest.approx(NCCL_BASE + 12 + 10)
    assert nccl(10_000, 2, switched) == nccl(10_000, 2, FABRIC)


def test_two_levels_are_a_sum_within_and_a_ring_between():
    network = Fabric(hop=10.0, bandwidth=20.0)
    # Two nodes of four: within 18 s as above; between, 2 steps and 200 bytes sent once each way.
    cost = two_level(800, 8, 2, FABRIC, network, within="ring")
    assert cost.seconds == pytest.approx(18 + 2 * 10 + 200 / 20)


@pytest.mark.parametrize("text", ["rng", "5", "5ms", "us", "-1us", "nanus", "9e9us"])
def test_what_is_no_all_reduce_is_one_sentence(text):
    with pytest.raises(UsageError, match="known are nccl"):
        measured_seconds(text)
