"""Log-probabilities without gathering logits, held against log_softmax of whole logits."""

import math

import pytest
import torch
from thread_ranks import on_ranks
from torch.testing import assert_close

from ladder_eval.engine import scoring
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import BatchScorer, _combine, _summary
from ladder_eval.models.checkpoint import load_model, read_config

VOCABULARY = 83
CUTS = {
    "one": [range(83)],
    "two": [range(42), range(42, 83)],
    "four": [range(21), range(21, 42), range(42, 63), range(63, 83)],
    "very uneven": [range(1), range(1, 80), range(80, 83)],
}


def combined(logits, targets, parts):
    """As if each part of the vocabulary were another rank's."""
    summaries = [
        _summary(
            logits[:, own.start : own.stop].contiguous(), torch.arange(len(targets)), targets, own
        )
        for own in parts
    ]
    return _combine(torch.stack(summaries))


def plain(logits, targets):
    return logits.double().log_softmax(-1).gather(1, targets[:, None]).squeeze(1).float()


def random_logits(rows, scale=3.0):
    return scale * torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("scale", [0.01, 3.0, 30.0])
def test_every_token_as_target(parts, scale):
    logits, targets = random_logits(VOCABULARY, scale), torch.arange(VOCABULARY)
    logprobs, best = combined(logits, targets, parts)
    assert_close(logprobs, plain(logits, targets), rtol=1e-6, atol=2e-5)
    assert torch.equal(best, logits.argmax(-1))
    assert best.dtype == torch.long


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("offset", [-3e4, 1e3, 3e4])
def test_large_logits_do_not_overflow(parts, offset):
    logits, targets = random_logits(VOCABULARY) + offset, torch.arange(VOCABULARY)
    logprobs, _ = combined(logits, targets, parts)
    assert_close(logprobs, plain(logits, targets), rtol=0, atol=5e-3)


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
def test_a_part_with_next_to_no_probability(parts):
    logits, targets = random_logits(VOCABULARY), torch.arange(VOCABULARY)
    logits[:, 42:] -= 500
    logprobs, best = combined(logits, targets, parts)
    assert_close(logprobs, plain(logits, targets), rtol=1e-6, atol=1e-4)
    assert (best < 42).all()


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(
    "tied", [(20, 21), (0, 82), (10, 11, 50), (79, 80), (42, 63), tuple(range(83))], ids=str
)
def test_the_first_of_equals_is_the_most_likely(parts, tied):
    logits = random_logits(1)
    logits[0, list(tied)] = 100.0
    _, best = combined(logits, torch.tensor([5]), parts)
    assert best.item() == tied[0]


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("token", [0, 41, 42, 82])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_spoils_every_target_of_its_row_alone(parts, token, value):
    logits, targets = random_logits(3), torch.tensor([1, 50, 81])
    logits[1, token] = value
    logprobs, _ = combined(logits, targets, parts)
    assert logprobs.isfinite().tolist() == [True, False, True]
    for target in range(VOCABULARY):
        (logprob,), _ = combined(logits[1:2], torch.tensor([target]), parts)
        assert not math.isfinite(logprob)


@pytest.mark.parametrize("parts", CUTS.values(), ids=CUTS)
def test_probabilities_add_up_to_one(parts):
    logits = random_logits(1).expand(VOCABULARY, -1)
    logprobs, _ = combined(logits, torch.arange(VOCABULARY), parts)
    assert logprobs.double().exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_token_ids_of_a_large_vocabulary_are_exact():
    start = 2**24 - 3
    logits, first = torch.tensor([[0.0, 5.0, 1.0]]), torch.tensor([0])
    _, best = _combine(
        torch.stack(
            [
                _summary(torch.zeros(1, 4), first, torch.tensor([0]), range(4)),
                _summary(logits, first, torch.tensor([0]), range(start, start + 3)),
            ]
        )
    )
    assert best.item() == start + 1


@pytest.mark.parametrize("targets_at_once", [1, 3, 5])
def test_ranks_with_uneven_vocabularies_cut_alike(tiny_checkpoint, monkeypatch, targets_at_once):
    """Were slices cut by each rank's own share, ranks would meet in gathers of other shapes."""
    folder, tp_size, share = tiny_checkpoint, 4, 65  # of 258 tokens: 65, 65, 64, 64
    config, cpu = read_config(folder), torch.device("cpu")
    tokens = tuple(range(60, 83))
    requests = [ScoringRequest((1, 2), tokens), ScoringRequest((3,), tokens)]
    (batch,) = plan(requests, BatchLimits(tokens=512, rows=2))

    def score(tp):
        model = load_model(folder, config, dtype=torch.float32, device=cpu, tp=tp)
        return BatchScorer(model).score(batch)

    (whole,) = on_ranks(1, score)
    # A byte fewer than what the largest share needs for one target more.
    monkeypatch.setattr(scoring, "LOGITS_BYTES", 4 * share * (targets_at_once + 1) - 1)
    for found in on_ranks(tp_size, score):
        for request, answer in whole.items():
            assert found[request].logprob == pytest.approx(answer.logprob, abs=1e-4)
            assert found[request].is_greedy == answer.is_greedy
