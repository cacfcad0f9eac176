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
