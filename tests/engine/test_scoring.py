"""Scores, held against one forward of transformers' Llama for each request."""

import math
import random
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import log_softmax
from transformers import LlamaForCausalLM

from ladder_eval.engine import scoring
from ladder_eval.engine.batching import Batch, ScoringRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import BatchScorer, NotFiniteError
from ladder_eval.models.checkpoint import load_model, read_config


def mixed_requests():
    """Contexts of 3 to 300 tokens, each with continuations of one to nine tokens."""
    draw = random.Random(5)
    requests = []
    for size in (3, 300, 40, 3, 120, 17):
        context = tuple(draw.choices(range(256), k=size))
        requests += [
            ScoringRequest(context, tuple(draw.choices(range(256), k=length)))
            for length in (1, 4, 9, 2)
        ]
    draw.shuffle(requests)
    return requests


@pytest.fixture(scope="module")
def load(tiny_checkpoint):
    def load(ladder_layers=0, dtype=torch.float32):
        config = read_config(tiny_checkpoint).with_ladder(ladder_layers)
        return load_model(tiny_checkpoint, config, dtype=dtype, device=torch.device("cpu"))

    return load


@pytest.fixture(scope="module")
def reference(tiny_checkpoint):
    return LlamaForCausalLM.from_pretrained(tiny_checkpoint).eval()


@torch.inference_mode()
def naive(model, request):
    """Log-likelihood and greediness from one whole forward of a transformers model."""
    tokens = torch.tensor([request.context + request.continuation])
    logits = model(tokens).logits[0, len(request.context) - 1 : -1]
    target = torch.tensor(request.continuation)
    chosen = log_softmax(logits.double(), -1)[range(len(target)), target]
    return chosen.sum().item(), bool((logits.argmax(-1) == target).all())


def answers(model, requests, batch_size, tokens=512):
    found, scorer = {}, BatchScorer(model)
    for batch in plan(requests, BatchLimits(tokens=tokens, rows=batch_size)):
        answered = scorer.score(batch)
        assert not found.keys() & answered.keys()
        found |= answered
    return [found[index] for index in range(len(requests))]


@pytest.mark.parametrize("tokens", [32, 512])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_scores_are_those_of_transformers(load, reference, batch_size, tokens):
    """At 32 tokens the longer contexts are prefixes, at 512 all are rows with branches."""
    requests = mixed_requests()
    found = answers(load(), requests, batch_size, tokens)
    expected = [naive(reference, request) for request in requests]
    assert [a.logprob for a in found] == pytest.approx([e[0] for e in expected], abs=1e-4)
    assert [a.is_greedy for a in found] == [e[1] for e in expected]


@pytest.mark.parametrize("ladder_layers", [0, 2], ids=["standard", "hybrid"])
def test_batch_size_does_not_matter(load, ladder_layers):
    model, requests = load(ladder_layers), mixed_requests()
    alone = answers(model, requests, 1)
    together = answers(model, requests, 16, tokens=4096)
    unshared = [answers(model, [request], 1)[0] for request in requests]
    for other in (together, unshared):
        assert [a.logprob for a in other] == pytest.approx([a.logprob for a in alone], abs=5e-4)
        assert [a.is_greedy for a in other] == [a.is_greedy for a in alone]


def test_greedy_is_only_what_greedy_decoding_gives(load, reference):
    context, tokens = (10, 20, 30), [10, 20, 30]
    for _ in range(4):
        tokens.append(int(reference(torch.tensor([tokens])).logits[0, -1].argmax()))
    greedy = tuple(tokens[3:])
    wrong_end = (*greedy[:-1], (greedy[-1] + 1) % 256)
    wrong_start = ((greedy[0] + 1) % 256, *greedy[1:])
    requests = [
        ScoringRequest(context, end) for end in (greedy, wrong_end, wrong_start, greedy[:1])
    ]
    found = answers(load(), requests, 8)
    assert [answer.is_greedy for answer in found] == [True, False, False, True]


