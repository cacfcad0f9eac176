"""SmolLM2-135M-Instruct itself, where the cache has it already."""

import pytest
import torch
from llama_reference import load, product_logits, reference_logits
from torch.testing import assert_close
from transformers import AutoTokenizer, LlamaForCausalLM

from ladder_eval.models.checkpoint import load_model

TEXT = "The capital of France is Paris. In 1969, people walked on the Moon\n\nfor the first time."


@pytest.fixture(scope="module")
def theirs(smollm2):
    return LlamaForCausalLM.from_pretrained(smollm2.folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def ids(smollm2):
    return AutoTokenizer.from_pretrained(smollm2.folder)(TEXT, return_tensors="pt").input_ids


def test_standard_logits_equal_those_of_transformers(smollm2, theirs, ids):
    ours = product_logits(load(smollm2.folder), ids)
    assert_close(ours, theirs(ids).logits.detach(), rtol=0, atol=1e-3)


def test_hybrid_logits_follow_the_equations(smollm2, theirs, ids):
    cpu = torch.device("cpu")
    model = load_model(smollm2.folder, smollm2.config, dtype=torch.float32, device=cpu)
    expected = reference_logits(theirs, ids, range(20, 30))
    assert_close(product_logits(model, ids), expected, rtol=0, atol=1e-3)
    assert (expected - theirs(ids).logits).abs().max() > 1


def test_the_model_knows_its_language(smollm2, ids):
    """Weights or token ids in the wrong order would make it guess."""
    logits = product_logits(load(smollm2.folder), ids)
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
    assert loss < 3  # guessing among 49152 costs 10.8


def test_the_tokenizer_cuts_digits_and_has_the_published_special_tokens(smollm2):
    tokenizer = AutoTokenizer.from_pretrained(smollm2.folder)
    assert tokenizer.tokenize("in 1969") == ["in", "Ġ", "1", "9", "6", "9"]
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [
        0,
        1,
        2,
    ]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert len(tokenizer) == 49152
