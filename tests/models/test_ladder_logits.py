from itertools import combinations

import pytest
import torch
from llama_reference import (
    edit_config,
    load,
    product_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from torch.testing import assert_close

CHOICES = {
    "none": [],
    "first": [0],
    "apart": [3, 7],
    "apart, one before a standard layer": [2, 4],
    "last three": [5, 6, 7],
    "all": [0, 1, 2, 3, 4, 5, 6, 7],
}


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    return folder, save_llama(folder, num_hidden_layers=8)


def logits(deep, ladder_layers):
    edit_config(deep[0], ladder_layers=ladder_layers)
    return product_logits(load(deep[0]), some_ids())


@pytest.mark.parametrize("ladder_layers", CHOICES.values(), ids=CHOICES)
def test_logits_follow_the_equations(deep, ladder_layers):
    expected = reference_logits(deep[1], some_ids(), ladder_layers)
    assert_close(logits(deep, ladder_layers), expected, rtol=0, atol=1e-5)


def test_a_number_means_the_last_layers(deep):
    assert torch.equal(logits(deep, 3), logits(deep, [5, 6, 7]))


def test_every_choice_of_ladder_layers_gives_different_answers(deep):
    answers = [logits(deep, layers) for layers in CHOICES.values()]
    assert min((a - b).abs().max() for a, b in combinations(answers, 2)) > 0.1


def test_both_blocks_of_a_first_ladder_layer_read_the_embedding(tmp_path):
    """With one layer, x = embedding + attention(embedding) + mlp(embedding)."""
    save_llama(tmp_path, num_hidden_layers=1)
    edit_config(tmp_path, ladder_layers=1)
    model, ids = load(tmp_path), some_ids()
    silenced = load(tmp_path)
    silenced.layers[0].self_attn.o_proj.weight.zero_()
    heard = load(tmp_path)
    heard.layers[0].mlp.down_proj.weight.zero_()
    embedding = model.embed_tokens.weight[ids]
    mlp = _stream(silenced, ids) - embedding
    attention = _stream(heard, ids) - embedding
    assert_close(_stream(model, ids), embedding + attention + mlp, rtol=0, atol=1e-5)


def _stream(model, ids):
    """What reaches the final norm."""
    caught = []
    model.norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    model(ids)
    return caught[0]