def test_choices_of_one_token_are_read_from_one_position(load):
    model, shapes = load(), []
    model.register_forward_pre_hook(lambda _, args: shapes.append(tuple(args[0].shape)))
    requests = [ScoringRequest(tuple(range(10)), (choice,)) for choice in (65, 66, 67, 68)]
    answers(model, requests, 8)
    assert shapes == [(1, 10)]
    # From one distribution: the probabilities of all tokens would add up to one.
    everything = [ScoringRequest(tuple(range(10)), (token,)) for token in range(258)]
    total = math.fsum(math.exp(answer.logprob) for answer in answers(model, everything, 1))
    assert total == pytest.approx(1, abs=1e-5)


def test_a_prefix_is_read_once_however_many_batches_follow(load):
    model, shapes = load(), []
    model.register_forward_pre_hook(lambda _, args: shapes.append(args[0].shape[1]))
    header = tuple(range(100))
    requests = [ScoringRequest((*header, 200 + i, 7), (i,)) for i in range(5)]
    found = answers(model, requests, batch_size=2, tokens=64)
    assert shapes == [100, 4, 4, 2]
    alone = [answers(model, [request], 1)[0] for request in requests]
    assert [a.logprob for a in found] == pytest.approx([a.logprob for a in alone], abs=1e-4)


def test_a_scorer_goes_back_to_a_shorter_prefix_and_forgets_what_it_must(load):
    model, scorer = load(), BatchScorer(load())
    (row,) = plan([ScoringRequest((9, 8), (7,))], BatchLimits(tokens=8, rows=1))[0].rows
    for prefix in (((1, 2), (3,)), ((1, 2), (4, 5)), ((1, 2),), (), ((6,),)):
        moved = replace(row, positions=tuple(sum(map(len, prefix)) + p for p in row.positions))
        before = sum(prefix, ())
        (found,) = answers(model, [ScoringRequest((*before, 9, 8), (7,))], 1)
        (again,) = scorer.score(Batch(prefix, (moved,))).values()
        assert again.logprob == pytest.approx(found.logprob, abs=1e-5)


@torch.inference_mode()
def test_bfloat16_weights_give_float32_log_probabilities(load):
    model = load(dtype=torch.bfloat16)
    context, continuation = tuple(range(40)), tuple(range(5, 65))
    (found,) = answers(model, [ScoringRequest(context, continuation)], 1)
    logits = model.lm_head(model(torch.tensor([context + continuation[:-1]])))[0, 39:]
    assert logits.dtype == torch.bfloat16
    wide, narrow = (
        log_softmax(each, -1)[range(60), torch.tensor(continuation)].double().sum().item()
        for each in (logits.float(), logits)
    )
    assert found.logprob == pytest.approx(wide, abs=1e-3)
    assert abs(narrow - wide) > 1e-2  # so that the line above can fail


def test_logits_in_slices_are_the_same(load, monkeypatch):
    model, requests = load(), mixed_requests()
    whole = answers(model, requests, 4)
    monkeypatch.setattr(scoring, "LOGITS_BYTES", 3 * 4 * 258)  # three rows
    sliced = answers(model, requests, 4)
    assert [a.logprob for a in sliced] == pytest.approx([a.logprob for a in whole], abs=1e-4)
    assert [a.is_greedy for a in sliced] == [a.is_greedy for a in whole]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_name_their_request(load, value):
    model = load()
    with torch.no_grad():
        model.embed_tokens.weight[99] = value  # only texts with token 99 come to harm
        model.lm_head.weight = torch.nn.Parameter(model.embed_tokens.weight.nan_to_num(0, 0, 0))
    requests = [
        ScoringRequest((1, 2, 3, 4, 5), (6,)),
        ScoringRequest((1, 99, 3, 4), (5,)),
        ScoringRequest((7, 2, 3), (4,)),
    ]
    scorer, (first, second, third) = (
        BatchScorer(model),
        plan(requests, BatchLimits(tokens=5, rows=1)),
    )
    assert (scorer.score(first).keys(), scorer.score(third).keys()) == ({0}, {2})
    with pytest.raises(NotFiniteError) as caught:
        scorer.score(second)
    assert caught.value.request == 1
