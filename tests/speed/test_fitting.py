"""Sizes by hand, and models that are cut until they fit."""

from dataclasses import replace

import pytest

from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.fitting import fitted, needed_bytes, with_layers

RANK = 700 * 2**20  # what a rank takes before it holds any weight
WORKLOAD = Workload(batch_size=3, prompt_len=5, output_len=7)
GIB = 2**30


def config_of(**changes):
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 2,
        "vocab_size": 10,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e4,
        "tie_word_embeddings": True,
    }
    return ModelConfig(**(sizes | changes))


def large(**changes):
    """A model of which a layer is 6 MiB, and an embedding of 128,000 tokens 125 MiB."""
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 1664,
        "num_hidden_layers": 32,
        "head_dim": 64,
        "vocab_size": 128_000,
    }
    return config_of(**(sizes | changes))


def room_for(config, tp_size=2, dtype_bytes=4):
    """Free memory of which 0.85 is just enough."""
    return int(needed_bytes(config, WORKLOAD, tp_size, dtype_bytes) / 0.85) + 1


def cut(config, free, tp_size=2, dtype_bytes=4):
    return fitted(config, WORKLOAD, tp_size, dtype_bytes, free)


@pytest.mark.parametrize(
    ("ladder", "count", "expected"),
    [
        (range(16, 32), 16, range(8, 16)),
        (range(16, 32), 8, range(4, 8)),
        (range(16, 32), 2, [1]),
        # Of 32 layers 1, 4, 8, 11, 14, 17, 20, 24, 27 and 30 are kept.
        (range(16, 32), 10, range(5, 10)),
        ([0, 3, 4, 24, 31], 10, [1, 7]),
        ([1, 2], 16, [0]),  # 1, 3, 5, ... are kept
        # 8 and 24 are kept; that neither of them is a ladder layer leaves the last to be one.
        ([0, 3, 30, 31], 2, [1]),
        ([2], 16, [15]),
        ([31], 16, [15]),
        (range(32), 7, range(7)),
        ([], 7, []),
        ([5, 6], 32, [5, 6]),
    ],
)
def test_each_layer_keeps_the_residual_of_the_one_that_it_stands_for(ladder, count, expected):
    whole = config_of(num_hidden_layers=32, ladder_layers=tuple(ladder))
    found = with_layers(whole, count)
    expected = tuple(expected)
    assert found == replace(whole, num_hidden_layers=count, ladder_layers=expected)


def test_another_residual_stays():
    found = with_layers(config_of(num_hidden_layers=8, topology="desync-4x"), 3)
    assert (found.num_hidden_layers, found.residual) == (3, "desync-4x")


def test_needed_bytes_by_hand():
    # A layer: query and output 8*8 each, key and value 8*4 each, MLP 3*8*16, norms 2*8: 592.
    # Four of them, an embedding of 10*8 and a norm of 8: 2456 weights of 2 bytes.
    weights = 4912
    # Keys and values of 4 layers, 3 rows of 12 tokens, 2 heads of 2 channels, 2 bytes.
    cache = 2 * 4 * 3 * 12 * 2 * 2 * 2
    assert cache == 2304
    # The 15 tokens of the prompts, 8 streams of 8 on both ranks and 3 MLPs of 16, 2 bytes.
    activations = 15 * (8 * 2 * 8 + 3 * 16) * 2
    assert activations == 5280
    logits = 4 * 3 * 10  # float32
    expected = weights + cache + activations + logits + 2 * RANK
    assert needed_bytes(config_of(), WORKLOAD, 2, 2) == expected


def test_a_key_value_head_is_held_by_each_rank_that_reads_it():
    # Four ranks hold 4 of 2 heads, so that caches take twice as much; 4 * 8 streams of 8.
    expected = 4912 + 2 * 2304 + 15 * (8 * 4 * 8 + 3 * 16) * 2 + 120 + 4 * RANK
    assert needed_bytes(config_of(), WORKLOAD, 4, 2) == expected


def test_an_untied_head_and_wider_numbers_count():
    # Another 80 weights; all in 4 bytes but the logits, which are always so.
    expected = (2456 + 80) * 4 + 2 * 2304 + 2 * 5280 + 120 + 2 * RANK
    assert needed_bytes(config_of(tie_word_embeddings=False), WORKLOAD, 2, 4) == expected


def test_a_model_that_fits_is_left_alone():
    config = large(ladder_layers=tuple(range(16, 32)))
    assert cut(config, room_for(config)) is config


@pytest.mark.parametrize("layers", [31, 16, 2])
def test_as_many_layers_as_fit_are_kept(layers):
    config = large(ladder_layers=tuple(range(16, 32)))
    found = cut(config, room_for(with_layers(config, layers)))
    assert found == with_layers(config, layers)
    assert found.vocab_size == 128_000


def test_a_byte_too_little_takes_a_layer():
    config = large()
    assert cut(config, room_for(config) - 2).num_hidden_layers == 31


@pytest.mark.parametrize("layers", [2, 9])
def test_where_two_layers_do_not_fit_the_vocabulary_is_cut(layers):
    config = large(ladder_layers=tuple(range(32)))
    few = replace(config, vocab_size=4096)
    found = cut(config, room_for(with_layers(few, layers)))
    assert found == with_layers(few, layers)
    assert found.residual == "ladder"


@pytest.mark.parametrize("layers", [2, 3, 10])
def test_with_few_tokens_all_layers_may_fit(layers):
    config = large(num_hidden_layers=layers)
    few = replace(config, vocab_size=4096)
    assert cut(config, room_for(few)) == few


def test_a_small_vocabulary_stays():
    config = large(vocab_size=100)
    found = cut(config, room_for(with_layers(config, 2)))
    assert (found.num_hidden_layers, found.vocab_size) == (2, 100)


def test_two_layers_that_do_not_fit_are_one_sentence():
    # As Llama 3.1 405B. A layer: 2*16384*16384 + 2*16384*1024 + 3*16384*53248 + 2*16384 =
    # 3,187,703,808 weights; two, two matrices of 4096*16384, a norm: 6,509,641,728, in 4 bytes
    # 24.25 GiB. With 1.4 GiB of ranks and 2 MiB of the rest, by 0.85: 30.1 GiB.
    config = config_of(
        hidden_size=16384,
        intermediate_size=53248,
        num_hidden_layers=126,
        num_attention_heads=128,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128_256,
        tie_word_embeddings=False,
    )
    with pytest.raises(UsageError) as raised:
        fitted(config, Workload(batch_size=1, prompt_len=1, output_len=1), 2, 4, 8 * GIB)
    assert str(raised.value) == (
        "Two layers of this model take 30 GiB to be timed, and 8 GiB are free; use a larger "
        "machine, or --dtype bfloat16."
    )
