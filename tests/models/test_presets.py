"""The paper's shapes against its printed sizes and against transformers' own count."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.models.config import RopeScaling, config_to_hf
from ladder_eval.models.presets import presets
from ladder_eval.models.registry import MODELS

PRESETS = {model.name: model for model in presets()}
SIZES = ["1b", "1.55b", "3b", "3.9b", "8b", "34b", "70b", "176b", "405b"]


def config(size):
    return PRESETS[f"standard_{size}"].config


def test_every_shape_has_three_residuals_and_8b_two_hybrids():
    names = {f"{kind}_{size}" for kind in ("standard", "ladder", "parallel") for size in SIZES}
    assert set(PRESETS) == names | {"hybrid_ladder_8b_16l", "hybrid_ladder_8b_20l"}
    assert all(MODELS[name] == model for name, model in PRESETS.items())


@pytest.mark.parametrize("size", SIZES)
def test_the_residual_is_all_that_differs(size):
    dense = PRESETS[f"standard_{size}"]
    assert (dense.config.residual, dense.baseline, dense.weights) == ("standard", None, None)
    ladder, parallel = PRESETS[f"ladder_{size}"], PRESETS[f"parallel_{size}"]
    assert ladder.config.ladder_layers == tuple(range(dense.config.num_hidden_layers))
    assert (ladder.config.residual, parallel.config.residual) == ("ladder", "parallel")
    assert replace(ladder.config, ladder_layers=()) == dense.config
    assert replace(parallel.config, topology="standard") == dense.config
    assert ladder.baseline == parallel.baseline == dense.name
    assert ladder.weights is parallel.weights is None


@pytest.mark.parametrize(("depth", "first"), [(16, 16), (20, 12)])
def test_hybrids_end_in_ladder_layers(depth, first):
    hybrid = PRESETS[f"hybrid_ladder_8b_{depth}l"]
    assert hybrid.config.ladder_layers == tuple(range(first, 32))
    assert replace(hybrid.config, ladder_layers=()) == config("8b")
    assert hybrid.baseline == "standard_8b"
    assert hybrid.about == "adapted from Llama-3.1-8B-Instruct in the paper"


# 8b, 34b, 70b and 405b as their authors publish them; 1b, 3b and 176b as the paper prints them;
# 1.55b and 3.9b computed by hand: 52 layers of 28 314 624 and of 84 939 264, and the rest.
PARAMETERS = [
    ("1b", 1.208e9, 3),
    ("1.55b", 1.548e9, 3),
    ("3b", 3.511e9, 3),
    ("3.9b", 4.530e9, 3),
    ("8b", 8_030_261_248, 9),
    ("34b", 33_743_970_304, 10),
    ("70b", 70_553_706_496, 10),
    ("176b", 215.8e9, 3),
    ("405b", 405_853_388_800, 11),
]


@pytest.mark.parametrize(("size", "published", "decimals"), PARAMETERS)
def test_parameters_are_the_published_ones_in_their_digits(size, published, decimals):
    assert f"{config(size).parameters:.{decimals}e}" == f"{published:.{decimals}e}"


@pytest.mark.parametrize("size", ["1b", "3.9b", "8b", "405b"])
def test_parameters_are_those_of_transformers(size):
    with torch.device("meta"):
        # One layer more or less is the same difference in both: two layers settle all of them.
        small = replace(config(size), num_hidden_layers=2)
        theirs = LlamaForCausalLM(LlamaConfig(**config_to_hf(small)))
    assert theirs.num_parameters() == small.parameters
    assert theirs.config.head_dim == config(size).head_dim


@pytest.mark.parametrize(
    ("size", "layers", "heads", "kv_heads", "head_dim"),
    [
        ("1b", 40, 24, 24, 64),
        ("1.55b", 52, 24, 24, 64),
        ("3b", 40, 36, 36, 64),  # timed with 32
        ("3.9b", 52, 32, 32, 72),
        ("8b", 32, 32, 8, 128),
        ("34b", 48, 64, 8, 128),
        ("70b", 80, 64, 8, 128),
        ("176b", 70, 112, 112, 128),
        ("405b", 126, 128, 8, 128),  # timed with 16 key-value heads
    ],
)
def test_heads_are_those_of_training(size, layers, heads, kv_heads, head_dim):
    shape = config(size)
    assert shape.num_hidden_layers == layers
    assert (shape.num_attention_heads, shape.num_key_value_heads) == (heads, kv_heads)
    assert shape.head_dim == head_dim


def test_only_the_smallest_tie_their_embeddings():
    tied = [size for size in SIZES if config(size).tie_word_embeddings]
    assert tied == ["1b", "1.55b", "3b", "3.9b"]


def test_positions():
    assert {
        size: (config(size).rope_theta, config(size).max_position_embeddings) for size in SIZES
    } == {
        "1b": (10_000, 2048),
        "1.55b": (10_000, 2048),
        "3b": (10_000, 2048),
        "3.9b": (10_000, 2048),
        "8b": (500_000, 131_072),
        "34b": (1_000_000, 16_384),
        "70b": (500_000, 8192),
        "176b": (10_000, 2048),
        "405b": (500_000, 131_072),
    }
    scaled = {size: config(size).rope_scaling for size in SIZES if config(size).rope_scaling}
    llama_31 = RopeScaling(
        factor=8,
        low_freq_factor=1,
        high_freq_factor=4,
        original_max_position_embeddings=8192,
    )
    assert scaled == {"8b": llama_31, "405b": llama_31}


def test_they_need_no_torch():
    program = "import sys, ladder_eval.models.models_file; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
