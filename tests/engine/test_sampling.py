"""Draws against the probabilities of transformers' own samplers."""

from collections import Counter

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ladder_eval.engine.sampling import Sampling, draw, kept

VOCABULARY = 50


@pytest.fixture(scope="module")
def logits():
    return 3 * torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(1))


def expected(logits, *warpers):
    scores = LogitsProcessorList(warpers)(torch.zeros(1, 1, dtype=torch.long), logits[None])
    return scores[0].double().softmax(0)


CASES = [
    (Sampling(temperature=1.0), []),
    (Sampling(temperature=0.7), [TemperatureLogitsWarper(0.7)]),
    (Sampling(temperature=1.0, top_k=5), [TopKLogitsWarper(5)]),
    (Sampling(temperature=1.0, top_k=500), []),
    (Sampling(temperature=1.0, top_p=0.6), [TopPLogitsWarper(0.6)]),
    (Sampling(temperature=1.0, top_p=0.001), [TopPLogitsWarper(0.001)]),
    (
        Sampling(temperature=1.6, top_k=9, top_p=0.8),
        [TemperatureLogitsWarper(1.6), TopKLogitsWarper(9), TopPLogitsWarper(0.8)],
    ),
]


@pytest.mark.parametrize(("sampling", "warpers"), CASES)
def test_tokens_are_as_likely_as_those_of_transformers(logits, sampling, warpers):
    probabilities, tokens = kept(logits, sampling)
    found = torch.zeros(VOCABULARY, dtype=torch.double)
    found[tokens] = probabilities / probabilities.sum()
    assert found.tolist() == pytest.approx(expected(logits, *warpers).tolist(), abs=1e-6)


def test_evenly_spread_numbers_draw_tokens_as_often_as_they_are_likely(logits):
    sampling, count = Sampling(temperature=1.3, top_k=20, top_p=0.9), 4000
    drawn = Counter(draw(logits, sampling, (i + 0.5) / count) for i in range(count))
    likely = expected(
        logits, TemperatureLogitsWarper(1.3), TopKLogitsWarper(20), TopPLogitsWarper(0.9)
    )
    for token in range(VOCABULARY):
        assert drawn[token] / count == pytest.approx(likely[token].item(), abs=1 / count)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_range_draw_the_most_and_the_least_likely(logits, uniform):
    order = logits.argsort(descending=True).tolist()
    token = draw(logits, Sampling(temperature=1.0, top_k=7), uniform)
    assert token == order[0 if uniform == 0 else 6]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
    ],
    ids=str,
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} .* must be"):
        Sampling(**wrong)
