"""Scores and comparisons, computed again from the samples they came from."""

import json
import math
from statistics import mean, stdev

import pandas as pd
import pytest

from ladder_eval.errors import PairingError
from ladder_eval.results.records import POOLED
from ladder_eval.results.store import SAMPLE_COLUMNS
from ladder_eval.results.summary import comparisons, scores

VALUES = {
    ("dense", "arc"): [1, 0, 1, 1, 0, 1],
    ("dense", "piqa"): [0, 1, 1],
    ("ladder", "arc"): [0, 0, 1, 1, 1, 0],
    ("ladder", "piqa"): [0, 1, 0],
    ("hybrid", "arc"): [1, 0, 1, 1, 0, 1],
    ("hybrid", "piqa"): [1, 1, 1],
}


def frame(values):
    rows = [
        {
            "model": model,
            "task": task,
            "group": None,
            "category": None,
            "filter": "none",
            "is_headline": True,
            "doc_id": i,
            "doc_hash": f"{task}{i}",
            "prompt_hash": f"p{task}{i}",
            "target_hash": "t",
            "metric": "acc_norm",
            "value": float(value),
            "weight": 1.0,
            "metrics": json.dumps({"acc": 1 - value, "acc_norm": value}),
            "target": "0",
            "answers": "[]",
            "document": "{}",
        }
        for (model, task), each in values.items()
        for i, value in enumerate(each)
    ]
    return pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS))


def test_scores_are_means_of_every_metric():
    found = {(s.model, s.task, s.metric): s for s in scores(frame(VALUES))}
    assert len(found) == len(scores(frame(VALUES))) == 2 * len(VALUES)
    for (model, task), values in VALUES.items():
        headline, other = found[model, task, "acc_norm"], found[model, task, "acc"]
        assert headline.value == pytest.approx(mean(values))
        assert other.value == pytest.approx(1 - mean(values))
        assert headline.n == other.n == len(values)
        # Where all answers agree, a standard error of 0 would claim certainty.
        expected = stdev(values) / math.sqrt(len(values)) if len(set(values)) > 1 else None
        assert headline.stderr == pytest.approx(expected)
        assert other.stderr == pytest.approx(expected)


def test_scores_keep_the_order_of_models_and_tasks():
    order = dict.fromkeys((score.model, score.task) for score in scores(frame(VALUES)))
    assert list(order) == list(VALUES)


def test_comparisons_count_gains_and_losses_of_every_candidate():
    found = {(c.candidate, c.task): c for c in comparisons("dense", frame(VALUES))}
    counts = {key: (c.gains, c.losses, c.n) for key, c in found.items()}
    assert counts == {
        ("ladder", "arc"): (1, 2, 6),
        ("ladder", "piqa"): (0, 1, 3),
        ("ladder", POOLED): (1, 3, 9),
        ("hybrid", "arc"): (0, 0, 6),
        ("hybrid", "piqa"): (1, 0, 3),
        ("hybrid", POOLED): (1, 0, 9),
    }
    assert found["ladder", "arc"].difference == pytest.approx(3 / 6 - 4 / 6)
    assert found["ladder", POOLED].difference == pytest.approx(-2 / 9)
    assert all(c.baseline == "dense" and c.metric == "acc_norm" for c in found.values())


def test_order_of_documents_does_not_matter():
    samples = frame(VALUES)
    shuffled = samples.sample(frac=1, random_state=0)
    shuffled = shuffled.sort_values("model", key=lambda names: names.map(len), kind="stable")
    key = lambda c: (c.candidate, c.task)  # noqa: E731
    one = sorted(comparisons("dense", samples), key=key)
    other = sorted(comparisons("dense", shuffled), key=key)
    assert [(c.gains, c.losses, c.low, c.high) for c in one] == [
        (c.gains, c.losses, c.low, c.high) for c in other
    ]


def test_nothing_is_compared_without_a_baseline():
    assert comparisons(None, frame(VALUES)) == ()
    alone = {key: each for key, each in VALUES.items() if key[0] == "dense"}
    assert comparisons("dense", frame(alone)) == ()


@pytest.mark.parametrize("column", ["prompt_hash", "doc_hash"])
def test_models_that_were_asked_differently_are_not_compared(column):
    samples = frame(VALUES)
    samples.loc[samples.index[-1], column] = "other"
    with pytest.raises(PairingError, match="piqa document"):
        comparisons("dense", samples)


def rows_of(metrics_by_filter, task="sums", headline="strict", metric="exact_match", **more):
    """Rows of one model: for each filter, each document's metrics."""
    return pd.DataFrame(
        [
            {
                "model": "m",
                "task": task,
                "group": None,
                "category": None,
                "filter": kind,
                "is_headline": kind == headline,
                "doc_id": i,
                "doc_hash": f"d{i}",
                "prompt_hash": f"p{i}",
                "target_hash": "t",
                "metric": metric,
                "value": 0.0,
                "weight": 1.0,
                "metrics": json.dumps(metrics),
                "target": "0",
                "answers": "[]",
                "document": "{}",
            }
            | {name: values[i] for name, values in more.items()}
            for kind, documents in metrics_by_filter.items()
            for i, metrics in enumerate(documents)
        ],
        columns=list(SAMPLE_COLUMNS),
    )


