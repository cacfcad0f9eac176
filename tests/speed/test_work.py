"""Operations and bytes, counted by hand or by torch itself."""

from dataclasses import replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from ladder_eval.distributed.shares import shares
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.random_weights import random_model
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.work import prefill_flops, step_bytes, work_of

CONFIG = ModelConfig(
    hidden_size=12,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=4,
    vocab_size=50,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
WORKLOAD = Workload(batch_size=3, prompt_len=5, output_len=4)
ALONE = shares(CONFIG.shape, 1)


def test_operations_of_a_prompt_by_hand():
    # Query and output 12 x 12, key and value 12 x 4, three of the MLP 12 x 20: 1104 products a
    # token of 15. Three heads of 4 look at 1 + 2 + 3 + 4 + 5 = 15 keys a row, twice.
    layer = 2 * 15 * (2 * 144 + 2 * 48 + 3 * 240) + 2 * 2 * 4 * 3 * (3 * 15)
    assert prefill_flops(CONFIG, WORKLOAD, ALONE) == 2 * layer + 2 * 3 * 12 * 50


def test_operations_of_matrix_products_are_those_that_torch_counts():
    model = random_model(CONFIG, dtype=torch.float32, device=torch.device("cpu"))
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model.logits(model(torch.ones(3, 5, dtype=torch.long))[:, -1])
    # torch counts what linear layers do; of attention it may know nothing on a CPU.
    products = sum(
        count
        for name, count in counter.get_flop_counts()["Global"].items()
        if name in (torch.ops.aten.mm, torch.ops.aten.addmm)
    )
    attention = 2 * 2 * 2 * 4 * 3 * (3 * 15)
    assert prefill_flops(CONFIG, WORKLOAD, ALONE) - attention == products


def test_bytes_of_a_step_by_hand():
    # Two ranks hold the only key-value head each: 2 layers, keys and values of 4 channels, for 3
    # rows of 5 tokens and half of 4.
    parts = shares(CONFIG.shape, 2)
    cache = 2 * 2 * 2 * 4 * 3 * 7
    assert step_bytes(CONFIG, WORKLOAD, parts, 1000) == 1000 + cache
    # An embedding that isn't the head is left out.
    own = replace(CONFIG, tie_word_embeddings=False)
    assert step_bytes(own, WORKLOAD, parts, 5000) == 5000 + cache - 50 * 12


def test_one_rank_of_two_whose_layers_stand_for_ten():
    """Its own query heads, its copy of the key-value head, half of the rest; 5 times the layers."""
    first, second = shares(CONFIG.shape, 2)
    both = prefill_flops(CONFIG, WORKLOAD, [first, second])
    assert (
        prefill_flops(CONFIG, WORKLOAD, [first]) + prefill_flops(CONFIG, WORKLOAD, [second]) == both
    )
    heads = len(first.query_heads)
    layer = 2 * 15 * 12 * (4 * (2 * heads + 2) + 3 * 10) + 2 * 2 * 4 * heads * (3 * 15)
    assert prefill_flops(CONFIG, WORKLOAD, [first], 5.0) == 10 * layer + 2 * 3 * 12 * 25
    cache = 2 * 2 * 4 * 3 * 7
    head = 25 * 12 + 12  # with the last norm
    assert step_bytes(CONFIG, WORKLOAD, [first], 900, 5.0) == head + 5 * (900 - head + cache)


def test_work_is_of_the_ranks_that_are_timed():
    parts = shares(CONFIG.shape, 2)
    found = work_of(CONFIG, WORKLOAD, parts, 1000, 2, ranks=2)
    assert found.ranks == 2
    assert found.prefill_flops == prefill_flops(CONFIG, WORKLOAD, parts)
    assert found.step_bytes == 2 * step_bytes(CONFIG, WORKLOAD, parts, 500)
