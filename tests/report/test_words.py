"""Numbers and conditions as a reader sees them."""

from dataclasses import replace

import pytest

from ladder_eval.report.words import bounds, documents, layers, percent, points, subset, verdict
from ladder_eval.results.records import Comparison


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.028, "+2.8"),
        (-0.028, "−2.8"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (1.0, "+100.0"),
        (0.0005, "+0.1"),
        (0.0004, "+0.04"),
        (-0.000123, "−0.01"),
        (-0.0000123, "−0.001"),
        (1e-12, "0.0"),
    ],
)
def test_points(fraction, text):
    assert points(fraction) == text


def test_percent_and_bounds():
    assert percent(0.7125) == "71.2"
    assert percent(-0.5) == "−50.0"
    assert bounds(-0.031, 0.019) == "[−3.1, +1.9]"


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), "none"), ((3,), "3"), ((0, 1, 2, 8), "0–2, 8"), ((5, 4), "4–5"), ((1, 3, 5), "1, 3, 5")],
)
def test_layers(indexes, text):
    assert layers(indexes) == text


@pytest.mark.parametrize(
    ("counts", "count", "part"),
    [
        ((40, 570, 570), "40 of 570", "subset: 40 of 570"),
        ((570, 570, 570), "570", ""),
        ((570, 570, None), "570", ""),
        ((40, 570, None), "40 of 570", "subset: 40 of 570"),
        ((570, 570, 1172), "570 (official: 1172)", "subset: 570 of 1172"),
        ((40, 570, 1172), "40 of 570 (official: 1172)", "subset: 40 of 1172"),
    ],
)
def test_a_subset_is_always_labelled(undecided, counts, count, part):
    evaluated, loaded, official = counts
    task = replace(
        undecided.tasks[0],
        documents=evaluated,
        documents_in_split=loaded,
        official_documents=official,
    )
    assert documents(task) == count
    assert subset([task]) == part


def pooled(difference, low, high):
    return Comparison(
        candidate="X",
        baseline="Y",
        task="pooled",
        metric="acc",
        n=320,
        baseline_value=0.5,
        candidate_value=0.5 + difference,
        difference=difference,
        low=low,
        high=high,
        confidence=0.95,
        gains=3,
        losses=12,
        method="m",
        decided=low > 0 or high < 0,
    )


def test_decided_verdicts():
    assert verdict(pooled(-0.028, -0.054, -0.002), []) == (
        "Pooled over 320 documents, X is 2.8 points worse than Y (95 % interval −5.4 to −0.2)."
    )
    assert verdict(pooled(0.028, 0.0002, 0.054), []) == (
        "Pooled over 320 documents, X is 2.8 points better than Y (95 % interval +0.02 to +5.4)."
    )


def test_undecided_verdict_says_what_could_have_been_told(undecided):
    assert verdict(pooled(-0.006, -0.031, 0.019), undecided.tasks) == (
        "Pooled over 320 documents (subset: 80 of 610), the difference between X and Y is too "
        "small to decide: the 95 % interval [−3.1, +1.9] contains zero; with these documents, only "
        "a measured difference of about 2.5 points or more would be decided."
    )
