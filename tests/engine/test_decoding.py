"""Greedy tokens against those of transformers."""

from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace

import pytest
import torch
from thread_ranks import on_ranks
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.distributed.tensor_parallel import ALONE
from ladder_eval.engine.decoding import decode, leading, most_likely
from ladder_eval.models.checkpoint import load_model, read_config

ROWS, PROMPT, NEW = 3, 9, 20
# 83 tokens are divided by neither 2 nor 4; 9 heads neither.
SHAPE = {
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 83,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "initializer_range": 0.4,  # large enough that the best token is clearly the best
    "eos_token_id": None,  # nothing ends a text early
}


def prompts(rows=ROWS, tokens=PROMPT):
    return torch.randint(83, (rows, tokens), generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("greedy")
    torch.manual_seed(11)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """What transformers generates, [rows, new]."""
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    answer = model.generate(
        prompts(),
        attention_mask=torch.ones_like(prompts()),
        do_sample=False,
        max_new_tokens=NEW,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    best = torch.stack(answer.logits).topk(2, dim=-1).values
    assert (best[..., 0] - best[..., 1]).min() > 1e-3  # no other order of summing changes a token
    tokens = answer.sequences[:, PROMPT:]
    assert tokens.shape == (ROWS, NEW)
    assert min(len(set(row)) for row in tokens.tolist()) > 5  # not one token again and again
    return tokens


def load(folder, tp, **changes):
    config = replace(read_config(folder), **changes)
    return load_model(folder, config, dtype=torch.float32, device=torch.device("cpu"), tp=tp)


def generated(model, prompt, output_len=NEW):
    cache = model.new_cache(len(prompt), prompt.shape[1] + output_len - 1)
    return decoded(model, prompt, cache, output_len)


def decoded(model, prompt, cache, output_len=NEW):
    tokens = decode(model, prompt, cache, partial(most_likely, model))
    return torch.stack(list(islice(tokens, output_len)), dim=1)


@pytest.mark.parametrize("tp_size", [1, 2, 4])
def test_greedy_tokens_are_those_of_transformers(folder, expected, tp_size):
    found = on_ranks(tp_size, lambda tp: generated(load(folder, tp), prompts()))
    for own in found:
        assert own.dtype == torch.long
        assert own.tolist() == expected.tolist()


def test_each_row_is_generated_as_if_alone(folder, expected):
    model = load(folder, ALONE)
    alone = [generated(model, row[None])[0].tolist() for row in prompts()]
    assert alone == expected.tolist()


@pytest.mark.parametrize("output_len", [1, 2])
def test_short_outputs_need_no_more_room_than_is_asked_for(folder, expected, output_len):
    found = generated(load(folder, ALONE), prompts(), output_len)
    assert found.tolist() == expected[:, :output_len].tolist()


def test_a_prompt_may_follow_what_is_cached(folder, expected):
    model = load(folder, ALONE)
    cache = model.new_cache(ROWS, PROMPT + NEW - 1)
    with torch.inference_mode():
        model(prompts()[:, :4], cache=cache)
    assert decoded(model, prompts()[:, 4:], cache).tolist() == expected.tolist()


@pytest.mark.parametrize("tp_size", [1, 2])
@pytest.mark.parametrize(
    "changes", [{"ladder_layers": (0, 1, 2, 3)}, {"topology": "parallel"}], ids=["ladder", "p"]
)
def test_other_residuals_generate_what_whole_forwards_choose(folder, expected, changes, tp_size):
    """Without a cache: the text so far is read anew for every token."""

    def anew(model):
        ids = prompts()
        for _ in range(NEW):
            ids = torch.cat((ids, model.logits(model(ids)[:, -1]).argmax(-1)[:, None]), dim=1)
        return ids[:, PROMPT:]

    (whole,) = on_ranks(1, lambda tp: anew(load(folder, tp, **changes)))
    found = on_ranks(tp_size, lambda tp: generated(load(folder, tp, **changes), prompts()))
    assert whole.tolist() != expected.tolist()
    assert [own.tolist() for own in found] == [whole.tolist()] * tp_size


def test_the_first_rank_with_the_largest_logit_leads():
    # Rows: rank 1 alone; ranks 1 and 2 alike; all alike; rank 2 alone.
    largest = torch.tensor([[1.0, 2, 5, -9], [4.0, 3, 5, -8], [2.0, 3, 5, -7]])
    tokens = torch.tensor([[3.0, 4, 5, 6], [40.0, 41, 42, 43], [70.0, 71, 72, 73]])
    chosen = leading(largest, tokens)
    assert chosen.tolist() == [40, 41, 5, 73]
    assert chosen.dtype == torch.long


def test_of_equal_logits_the_first_is_the_most_likely():
    logits = torch.tensor([[0.0, 2.0, 1.0, 2.0], [3.0, 3.0, 3.0, 3.0], [-1.0, -2.0, -1.0, -0.5]])
    model = SimpleNamespace(logits=lambda hidden: hidden, vocabulary=range(4), tp=ALONE)
    assert most_likely(model, logits).tolist() == [1, 0, 3]
    model.vocabulary = range(128_000, 128_004)
    assert most_likely(model, logits).tolist() == [128_001, 128_000, 128_003]


@pytest.mark.parametrize("cut", [1, 30, 82])
def test_cut_at_any_rank_equal_logits_give_the_first(cut):
    logits = torch.zeros(4, 83)
    logits[0, [29, 30]] = 1.0
    logits[1, [0, 82]] = 1.0
    logits[2, 82] = 1.0  # and row 3 is all alike
    parts = [range(cut), range(cut, 83)]

    def work(tp):
        own = parts[tp.rank]
        model = SimpleNamespace(logits=lambda hidden: hidden, vocabulary=own, tp=tp)
        return most_likely(model, logits[:, own.start : own.stop]).tolist()

    assert on_ranks(2, work) == [[29, 0, 82, 0]] * 2
