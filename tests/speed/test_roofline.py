"""A rank's kernels by hand: 1000 operations and 100 bytes a second, 1 s a kernel."""

from dataclasses import replace

import numpy as np
import pytest

from ladder_eval.models.registry import MODELS
from ladder_eval.speed.roofline import EXECUTIONS, Rates, Tokens, forward_times

RATES = Rates(flops=1000.0, bandwidth=100.0, kernel=1.0, dtype_bytes=2)
GRAPH = EXECUTIONS["cuda_graph+flash"]


def test_a_product_is_bound_by_operations_or_by_bytes():
    # 2·8·4·5 = 320 operations; 2 bytes of 4·5 weights, 8·4 inputs and 8·5 outputs.
    assert RATES.matmul(8, 4, 5) == pytest.approx(2 * (20 + 32 + 40) / 100 + 1)
    fast = replace(RATES, bandwidth=1e9)
    assert fast.matmul(8, 4, 5, kernels=3) == pytest.approx(320 / 1000 + 3)


def test_elementwise_kernels_read_and_write():
    assert RATES.elementwise(50, kernels=2) == pytest.approx(2 * (2 * 2 * 50 / 100 + 1))


# Two heads on two ranks, groups of one.
TINY = replace(
    MODELS["standard_8b"].config,
    hidden_size=8,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=16,
)


def test_one_token_of_a_layer():
    tokens = Tokens(rows=3, seq=1, cached=np.array([9.0, 19.0]), capacity=32)
    found = forward_times(TINY, 2, tokens, RATES, GRAPH)
    around = 2 * (4 * 3 * 8 / 100 + 1)  # a norm and an addition of 3 x 8 numbers
    qkv = 2 * (8 * 12 + 3 * 20) / 100 + 1  # one head's query, key and value
    rotary = 12 * (4 * 3 * 12 / 100 + 1)
    keys = np.array([10, 20])
    mixing = 2 * 2 * 3 * keys * 1 * 4 / 100 + 2  # keys and values of one head
    output = 2 * (4 * 8 + 3 * 12) / 100 + 1
    assert found.attention == pytest.approx(around + qkv + rotary + mixing + output)
    up = 2 * (8 * 12 + 3 * 20) / 100 + 1
    activation = 2 * (4 * 3 * 6 / 100 + 1)
    down = 2 * (6 * 8 + 3 * 14) / 100 + 1
    assert found.mlp == pytest.approx(around + up + activation + down)
    assert found.head == pytest.approx(around / 2 + 2 * (8 * 16 + 3 * 24) / 100 + 1)
    assert found.division == pytest.approx(around / 2)


def test_compiled_decoding_reads_the_padded_cache_once_a_query_head():
    grouped = replace(TINY, num_attention_heads=4, num_key_value_heads=2)
    tokens = Tokens(rows=3, seq=1, cached=9.0, capacity=32)
    rate = replace(RATES, kernel=0.0)
    longer = replace(tokens, capacity=42)
    compiled = EXECUTIONS["compile"]
    more = (
        forward_times(grouped, 2, longer, rate, compiled).attention
        - forward_times(grouped, 2, tokens, rate, compiled).attention
    )
    assert more == pytest.approx(2 * 2 * 3 * 10 * 2 * 4 / 100)  # 10 keys of two heads a rank
    flash = forward_times(grouped, 2, longer, rate, GRAPH).attention
    assert flash == forward_times(grouped, 2, tokens, rate, GRAPH).attention


def test_a_prompt_is_bound_by_operations():
    rate = Rates(flops=1e3, bandwidth=1e12, kernel=0.0, dtype_bytes=2)
    tokens = Tokens(rows=2, seq=6, cached=0.0, capacity=8)
    found = forward_times(TINY, 1, tokens, rate, GRAPH)
    products = 2 * 12 * (8 * 24 + 8 * 8)  # query, key, value; output
    causal = 4 * 2 * 6 * 6 * 2 * 4 / 2
    assert found.attention == pytest.approx((products + causal) / 1e3)
    assert found.mlp == pytest.approx(2 * 12 * (8 * 24 + 12 * 8) / 1e3)
    assert found.head == pytest.approx(2 * 12 * 8 * 16 / 1e3)  # logits of all positions
    own = forward_times(TINY, 2, tokens, rate, EXECUTIONS["eager"])
    assert own.head == pytest.approx(2 * 2 * 8 * 8 / 1e3)  # of the last, half of the vocabulary


def test_the_rank_with_most_heads_counts():
    three = replace(TINY, num_attention_heads=3, num_key_value_heads=3)
    rate = Rates(flops=1e3, bandwidth=1e12, kernel=0.0, dtype_bytes=2)
    tokens = Tokens(rows=1, seq=4, cached=0.0, capacity=8)
    two_heads = 2 * 4 * (8 * 24 + 8 * 8) + 4 * 4 * 4 * 2 * 4 / 2
    assert forward_times(three, 2, tokens, rate, GRAPH).attention == pytest.approx(two_heads / 1e3)
