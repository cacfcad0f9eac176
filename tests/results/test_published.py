"""The rows as the paper prints them, typed from its tables a second time."""

import json
from dataclasses import asdict
from statistics import mean

import pytest

from ladder_eval.models.registry import MODELS
from ladder_eval.results.published import published_metric, published_row

SCRATCH = ["arc_challenge", "arc_easy", "hellaswag", "piqa", "sciq", "winogrande"]
SCRATCH += ["average", "wikitext_word_perplexity"]
ADAPTED = ["mmlu", "arc_challenge", "openbookqa", "hellaswag", "truthfulqa_mc1", "gsm8k"]
ADAPTED += ["humaneval_plus", "ifeval", "alpacaeval_lc_win_rate", "average"]

PRINTED = {
    "standard_1b": "34.22 70.33 41.10 71.49 87.30 55.41 59.98 18.54",
    "parallel_1b": "30.46 67.97 40.35 71.16 87.40 55.17 58.75 18.95",
    "ladder_1b": "31.31 67.76 41.18 71.49 86.60 55.17 58.92 18.42",
    "standard_3b": "38.99 74.12 46.48 74.59 92.00 58.48 64.11 14.48",
    "parallel_3b": "38.48 73.02 45.55 73.67 90.00 57.46 63.03 14.96",
    "ladder_3b": "36.77 72.43 45.66 73.72 89.90 58.96 62.91 14.90",
    "standard_8b": "68.14 60.32 43.00 80.04 36.84 84.99 60.40 52.57 18.69 56.11",
    "hybrid_ladder_8b_16l": "65.93 59.13 42.20 78.86 39.66 80.29 59.10 59.02 21.95 56.24",
    "hybrid_ladder_8b_20l": "62.31 59.90 42.60 77.49 36.72 76.19 48.80 59.05 21.72 53.86",
}


@pytest.mark.parametrize("model", PRINTED)
def test_values_are_the_printed_ones(model):
    row = published_row(model)
    assert row.model == model
    assert list(row.metrics) == (ADAPTED if "8b" in model else SCRATCH)
    assert list(row.metrics.values()) == [float(value) for value in PRINTED[model].split()]


@pytest.mark.parametrize("model", PRINTED)
def test_the_printed_average_is_that_of_the_scores(model):
    """It is in all nine rows; the perplexity after it is no part of it."""
    scores = list(published_row(model).metrics.items())
    before = dict(scores[: [name for name, _ in scores].index("average")])
    assert len(before) == (9 if "8b" in model else 6)
    # Half of the last printed digit, and as much for the rounding of binary fractions: 59.975.
    assert mean(before.values()) == pytest.approx(
        published_row(model).metrics["average"], abs=0.00501
    )


def test_rows_say_where_they_are_from():
    rows = {model: published_row(model).row for model in PRINTED}
    assert rows["ladder_3b"] == "ladder-3b"
    assert rows["standard_8b"] == "llama-3.1-8b-instruct"
    assert rows["hybrid_ladder_8b_16l"] == "hybrid-ladder-8b-16l-retrained"
    assert rows["hybrid_ladder_8b_20l"] == "hybrid-ladder-8b-20l-retrained"
    assert all("arXiv 2501.06589" in published_row(model).source for model in PRINTED)
    assert published_row("ladder_1b").source.endswith("trained from scratch (0-shot)")
    assert published_row("standard_8b").source.endswith(
        "(shots: MMLU 5, ARC-C 25, HellaSwag 10, GSM8K 8, OpenBookQA unstated, others 0)"
    )
    assert "100B tokens of FineWeb-Edu" in published_row("ladder_1b").training
    assert "Infinity-Instruct" in published_row("hybrid_ladder_8b_16l").training
    assert "Infinity-Instruct" not in published_row("standard_8b").training


def test_all_other_models_have_none():
    assert [name for name in MODELS if published_row(name)] == sorted(
        PRINTED, key=list(MODELS).index
    )
    assert published_row("ladder_8b") is None
    assert published_row("") is None


def test_a_row_is_json():
    row = published_row("ladder_1b")
    assert json.loads(json.dumps(asdict(row)))["metrics"]["wikitext_word_perplexity"] == 18.42


def test_tasks_find_their_column():
    keys = [published_metric(task, "acc") for task in ("arc_easy", "gsm8k_cot", "alpaca_eval")]
    assert keys == ["arc_easy", "gsm8k", "alpacaeval_lc_win_rate"]
    assert published_metric("wikitext", "word_perplexity") in published_row("ladder_1b").metrics
    assert set(keys[1:]) <= published_row("standard_8b").metrics.keys()
