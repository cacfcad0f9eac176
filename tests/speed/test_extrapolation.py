"""Times of all layers from those of a few, against the simulation of all of them."""

from dataclasses import replace

import pytest

from ladder_eval.distributed.wire import MODES, Wire
from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Round, Trial
from ladder_eval.speed.extrapolation import (
    Depths,
    depths_of,
    extrapolable,
    extrapolated,
    few_layers,
    require_extrapolable,
    shallower,
)
from ladder_eval.speed.simulation import simulate


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


def round_of(seconds):
    """A round whose arms take so long for the prompt, twice that for a token, and its half."""
    trials = tuple(
        Trial(
            arm=arm,
            ttft=each,
            itl=(2.5 * each, 1.5 * each),
            driver_seconds=0.0,
            prefill_bound=None,
            decode_bound=0.5,
        )
        for arm, each in seconds.items()
    )
    return Round(
        number=1,
        latency=None,
        prefill_blocks=(),
        decode_blocks=(),
        copied_bytes_per_second=1.0,
        trials=trials,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [4, 8])
@pytest.mark.parametrize(("a", "m", "c"), [(4, 7, 2), (7, 4, 2), (4, 7, 5), (7, 4, 5), (4, 7, 9)])
def test_what_is_extrapolated_is_the_time_of_all_layers(a, m, c, layers, mode):
    # Two ranks that are equally fast, and 30 for what a stack has once.
    wire = Wire(latency=c, bandwidth=float("inf"), mode=mode)

    def time(config):
        return 30 + simulate(config, [[(a, m)] * config.num_hidden_layers] * 2, wire, 0)

    arms = {name: few_layers(config, layers) for name, config in WHOLE.items()}
    depths = {name: depths_of(name, arms[name], WHOLE[name]) for name in arms}
    seconds = {name: time(config) for name, config in arms.items()}
    seconds |= {depths[name].shallow: time(shallower(arms[name])) for name in arms}
    found = extrapolated(round_of(seconds), depths, "standard")
    assert [trial.arm for trial in found.trials] == list(arms)
    for trial in found.trials:
        whole = time(WHOLE[trial.arm])
        assert trial.ttft == pytest.approx(whole), trial.arm
        assert sum(trial.itl) / 2 == pytest.approx(2 * whole), trial.arm


def test_by_hand():
    # 4 layers 50, 2 layers 30: 10 each, so that 80 layers take 50 + 76 * 10. A token takes twice
    # that; what more layers add is added to each gap.
    depths = {"a": Depths(shallow="a (2 layers)", removed=2, missing=76, standard=0)}
    found = extrapolated(round_of({"a": 50, "a (2 layers)": 30}), depths, "a")
    (trial,) = found.trials
    assert (trial.arm, trial.ttft) == ("a", 810)
    assert trial.itl == (125 + 1520, 75 + 1520)
    assert trial.decode_bound == 0.5


def test_a_hybrid_by_hand():
    # A ladder layer takes 52 - 44 = 8, a standard one 10: 52 + 15 * 8 + 61 * 10.
    depths = {
        "standard": Depths(shallow="s", removed=2, missing=76, standard=0),
        "hybrid": Depths(shallow="h", removed=1, missing=15, standard=61),
    }
    seconds = {"standard": 50, "s": 30, "hybrid": 52, "h": 44}
    _, hybrid = extrapolated(round_of(seconds), depths, "standard").trials
    assert hybrid.ttft == 52 + 120 + 610


def test_no_layer_saves_time():
    depths = {"a": Depths(shallow="b", removed=2, missing=76, standard=0)}
    (trial,) = extrapolated(round_of({"a": 50, "b": 51}), depths, "a").trials
    assert (trial.ttft, trial.itl) == (50, (125, 75))


def test_one_token_has_no_gaps():
    depths = {"a": Depths(shallow="b", removed=1, missing=2, standard=0)}
    both = round_of({"a": 5, "b": 3})
    one = replace(both, trials=tuple(replace(trial, itl=()) for trial in both.trials))
    (trial,) = extrapolated(one, depths, "a").trials
    assert (trial.ttft, trial.itl) == (9, ())


def test_depths_of_a_hybrid():
    # Of 4 layers two are standard and two ladder, whatever the whole has.
    config, whole = few_layers(config_of(80, 20), 4), config_of(80, 20)
    assert config == config_of(4, 2)
    assert depths_of("x", config, whole) == Depths(
        shallow="x (3 layers)", removed=1, missing=18, standard=58
    )
    assert shallower(config) == config_of(3, 1)
    assert depths_of("x", config, config_of(80, 79)).standard == -1
    # Of 2 the ladder layer is all that can be left out.
    assert shallower(few_layers(whole, 2)) == config_of(1)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_of_other_residuals_half_is_left_out(name):
    assert shallower(config_of(4, name)) == config_of(2, name)


def test_only_whole_periods_are_extrapolated():
    two, four = {"ladder": config_of(8, "ladder")}, {"desync-4x": config_of(8, "desync-4x")}
    assert [extrapolable(layers, two) for layers in (2, 3, 4, 7)] == [2, 2, 4, 6]
    assert [extrapolable(layers, two | four) for layers in (4, 7, 8)] == [4, 4, 8]
    require_extrapolable(6, two)
    with pytest.raises(UsageError) as caught:
        require_extrapolable(6, two | four)
    assert str(caught.value) == (
        "These residuals are extrapolated from a multiple of 4 layers, of which half are left "
        "out; give --layers 4."
    )
    with pytest.raises(UsageError) as caught:
        require_extrapolable(3, four)
    assert str(caught.value) == (
        "These residuals are extrapolated from 4 layers or more, not from 3."
    )
