"""Unique tokens and operations of requests, counted by hand or by torch itself."""

import math
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ladder_eval.models.config import ModelConfig
from ladder_eval.models.random_weights import random_model
from ladder_eval.speed.products import products_flops_per_second
from ladder_eval.speed.request_work import Asked, Trie, counts_of, trie_of, work_of_requests

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
# Query and output 12 x 12, key and value 12 x 4, three of the MLP 12 x 20, in two layers.
LINEARS = 2 * (2 * 144 + 2 * 48 + 3 * 240)


def asked(scored=(), written=()):
    return Asked(documents=1, requests=len(scored) + len(written), scored=scored, written=written)


def test_what_requests_share_is_one_node():
    # 1 2 3 then 4 (5 only predicted), 4 (6 only predicted), 7 8 (9 only predicted); 2 3 is no
    # beginning of theirs, although its tokens are among them.
    requests = [
        ((1, 2, 3), (4, 5)),
        ((1, 2, 3), (4, 6)),
        ((1, 2, 3), (7, 8, 9)),
        ((2, 3), (4,)),
    ]
    # 1, 12, 123, 1234, 1237, 12378 and 2, 23; asked after 123, 1234, 1237, 12378 and 23.
    assert trie_of(requests) == Trie(nodes=8, pairs=1 + 2 + 3 + 4 + 4 + 5 + 1 + 2, predicted=5)


@pytest.mark.parametrize(
    ("requests", "nodes", "predicted"),
    [
        ([], 0, 0),
        ([((1,), (2,)), ((1,), (3,))], 1, 1),  # choices of one token read the context alone
        ([((1, 2), (3,))] * 5, 2, 1),  # the same request again
        ([((1, 2), (3, 4)), ((1, 2, 3), (4,))], 3, 2),  # one's continuation is the other's context
        ([((9,), (1, 2)), ((9, 1), (2, 3))], 3, 3),
    ],
)
def test_borders_of_the_trie(requests, nodes, predicted):
    found = trie_of(requests)
    assert (found.nodes, found.predicted) == (nodes, predicted)


def test_counts_of_choices_and_texts():
    scored = [((1, 2, 3), (4, 5)), ((1, 2, 3), (6,))]
    written = [((7, 8), (9, 9, 9)), ((7, 1), ()), ((7,), (5,))]
    found = counts_of(asked(scored, written))
    assert found.requests == 5
    assert found.tokens == 5 + 4 + 5 + 2 + 2
    # 1, 12, 123, 1234; 7, 78, 71; and of the text of three tokens the first two.
    assert found.unique_tokens == 4 + 3 + 2
    # After 123, 1234, after each of three prompts, and after two written tokens.
    assert found.predicted_tokens == 2 + 3 + 2
    assert found.written_tokens == 4


def test_operations_of_shared_requests_are_those_that_torch_counts():
    """One forward over a row that shares nothing, and one over what two requests need."""
    model = random_model(CONFIG, dtype=torch.float32, device=torch.device("cpu"))
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        hidden = model(torch.tensor([[1, 2, 3, 4, 5]]))
        model.logits(hidden[0, 2:])
    products = sum(
        count
        for name, count in counter.get_flop_counts()["Global"].items()
        if name in (torch.ops.aten.mm, torch.ops.aten.addmm)
    )
    # Asked for after 3, 4 and 5; the second request adds nothing to be read.
    requests = [((1, 2, 3), (4, 5, 6)), ((1, 2, 3, 4), (7,))]
    work = work_of_requests(CONFIG, asked(requests), rows=8, dtype_bytes=4)
    attention = 2 * 4 * 4 * 3 * (1 + 2 + 3 + 4 + 5)
    assert work.flops == work.read_flops == products + attention
    assert products == 2 * (5 * LINEARS + 3 * 12 * 50)
    assert work.write_bytes == 0


def test_work_of_writing_by_hand():
    # Two texts on one row at a time: three steps and one, of tokens at places 3, 4, 5 and 2.
    written = [((1, 2), (3, 4, 5, 6)), ((1,), (3, 4))]
    work = work_of_requests(CONFIG, asked(written=written), rows=1, dtype_bytes=2)
    pairs = 3 + 4 + 5 + 2
    assert work.write_flops == 2 * 4 * (LINEARS + 12 * 50) + 2 * 4 * 4 * 3 * pairs
    # Keys and values of 4 channels in two layers, a pair each.
    assert work.write_bytes == 2 * (4 * CONFIG.parameters + 2 * 2 * 4 * pairs)
    together = work_of_requests(CONFIG, asked(written=written), rows=2, dtype_bytes=2)
    assert together.write_bytes == 2 * (3 * CONFIG.parameters + 2 * 2 * 4 * pairs)
    assert together.write_flops == work.write_flops
    # An embedding that isn't the head is read in rows.
    own = replace(CONFIG, tie_word_embeddings=False)
    untied = work_of_requests(own, asked(written=written), rows=1, dtype_bytes=2)
    assert untied.write_bytes == work.write_bytes + 2 * 4 * (own.parameters - 600) - 2 * 4 * (
        CONFIG.parameters
    )


def test_products_count_their_own_operations():
    """By torch's own count of one pass: three passes, and logits in slices."""
    linears, head = [torch.ones(4, 6), torch.ones(6, 4)], torch.ones(50, 6)
    with FlopCounterMode(display=False) as counter:
        pace = products_flops_per_second(linears, head, rows=5, head_rows=300)
    assert counter.get_total_flops() == 3 * 2 * (5 * (24 + 24) + 300 * 300)
    assert 0 < pace < math.inf
