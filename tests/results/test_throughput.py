"""What rounds of two engines say, by hand, and which differences of answers are refused."""

from dataclasses import replace

import pytest

from ladder_eval.results.throughput import disagreements, least_seconds, summarised
from ladder_eval.results.throughput_records import (
    OURS,
    STOCK,
    Agreement,
    MetricPair,
    RequestWork,
    TextDifference,
    ThroughputRound,
    ThroughputTrial,
)

WORK = RequestWork(read_flops=600.0, write_flops=50.0, write_bytes=80.0)


def round_of(number, ours, theirs, pace=100.0, copied=20.0):
    trials = (
        ThroughputTrial(engine=OURS, seconds=ours, read_tokens=1),
        ThroughputTrial(engine=STOCK, seconds=theirs, read_tokens=2),
    )
    return ThroughputRound(
        number=number,
        trials=trials if number % 2 else trials[::-1],
        product_rows=8,
        products_flops_per_second=pace,
        matmul_flops_per_second=pace,
        copied_bytes_per_second=copied,
    )


def test_the_limit_is_reading_by_products_and_writing_by_the_slower_of_both():
    # 600 / 100, and 80 / 20 rather than 50 / 100.
    assert least_seconds(WORK, round_of(1, 1, 1)) == 6 + 4
    assert least_seconds(WORK, round_of(1, 1, 1, copied=1e9)) == 6 + 0.5


def test_ratios_are_taken_within_a_round():
    # Ratios 4, 2 and 3; that of the medians, 16 by 8, would be 2.
    rounds = [round_of(1, 2, 8), round_of(2, 8, 16, pace=50.0), round_of(3, 10, 30)]
    found = summarised(WORK, rounds)
    assert (found.times_as_fast.value, found.times_as_fast.low, found.times_as_fast.high) == (
        3,
        2,
        4,
    )
    assert found.times_as_fast.confidence == 0.75
    assert (found.seconds.value, found.stock_seconds.value) == (8, 16)
    assert found.flops_per_second.value == 650 / 8
    # 10 / 2, (12 + 4) / 8 and 10 / 10.
    assert found.of_limit.value == 2


AGREEING = Agreement(
    metrics=(MetricPair(metric="acc,none", ours=0.5, theirs=0.5),),
    choices=2e-5,
    greedy=0,
    rolling=None,
    texts=0,
    differences=(),
)
PARTING = TextDifference(request=3, position=7, gap=2e-4, ours=" a", theirs=" b")


def test_rounding_is_no_disagreement():
    assert disagreements(AGREEING) == []
    assert disagreements(replace(AGREEING, differences=(PARTING,), texts=4)) == []
    perplexity = MetricPair(metric="word_perplexity,none", ours=30.001, theirs=30.0)
    assert disagreements(replace(AGREEING, metrics=(perplexity,), rolling=5e-6)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"choices": 6e-4}, "log-likelihoods differ by up to 0.0006"),
        ({"choices": float("nan")}, "log-likelihoods differ by up to nan"),
        ({"rolling": 2e-5}, "log-likelihoods of whole texts differ by up to 2e-05"),
        ({"metrics": (MetricPair(metric="acc", ours=0.5, theirs=0.51),)}, "metrics differ"),
        (
            {"rolling": 1e-6, "metrics": (MetricPair(metric="ppl", ours=30.01, theirs=30.0),)},
            "metrics differ",
        ),
        (
            {"differences": (PARTING, replace(PARTING, gap=0.2))},
            "1 texts differ where there is no near-tie",
        ),
    ],
    ids=str,
)
def test_more_than_rounding_is_told(changes, said):
    assert disagreements(replace(AGREEING, **changes)) == [said]