def test_subtask_group_and_per_metric_sample_counts():
    """Filters read the same documents, and a metric may leave documents out: n says which."""
    strict = [{"exact_match": 1}, {"exact_match": 0, "f1": 0.5}, {"exact_match": 0, "f1": 1.0}]
    flexible = [{"exact_match": 1}, {"exact_match": 1}, {"exact_match": 0, "f1": 0.25}]
    groups = ["sums_a", "sums_a", "sums_b"]
    samples = rows_of(
        {"strict": strict, "flexible": flexible}, group=groups, category=["x", "x", "y"]
    )
    found = {(s.filter, s.metric, s.part): (s.value, s.n) for s in scores(samples)}
    assert found == {
        ("strict", "exact_match", ""): (1 / 3, 3),
        ("strict", "exact_match", "macro"): (1 / 4, 3),
        ("strict", "exact_match", "category x"): (1 / 2, 2),
        ("strict", "exact_match", "category y"): (0, 1),
        ("strict", "exact_match", "subject a"): (1 / 2, 2),
        ("strict", "exact_match", "subject b"): (0, 1),
        ("strict", "f1", ""): (3 / 4, 2),
        ("strict", "f1", "macro"): (3 / 4, 2),
        ("strict", "f1", "category x"): (1 / 2, 1),
        ("strict", "f1", "category y"): (1, 1),
        ("strict", "f1", "subject a"): (1 / 2, 1),
        ("strict", "f1", "subject b"): (1, 1),
        ("flexible", "exact_match", ""): (2 / 3, 3),
        ("flexible", "exact_match", "macro"): (1 / 2, 3),
        ("flexible", "exact_match", "category x"): (1, 2),
        ("flexible", "exact_match", "category y"): (0, 1),
        ("flexible", "exact_match", "subject a"): (1, 2),
        ("flexible", "exact_match", "subject b"): (0, 1),
        ("flexible", "f1", ""): (1 / 4, 1),
        ("flexible", "f1", "macro"): (1 / 4, 1),
        ("flexible", "f1", "category y"): (1 / 4, 1),
        ("flexible", "f1", "subject b"): (1 / 4, 1),
    }


def test_micro_and_macro_averages_by_hand():
    """Subjects of 4 and 2 documents with 3 and 1 right: 4 / 6 micro, (3/4 + 1/2) / 2 macro."""
    right = [1, 1, 1, 0, 1, 0]
    samples = rows_of(
        {"none": [{"acc": each} for each in right]},
        headline="none",
        metric="acc",
        group=["sums_a"] * 4 + ["sums_b"] * 2,
        category=["x"] * 6,
    )
    found = {score.part: score for score in scores(samples)}
    assert found[""].value == found["category x"].value == pytest.approx(4 / 6)
    assert found["macro"].value == pytest.approx(5 / 8)
    first, second = stdev(right[:4]) / math.sqrt(4), stdev(right[4:]) / math.sqrt(2)
    assert found["macro"].stderr == pytest.approx(math.sqrt(first**2 + second**2) / 2)
    assert found["macro"].method == "normal, stratified"
    assert found["subject a"].method == "exact binomial (Clopper–Pearson)"
    assert found["subject b"].stderr == pytest.approx(second)


def test_macro_error_is_unknown_if_that_of_a_subject_is():
    samples = rows_of(
        {"none": [{"acc": each} for each in (1, 0, 1)]},
        headline="none",
        group=["a", "a", "b"],
    )
    (macro,) = [score for score in scores(samples) if score.part == "macro"]
    assert (macro.value, macro.stderr, macro.low) == (pytest.approx(3 / 4), None, None)


def test_equal_answers_get_an_exact_interval_and_no_standard_error():
    (score,) = scores(rows_of({"strict": [{"exact_match": 1}] * 20}))
    assert (score.value, score.stderr, score.high) == (1.0, None, 1.0)
    assert score.low == pytest.approx(0.025 ** (1 / 20))


def test_perplexities_are_over_words():
    metrics = [
        {"word_perplexity": (-10, 3), "byte_perplexity": (-10, 12), "bits_per_byte": (-10, 12)},
        {"word_perplexity": (-26, 6), "byte_perplexity": (-26, 24), "bits_per_byte": (-26, 24)},
    ]
    samples = rows_of({"none": metrics}, headline="none", metric="word_perplexity")
    found = {score.metric: score for score in scores(samples)}
    assert found["word_perplexity"].value == pytest.approx(math.exp(36 / 9))
    assert found["byte_perplexity"].value == pytest.approx(math.exp(36 / 36))
    assert found["bits_per_byte"].value == pytest.approx(1 / math.log(2))
    assert {score.n for score in found.values()} == {2}
    assert found["word_perplexity"].method == "bootstrap of documents (1,000)"


def test_only_the_headline_filter_is_compared():
    strict = [{"exact_match": each} for each in (0, 0, 1)]
    flexible = [{"exact_match": 1}] * 3
    one = rows_of({"strict": strict, "flexible": flexible}, value=[0.0, 0.0, 1.0])
    other = one.assign(model="c", value=1.0)
    arc, pooled = comparisons("m", pd.concat([one, other], ignore_index=True))
    assert (arc.n, arc.gains, arc.losses, pooled.n) == (3, 2, 0, 3)
