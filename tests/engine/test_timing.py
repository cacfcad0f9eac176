"""What is timed, by a clock that the blocks themselves move on."""

import gc
import platform
import subprocess
import sys

import pytest
import torch
from thread_ranks import on_ranks

from ladder_eval.engine import timing
from ladder_eval.engine.timing import (
    copied_bytes_per_second,
    time_generation,
    watched_blocks,
    watched_layers,
)
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.layers import PreNormBlock
from ladder_eval.models.random_weights import random_model
from ladder_eval.results.speed_records import Workload

CPU = torch.device("cpu")
LAYERS = 3


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", clock)
    return clock


@pytest.fixture
def model():
    return model_of()


def model_of(**group):
    config = ModelConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        vocab_size=50,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        tie_word_embeddings=True,
        topology="no-comm",
    )
    return random_model(config, dtype=torch.float32, device=CPU, **group)


def take(module, clock, seconds):
    """Let a module take so many seconds of the clock."""
    real = module.forward

    def forward(*arguments):
        clock.now += seconds
        return real(*arguments)

    module.forward = forward


def make_slow(model, clock):
    """Attention of layer i takes 10 i + 1 seconds, its MLP 10 i + 2, all else none."""
    for index, layer in enumerate(model.layers):
        take(layer.self_attn, clock, 10 * index + 1)
        take(layer.mlp, clock, 10 * index + 2)


SLOW = [(1, 2), (11, 12), (21, 22)]


def ids(tokens=5):
    return torch.arange(2 * tokens).view(2, tokens)


def assert_own_methods(model):
    for layer in model.layers:
        assert layer.attention.__func__ is PreNormBlock.attention
        assert layer.feed_forward.__func__ is PreNormBlock.feed_forward


def test_blocks_are_told_by_forward_and_layer(model, clock):
    make_slow(model, clock)
    with torch.inference_mode(), watched_blocks(model) as blocks:
        for tokens in (5, 1, 1, 1):
            model(ids(tokens))
            clock.now += 1000  # between forwards
    assert blocks == [SLOW] * 4


def test_forwards_may_take_different_times(model, clock):
    with torch.inference_mode(), watched_blocks(model) as blocks:
        model(ids())
        make_slow(model, clock)
        model(ids())
    assert blocks == [[(0, 0)] * LAYERS, SLOW]


def test_no_forward_has_no_blocks(model):
    with watched_blocks(model) as blocks:
        pass
    assert blocks == []


@torch.inference_mode()
def test_watching_changes_no_answer_and_ends(model, clock):
    before = model(ids())
    with watched_blocks(model) as blocks:
        assert torch.equal(model(ids()), before)
    assert_own_methods(model)
    assert torch.equal(model(ids()), before)
    assert len(blocks) == 1
    with watched_blocks(model) as again:
        model(ids())
    assert len(again) == 1


@pytest.mark.parametrize("block", ["self_attn", "mlp"])
def test_an_error_within_is_raised_and_ends_the_watching(model, clock, block):
    def fail(*arguments):
        raise ArithmeticError("too much")

    make_slow(model, clock)
    with torch.inference_mode():
        getattr(model.layers[1], block).forward = fail
        with pytest.raises(ArithmeticError, match="too much"), watched_blocks(model) as blocks:
            model(ids())
    assert_own_methods(model)
    # The layer before it was whole.
    assert blocks == [SLOW[:1]]


def test_each_token_is_timed_from_the_start(model, clock):
    make_slow(model, clock)
    clock.now = 500.0
    workload = Workload(batch_size=2, prompt_len=5, output_len=4)
    # 1+2 + 11+12 + 21+22 = 69 a forward, and a forward for each token.
    assert time_generation(model, workload) == (69, 138, 207, 276)
    assert gc.isenabled()


@pytest.mark.parametrize("output_len", [1, 3])
def test_a_cache_may_pretend_to_hold_tokens(model, monkeypatch, output_len):
    """Keys that a forward looks at, seen where attention computes."""
    seen, real = [], timing.decode

    def decode(model, prompt, cache, choose):
        for token in real(model, prompt, cache, choose):
            seen.append((cache.length, tuple(prompt.shape)))
            yield token

    monkeypatch.setattr(timing, "decode", decode)
    workload = Workload(batch_size=2, prompt_len=1, output_len=output_len)
    moments = time_generation(model, workload, cached=7)
    assert len(moments) == output_len
    assert seen == [(7 + 1 + step, (2, 1)) for step in range(output_len)]


def test_all_ranks_generate_from_the_same_prompt(monkeypatch):
    prompts, real = [], timing.decode

    def decode(model, prompt, cache, choose):
        prompts.append(prompt)
        return real(model, prompt, cache, choose)

    monkeypatch.setattr(timing, "decode", decode)
    workload = Workload(batch_size=3, prompt_len=6, output_len=2)
    found = on_ranks(2, lambda tp: time_generation(model_of(tp=tp), workload))
    assert [len(moments) for moments in found] == [2, 2]
    assert torch.equal(prompts[0], prompts[1])
    assert prompts[0].shape == (3, 6)
    assert len(prompts[0].unique()) > 6


def test_an_error_in_a_generation_leaves_the_collector_on(model):
    model.norm.forward = None
    with pytest.raises(TypeError):
        time_generation(model, Workload(batch_size=1, prompt_len=2, output_len=1))
    assert gc.isenabled()


def test_the_best_of_five_copies_counts_reading_and_writing(monkeypatch):
    looks = iter([0, 4, 10, 12, 20, 21, 30, 33, 40, 45])  # 4, 2, 1, 3 and 5 seconds
    monkeypatch.setattr(timing, "_COPIED_BYTES", 1000)
    monkeypatch.setattr(timing, "perf_counter", lambda: next(looks))
    assert copied_bytes_per_second(model_of().tp, CPU) == 2000
    assert next(looks, None) is None


FAULTS = """
import resource, sys
import torch
from ladder_eval.engine.timing import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(12):  # the first pieces are new to the process in any case
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**26, dtype=torch.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_costs_no_page_faults_to_get_again():
    # In processes of their own, since the switch can't be turned back.
    kept, given_back = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, word])) for word in ("kept", "")
    )
    assert kept < 10 < given_back


@torch.inference_mode()
def test_layers_last_until_the_next_and_the_last_until_its_end(model, clock):
    make_slow(model, clock)
    with watched_layers(model) as layers:
        for _ in range(2):
            model(ids())
            clock.now += 1000  # after the last layer
    assert layers == [[attention + mlp for attention, mlp in SLOW]] * 2
    assert "forward" not in vars(model.layers[0])
    with watched_layers(model) as again:
        pass
    assert again == []
