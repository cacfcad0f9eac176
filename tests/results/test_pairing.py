"""Pairs of equal requests, and the comparisons made of them."""

import math
from dataclasses import replace

import pytest

from ladder_eval.errors import PairingError
from ladder_eval.results.means import paired_mean_interval
from ladder_eval.results.pairing import Pair, compare, pair
from ladder_eval.results.samples import Sample
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


def nats(values, words=100.0, task="wikitext"):
    return [
        Pair(task=task, metric="word_perplexity", baseline=b, candidate=c, weight=words)
        for b, c in values
    ]


def test_perplexities_are_compared_by_their_ratio_and_not_pooled():
    pages = nats([(3.0, 2.9), (2.5, 2.5), (3.5, 3.3), (2.8, 2.85)])
    arc, wiki, pooled = compare("ladder", "dense", pairs("arc", 1, 1, 8) + pages)
    assert wiki.baseline_value == pytest.approx(math.exp(11.8 / 4))
    assert wiki.candidate_value == pytest.approx(math.exp(11.55 / 4))
    assert wiki.ratio == pytest.approx(math.exp(-0.25 / 4))
    assert wiki.difference == wiki.candidate_value - wiki.baseline_value
    assert (wiki.gains, wiki.losses, wiki.n) == (2, 1, 4)  # lower is better
    assert wiki.low < wiki.ratio < wiki.high
    assert wiki.decided == (wiki.high < 1)
    assert (arc.ratio, pooled.ratio, pooled.n) == (None, None, 10)


@pytest.mark.parametrize(("shift", "decided"), [(-0.1, True), (0.1, True), (0.0, False)])
def test_a_ratio_is_decided_if_one_is_outside(shift, decided):
    spread = [0.02, -0.03, 0.01, 0.005, -0.01] * 4
    (wiki,) = compare("ladder", "dense", nats([(3.0, 3.0 + shift + each) for each in spread]))
    assert wiki.decided is decided
    assert (wiki.high < 1) is (shift < 0)


def test_ratio_without_spread_is_left_out():
    assert compare("ladder", "dense", nats([(3.0, 2.9)])) == ()
    assert compare("ladder", "dense", nats([(3.0, 3.0), (2.0, 2.0)])) == ()


def test_zero_or_one_nats_are_no_right_or_wrong():
    (wiki,) = compare("ladder", "dense", nats([(0.0, 1.0), (1.0, 1.0), (1.0, 0.0)], words=1.0))
    assert wiki.ratio == pytest.approx(1.0)


def test_instructions_of_a_prompt_weigh_together():
    prompts = [
        Pair(task="ifeval", metric="inst_level_strict_acc", baseline=b, candidate=c, weight=w)
        for b, c, w in [(1.0, 0.5, 2.0), (0.0, 1.0, 1.0), (1 / 3, 2 / 3, 3.0)]
    ]
    (found,) = compare("ladder", "dense", prompts)
    assert found.baseline_value == pytest.approx(3 / 6)
    assert found.candidate_value == pytest.approx(4 / 6)
    assert found.difference == pytest.approx(1 / 6)
    expected = paired_mean_interval([-0.5, 1.0, 1 / 3], weights=[2.0, 1.0, 3.0])
    assert (found.low, found.high) == (expected.low, expected.high)
    assert found.method == "paired t by document (ratio estimator)"


def test_weighted_right_and_wrong_is_not_pooled():
    """Prompts whose instructions are all followed, or none, are still no single answers."""
    prompts = [
        Pair(task="ifeval", metric="inst_level_strict_acc", baseline=b, candidate=c, weight=2.0)
        for b, c in [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    ]
    assert [each.task for each in compare("ladder", "dense", prompts)] == ["ifeval"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_perplexity_that_is_not_finite_is_refused(value):
    odd = sample(value=value, metric="word_perplexity")
    with pytest.raises(PairingError, match="has the value"):
        pair([odd], [replace(odd, value=3.0)])


def test_nothing_compares_to_nothing():
    assert compare("ladder", "dense", pair([], [])) == ()
