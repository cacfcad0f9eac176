import pytest
import torch
from llama_reference import (
    LLAMA3_ROPE,
    load,
    make_llama,
    product_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from torch.testing import assert_close

SHAPES = {
    "grouped queries, tied head": {},
    "full heads": {"num_key_value_heads": 4},
    "one key-value head": {"num_key_value_heads": 1},
    "untied head": {"tie_word_embeddings": False},
    "head_dim unlike hidden/heads": {"head_dim": 24},
    "llama3 rope": {"rope_parameters": LLAMA3_ROPE},
    "large rope_theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    "large eps": {"rms_norm_eps": 0.1},
}


def assert_equal(ours, theirs):
    assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_logits_equal_those_of_transformers(tmp_path, changes):
    model = save_llama(tmp_path, **changes)
    ids = some_ids(columns=100)
    assert_equal(product_logits(load(tmp_path), ids), model(ids).logits.detach())


def test_the_reference_of_these_tests_equals_transformers():
    model = make_llama(head_dim=24, tie_word_embeddings=False)
    assert_equal(reference_logits(model, some_ids()), model(some_ids()).logits.detach())


def test_a_sharded_checkpoint_equals_transformers(tmp_path):
    model = make_llama()
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_equal(product_logits(load(tmp_path), some_ids()), model(some_ids()).logits.detach())


def test_explicit_positions_are_used(tmp_path):
    model, ids = save_llama(tmp_path), some_ids(columns=6)
    positions = torch.tensor([[0, 1, 5, 6, 20, 90], [3, 4, 5, 60, 61, 62]])
    attended = torch.ones_like(ids)  # keeps transformers from taking the gaps for separate texts
    theirs = model(ids, position_ids=positions, attention_mask=attended).logits.detach()
    ours = load(tmp_path)
    assert_equal(product_logits(ours, ids, positions=positions), theirs)
    assert (product_logits(ours, ids) - theirs).abs().max() > 0.01


def test_a_left_padded_row_equals_the_row_alone(tmp_path):
    save_llama(tmp_path)
    model, ids = load(tmp_path), some_ids(rows=1, columns=8)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), ids), 1)
    positions = (torch.arange(11) - 3).clamp(min=0)[None]
    mask = torch.ones(11, 11, dtype=torch.bool).tril()
    mask[:, :3] = False
    mask[:3, :3] = True
    ours = product_logits(model, padded, positions=positions, mask=mask[None, None])
    assert_equal(ours[:, 3:], product_logits(model, ids))


def test_no_token_sees_its_future(tmp_path):
    save_llama(tmp_path)
    model, ids = load(tmp_path), some_ids(rows=1, columns=10)
    changed = ids.clone()
    changed[0, 6:] = (changed[0, 6:] + 1) % 80
    before, after = product_logits(model, ids), product_logits(model, changed)
    assert_equal(before[:, :6], after[:, :6])
    assert (before - after)[:, 6:].abs().amax(-1).min() > 0.01
