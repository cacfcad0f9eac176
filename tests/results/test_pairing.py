"""Pairs of equal requests, and the comparisons made of them."""

from dataclasses import replace

import pytest

from ladder_eval.errors import PairingError
from ladder_eval.results.means import paired_mean_interval
from ladder_eval.results.pairing import Pair, Sample, compare, pair
from ladder_eval.results.statistics import paired_difference_interval


def sample(doc="d1", value=1.0, **changes):
    fields = {"task": "arc", "metric": "acc", "filter": "none", "prompt_hash": "p" + doc}
    return Sample(doc_hash=doc, value=value, **(fields | changes))


def pairs(task, gains, losses, both, metric="acc"):
    values = [(0.0, 1.0)] * gains + [(1.0, 0.0)] * losses + [(1.0, 1.0)] * both
    return [Pair(task=task, metric=metric, baseline=b, candidate=c) for b, c in values]


def test_pairs_whatever_the_order():
    candidate = [sample("d2", 0.0), sample("d1", 1.0)]
    baseline = [sample("d1", 0.0), sample("d2", 1.0)]
    found = pair(candidate, baseline)
    assert [(each.baseline, each.candidate) for each in found] == [(0.0, 1.0), (1.0, 0.0)]


def test_repeated_documents_pair_in_order_of_occurrence():
    candidate = [sample("d1", 1.0), sample("d2", 0.0), sample("d1", 0.0)]
    baseline = [sample("d1", 0.0), sample("d1", 1.0), sample("d2", 0.0)]
    found = pair(candidate, baseline)
    assert [(each.baseline, each.candidate) for each in found] == [(0, 1), (1, 0), (0, 0)]


def test_same_document_of_two_tasks_is_two_documents():
    both = [sample("d1", 1.0), sample("d1", 0.0, task="boolq")]
    assert [each.task for each in pair(reversed(both), both)] == ["arc", "boolq"]


def test_missing_documents_are_named_up_to_three():
    baseline = [sample(f"doc{i}") for i in range(6)]
    with pytest.raises(PairingError) as caught:
        pair(baseline[:1], baseline)
    message = str(caught.value)
    assert "doc1" in message
    assert "doc3" in message
    assert "doc4" not in message
    assert "and 2 more" in message
    assert "only computed on equal requests" in message


def test_additional_documents_and_occurrences_are_refused():
    with pytest.raises(PairingError, match=r"d1 .*occurrence 2"):
        pair([sample("d1"), sample("d1")], [sample("d1")])


def test_changed_prompt_is_refused():
    with pytest.raises(PairingError, match="asked differently in arc document d2"):
        pair([sample("d1"), sample("d2", prompt_hash="x")], [sample("d1"), sample("d2")])


def test_several_filters_would_count_a_document_twice():
    both = [sample(filter="strict"), sample(filter="flexible")]
    with pytest.raises(PairingError, match=r"strict.*flexible.*one filter"):
        pair(both, both)


@pytest.mark.parametrize("value", [float("nan"), 12.5, -0.1])
def test_value_that_is_no_fraction_is_refused(value):
    with pytest.raises(PairingError, match="fractions from 0 to 1"):
        pair([sample(value=value)], [replace(sample(), value=0.0)])


def test_comparison_by_hand():
    (task, pooled) = compare("ladder", "dense", pairs("arc", gains=2, losses=5, both=13))
    interval = paired_difference_interval(2, 5, 20)
    assert (task.task, pooled.task) == ("arc", "pooled")
    assert (task.n, task.gains, task.losses, task.metric) == (20, 2, 5, "acc")
    assert (task.baseline_value, task.candidate_value) == (18 / 20, 15 / 20)
    assert task.difference == pytest.approx(-3 / 20)
    assert (task.low, task.high, task.method) == (interval.low, interval.high, interval.method)
    assert (task.candidate, task.baseline, task.confidence) == ("ladder", "dense", 0.95)
    assert not task.decided


def test_decided_means_that_zero_is_outside():
    better, pooled = compare("ladder", "dense", pairs("arc", gains=20, losses=1, both=19))
    assert better.decided
    assert better.low > 0
    assert pooled.decided


def test_pooled_is_all_pairs_together():
    everything = pairs("arc", 2, 5, 13) + pairs("piqa", 1, 8, 31, metric="acc_norm")
    *tasks, pooled = compare("ladder", "dense", everything)
    assert [each.n for each in tasks] == [20, 40]
    assert (pooled.n, pooled.gains, pooled.losses) == (60, 3, 13)
    assert pooled.metric == "acc, acc_norm"
    assert pooled.difference == pytest.approx(-10 / 60)
    assert pooled.low == paired_difference_interval(3, 13, 60).low


def test_fractional_metric_gets_an_interval_of_the_mean_and_is_not_pooled():
    graded = [
        Pair(task="f1", metric="f1", baseline=b, candidate=c)
        for b, c in [(0.5, 0.7), (1.0, 0.9), (0.2, 0.2)]
    ]
    arc, f1, pooled = compare("ladder", "dense", pairs("arc", 1, 1, 8) + graded)
    expected = paired_mean_interval([0.7 - 0.5, 0.9 - 1.0, 0.0])
    assert (f1.low, f1.high, f1.method) == (expected.low, expected.high, "paired t")
    assert (f1.gains, f1.losses) == (1, 1)
    assert pooled.n == arc.n == 10
    assert [each.task for each in compare("l", "d", graded)] == ["f1"]


def test_nothing_compares_to_nothing():
    assert compare("ladder", "dense", pair([], [])) == ()
