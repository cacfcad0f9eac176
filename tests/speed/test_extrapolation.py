"""Times of all layers from those of a few, against the simulation of all of them."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from ladder_eval.distributed.wire import MODES, Wire
from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.residual import ResidualStream
from ladder_eval.models.transformer import block_class
from ladder_eval.results.speed_records import Round, Trial
from ladder_eval.speed.extrapolation import (
    extrapolable,
    extrapolated,
    few_layers,
    missing_seconds,
    require_extrapolable,
)
from ladder_eval.speed.simulation import Clock, SimulatedParallel


def config_of(layers, residual="standard"):
    """A model; the residual is a topology, `ladder`, or how many layers at the end are ladder."""
    config = ModelConfig(
        hidden_size=16,
        intermediate_size=8,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=8,
        max_position_embeddings=8,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        tie_word_embeddings=True,
    )
    if residual == "ladder" or isinstance(residual, int):
        return config.with_ladder(layers if residual == "ladder" else residual)
    return replace(config, topology=residual)


TOPOLOGIES = ("standard", "ladder", "parallel", "desync-2x", "desync-4x", "no-comm")
ARMS = {name: config_of(4, name) for name in TOPOLOGIES} | {"hybrid": config_of(4, 2)}
WHOLE = {
    **{name: config_of(80, name) for name in TOPOLOGIES},
    **{f"ladder-{depth}": config_of(80, depth) for depth in (1, 10, 20, 40, 60, 79)},
}


def simulated(config, a, m, wire):
    """Seconds of all layers of two equally fast ranks, and of each from its start to the next's.

    The models' own code runs, as in `simulate`, on blocks of a and m seconds.
    """
    clock = Clock(2)
    tp = SimulatedParallel(clock, wire, 0)
    stream = ResidualStream(torch.zeros(()), tp)
    attention, mlp = clock.block([a, a]), clock.block([m, m])
    layer = SimpleNamespace(
        input_layernorm=lambda x: x,
        attention=attention,
        self_attn=attention,
        feed_forward=mlp,
        mlp=mlp,
    )
    moments = [0.0]
    for index in range(config.num_hidden_layers):
        block_class(config, index).forward(layer, stream, None)
        moments.append(clock.now[0])
    stream.read()
    return clock.now[0], [end - start for start, end in pairwise(moments)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [4, 8])
@pytest.mark.parametrize("arm", WHOLE)
@pytest.mark.parametrize(
    ("a", "m", "c"), [(4, 7, 2), (7, 4, 2), (4, 7, 5), (7, 4, 5), (4, 7, 9), (7, 4, 9), (3, 3, 0)]
)
def test_what_is_extrapolated_is_the_time_of_all_layers(a, m, c, arm, layers, mode):
    found, every = both(arm, layers, a, m, Wire(latency=c, bandwidth=float("inf"), mode=mode))
    if 0 < len(WHOLE[arm].ladder_layers) < 80 and (a, m, c, mode) == (7, 4, 9, "pipelined"):
        # A ladder whose wire carries many messages at once takes some layers to come to its pace.
        assert every >= found > (0.96 if layers == 8 else 0.87) * every
    else:
        assert found == pytest.approx(every)


def both(arm, layers, a, m, wire):
    """The time of all layers as it is extrapolated, and as it is simulated."""
    whole, timed = WHOLE[arm], few_layers(WHOLE[arm], layers)
    few, of_each = simulated(timed, a, m, wire)
    return few + missing_seconds(timed, whole, of_each), simulated(whole, a, m, wire)[0]


def test_layers_by_hand():
    # The first layer isn't like the others: (11 + 13) / 2.
    seconds = [90, 11, 13]
    assert missing_seconds(config_of(3), config_of(80), seconds) == 77 * 12
    assert missing_seconds(config_of(3, "ladder"), config_of(80, "ladder"), seconds) == 77 * 12
    # Of a hybrid the first of either kind: 60 - 2 standard layers of 11, 20 - 2 ladder ones of 7.
    seconds = [90, 11, 80, 7]
    assert missing_seconds(config_of(4, 2), config_of(80, 20), seconds) == 58 * 11 + 18 * 7
    # With a standard layer too many one is taken away.
    assert missing_seconds(config_of(4, 2), config_of(80, 79), seconds) == -11 + 77 * 7
    # Desync-4x repeats itself after two layers.
    seconds = [90, 80, 5, 9]
    assert missing_seconds(config_of(4, "desync-4x"), config_of(80, "desync-4x"), seconds) == 76 * 7
    # Where there is no other, the first two stand for all.
    assert missing_seconds(config_of(2, "desync-4x"), config_of(80, "desync-4x"), [5, 9]) == 78 * 7


def test_a_round_by_hand():
    def trial(arm, layer):
        return Trial(
            arm=arm,
            ttft=100.0,
            itl=(20.0, 30.0),
            driver_seconds=0.5,
            prefill_bound=None,
            decode_bound=0.25,
            prefill_layers=(40.0, 10 * layer),
            decode_layers=(40.0, layer),
        )

    each = Round(
        number=1,
        latency=None,
        prefill_blocks=(),
        decode_blocks=(),
        copied_bytes_per_second=1.0,
        trials=(trial("ladder", 2.0), trial("standard", 3.0)),
    )
    timed = {name: config_of(2, name) for name in ("standard", "ladder")}
    whole = {name: config_of(12, name) for name in ("standard", "ladder")}
    found = extrapolated(each, timed, whole)
    assert [trial.arm for trial in found.trials] == ["ladder", "standard"]
    # Ten layers more.
    assert [(trial.ttft, trial.itl) for trial in found.trials] == [
        (100 + 10 * 20, (20 + 10 * 2, 30 + 10 * 2)),
        (100 + 10 * 30, (20 + 10 * 3, 30 + 10 * 3)),
    ]
    assert {trial.decode_bound for trial in found.trials} == {0.25}
    one = replace(each, trials=tuple(replace(t, itl=(), decode_layers=()) for t in each.trials))
    assert [trial.itl for trial in extrapolated(one, timed, whole).trials] == [(), ()]


def test_of_a_hybrid_half_are_ladder_layers():
    assert few_layers(config_of(80, 20), 4) == config_of(4, 2)
    assert few_layers(config_of(80, 79), 5) == config_of(5, 2)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_other_residuals_stay_what_they_are(name):
    assert few_layers(config_of(80, name), 4) == config_of(4, name)


def test_only_whole_periods_are_extrapolated():
    two, four = {"ladder": config_of(8, "ladder")}, {"desync-4x": config_of(8, "desync-4x")}
    hybrid = {"hybrid": config_of(80, 20)}
    assert [extrapolable(layers, two) for layers in (2, 3, 4, 7)] == [2, 3, 4, 7]
    assert [extrapolable(layers, two | four) for layers in (2, 3, 4, 7)] == [2, 2, 4, 6]
    assert [extrapolable(layers, two | hybrid) for layers in (4, 5)] == [4, 5]
    require_extrapolable(3, two)
    require_extrapolable(2, two | four)
    with pytest.raises(UsageError) as caught:
        require_extrapolable(3, two | four)
    assert str(caught.value) == (
        "These residuals are extrapolated from a multiple of 2 layers; give --layers 2."
    )
    for layers, arms, least in ((1, two, 2), (3, two | hybrid, 4)):
        with pytest.raises(UsageError) as caught:
            require_extrapolable(layers, arms)
        assert str(caught.value) == (
            f"These residuals are extrapolated from {least} layers or more, not from {layers}."
        )
