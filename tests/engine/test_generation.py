"""Prompts of any lengths side by side: each text is what transformers makes of it alone."""

import math
from dataclasses import replace

import pytest
import torch
from thread_ranks import on_ranks
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.distributed.tensor_parallel import ALONE
from ladder_eval.engine import generation
from ladder_eval.engine.generation import GenerationRequest, generate
from ladder_eval.engine.sampling import Sampling
from ladder_eval.engine.scoring import NotFiniteError
from ladder_eval.models.checkpoint import load_model, read_config

NEW = 30
# 9 heads in 3 groups and 83 tokens are divided unevenly by 2 and by 4.
SHAPE = {
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 83,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "initializer_range": 0.4,  # large enough that the best token is clearly the best
    "eos_token_id": None,
}
LENGTHS = (3, 300, 17, 1, 64, 65)
WARM = Sampling(temperature=1.2, top_k=30, top_p=0.95, seed=5)


def never(tokens):
    return False


def prompts():
    chance = torch.Generator().manual_seed(9)
    return [tuple(torch.randint(83, (n,), generator=chance).tolist()) for n in LENGTHS]


def ask(**settings):
    return [GenerationRequest(prompt, NEW, **settings) for prompt in prompts()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generation")
    torch.manual_seed(3)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


@pytest.fixture(scope="module")
def expected(folder):
    """Each prompt alone in transformers; every best token is clearly the best."""
    theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    texts = []
    for prompt in prompts():
        answer = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt)),
            do_sample=False,
            max_new_tokens=NEW,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.cat(answer.logits).topk(2).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-3
        texts.append(answer.sequences[0, len(prompt) :].tolist())
    assert min(len(set(text)) for text in texts) > 5
    return texts


def load(folder, tp=ALONE):
    config = read_config(folder)
    return load_model(folder, config, dtype=torch.float32, device=torch.device("cpu"), tp=tp)


def run(model, requests, stops=None, batch_size=8):
    """All texts in the order of the requests, on rank 0; none on the others."""
    stops = (stops or [never] * len(requests)) if model.tp.rank == 0 else ()
    found = dict(generate(model, requests, stops, batch_size=batch_size))
    return [found[i] for i in range(len(requests))] if model.tp.rank == 0 else list(found)


def tokens(texts):
    return [list(text.tokens) for text in texts]


@pytest.mark.parametrize("batch_size", [1, 4, 8])
def test_greedy_texts_are_those_of_transformers_in_any_batch(model, expected, batch_size):
    found = run(model, ask(), batch_size=batch_size)
    assert tokens(found) == expected
    assert {text.ended_by for text in found} == {"length"}


@pytest.mark.parametrize("tp_size", [2, 3, 4])
@pytest.mark.parametrize("sampling", [Sampling(), WARM], ids=["greedy", "sampled"])
def test_ranks_generate_what_one_does(folder, model, tp_size, sampling):
    alone = run(model, ask(sampling=sampling))

    def work(tp):
        return run(load(folder, tp), ask(sampling=sampling), batch_size=4)

    first, *others = on_ranks(tp_size, work)
    assert tokens(first) == tokens(alone)
    assert others == [[]] * (tp_size - 1)


def test_a_text_ends_before_its_end_of_text_token_and_its_neighbours_go_on(model, expected):
    """With a token that occurs in one text alone, early."""
    row, end = next(
        (row, i)
        for i in range(1, 6)
        for row, text in enumerate(expected)
        if all(text[i] not in (*text[:i], *other) for other in expected if other is not text)
    )
    found = run(model, ask(eos=(82_000, expected[row][end])))
    assert (list(found[row].tokens), found[row].ended_by) == (expected[row][:end], "eos")
    rest = [i for i in range(len(LENGTHS)) if i != row]
    assert tokens(found[i] for i in rest) == [expected[i] for i in rest]


def test_a_text_may_end_at_once(model, expected):
    found = run(model, ask(eos=tuple({text[0] for text in expected})))
    assert [(text.tokens, text.ended_by) for text in found] == [((), "eos")] * len(LENGTHS)


def test_stops_are_asked_after_each_token_and_end_their_own_text_alone(model, expected):
    heard = []

    def after_four(tokens):
        heard.append(list(tokens))
        return len(tokens) == 4

    found = run(model, ask(), [never, after_four, never, never, never, never])
    assert heard == [expected[1][:n] for n in (1, 2, 3, 4)]
    assert tokens(found) == [expected[0], expected[1][:4], *expected[2:]]
    assert found[1].ended_by == "stop"


def test_a_cache_that_has_become_too_small_grows(model, expected, monkeypatch):
    monkeypatch.setattr(generation, "_FIRST_ROOM", 1)
    assert tokens(run(model, ask()[2:3])) == expected[2:3]  # 18 columns grow to 27, 40, 60


def test_draws_depend_on_the_seed_alone(model):
    requests = ask(sampling=WARM)
    together = run(model, requests)
    alone = [run(model, [request])[0] for request in requests]
    assert together == alone == run(model, requests, batch_size=3)
    others = run(model, ask(sampling=replace(WARM, seed=6)))
    assert all(one.tokens != other.tokens for one, other in zip(together, others, strict=True))


def test_greedy_and_drawn_texts_share_a_batch(model, expected):
    drawn = run(model, ask(sampling=WARM))
    mixed = [replace(r, sampling=WARM) if i % 2 else r for i, r in enumerate(ask())]
    found = tokens(run(model, mixed))
    assert found[::2] == expected[::2]
    assert found[1::2] == tokens(drawn)[1::2]


def test_first_tokens_are_drawn_as_often_as_they_are_likely(model):
    prompt, count = prompts()[2], 1500
    sampling = Sampling(temperature=2.5)
    requests = [
        GenerationRequest(prompt, 1, sampling=replace(sampling, seed=seed)) for seed in range(count)
    ]
    drawn = torch.bincount(
        torch.tensor(tokens(run(model, requests, batch_size=500))).flatten(), minlength=83
    )
    with torch.inference_mode():
        logits = model.logits(model(torch.tensor([prompt]))[0, -1])
    likely = count * (logits.double() / 2.5).softmax(0)
    often = likely > 5
    # Pearson's statistic of the frequent tokens; 99.9 % of samples stay below the mean + 4 sd.
    statistic = ((drawn - likely).square() / likely)[often].sum()
    freedom = int(often.sum()) - 1
    assert freedom > 20
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("sampling", [Sampling(), WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("tp_size", [1, 2])
def test_nan_names_the_request_on_all_ranks(folder, sampling, tp_size):
    """Only the third prompt has the token whose embedding is broken."""
    broken = prompts()[2][0]
    requests = [
        replace(request, prompt=tuple(token for token in request.prompt if token != broken) or (0,))
        for request in ask(sampling=sampling)
    ]
    requests[2] = ask(sampling=sampling)[2]

    def work(tp):
        model = load(folder, tp)
        own = model.embed_tokens.shard.rows
        if broken in own:
            model.embed_tokens.weight[broken - own.start] = math.nan
        with pytest.raises(NotFiniteError) as caught:
            run(model, requests, batch_size=4)
        return caught.value.request

    assert on_ranks(tp_size, work) == [2] * tp_size


@pytest.mark.parametrize("wrong", [{"prompt": ()}, {"max_gen_toks": 0}], ids=str)
def test_requests_without_anything_to_do_are_refused(wrong):
    with pytest.raises(ValueError, match="needs a prompt"):
        replace(GenerationRequest((1,), 1), **wrong)
