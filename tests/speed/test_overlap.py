"""The schedule of many settings at once: equal to the simulation, and its two costs by hand."""

import random

import numpy as np
import pytest
from test_simulation import config_of, time_of

from ladder_eval.distributed.wire import Wire
from ladder_eval.speed.overlap import LayerTimes, stack_seconds

RESIDUALS = ("standard", "ladder", "parallel", "desync-2x", "desync-4x", "no-comm", (1,), (0, 2))


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("layers", [3, 6])
def test_it_is_the_simulation_where_nothing_else_costs(residual, layers):
    draw = random.Random(f"{residual}{layers}")
    times = [tuple(draw.randint(0, 50) for _ in range(3)) for _ in range(40)]  # a, m, c
    attention, mlp, all_reduce = np.array(times, dtype=float).T
    found = stack_seconds(
        config_of(layers, residual),
        LayerTimes(attention=attention, mlp=mlp, all_reduce=all_reduce),
    )
    expected = [
        time_of(layers, residual, [(a, m)] * 2, Wire(latency=c, bandwidth=float("inf")))
        for a, m, c in times
    ]
    assert found.tolist() == expected


def one_layer(a, m, c, **costs):
    """A ladder layer: the MLP runs beside attention's all-reduce, its own runs alone."""
    times = LayerTimes(
        attention=np.array(a), mlp=np.array(m), all_reduce=np.array(c, dtype=float), **costs
    )
    return float(stack_seconds(config_of(1, "ladder"), times))


@pytest.mark.parametrize(
    ("mlp", "seconds"),
    [
        # Computing goes on at 1/2, the link at 3/4: 6 s of sending take 8 s beside computing.
        (4, 5 + 8 + 6),  # both end together
        (1, 5 + 2 + 4.5 + 6),  # after 2 s 1.5 s are sent, the rest is sent alone
        (10, 5 + 8 + 6 + 6),  # after 8 s 4 s are computed, the rest is computed alone
    ],
)
def test_computing_and_sending_slow_each_other(mlp, seconds):
    assert one_layer(5, mlp, 6, contention=0.5, slowing=0.25) == seconds


def test_what_is_never_side_by_side_is_never_slow():
    times = {"attention": np.array(5), "mlp": np.array(4), "all_reduce": np.array(6.0)}
    for residual in ("standard", "parallel", "desync-2x", "no-comm"):
        config = config_of(3, residual)
        alone = stack_seconds(config, LayerTimes(**times))
        assert stack_seconds(config, LayerTimes(**times, contention=0.5, slowing=0.5)) == alone


def test_a_sum_is_taken_up_by_the_ranks_that_compute():
    # Attention's sum is there long before the MLP ends; while it is taken up, 2 s of the MLP's 6 s
    # are sent.
    assert one_layer(5, 100, 6, join=2.0) == 5 + 100 + 2 + 4 + 2
    config = config_of(3)
    times = LayerTimes(attention=np.array(5), mlp=np.array(4), all_reduce=np.array(6.0), join=2.0)
    assert stack_seconds(config, times) == 3 * (5 + 4 + 2 * (6 + 2))


def test_the_link_works_while_a_sum_is_taken_up():
    # Two layers, 1 s blocks, 10 s messages: the link is never idle after the first block, so that
    # only the last of four sums is taken up after it.
    times = LayerTimes(attention=np.array(1), mlp=np.array(1), all_reduce=np.array(10.0), join=2.0)
    assert stack_seconds(config_of(2, "ladder"), times) == 1 + 4 * 10 + 2


def test_parallel_saves_a_norm_and_desync_divides():
    times = LayerTimes(
        attention=np.array(5.0),
        mlp=np.array(4.0),
        all_reduce=np.array(6.0),
        saved=1.0,
        division=0.5,
    )
    assert stack_seconds(config_of(4, "parallel"), times) == 4 * (5 + 4 - 1 + 6)
    assert stack_seconds(config_of(4, "desync-2x"), times) == 4 * (5 + 4 + 0.5 + 6)
    assert stack_seconds(config_of(4, "desync-4x"), times) == 4 * (5 + 4) + 2 * (0.5 + 6)
