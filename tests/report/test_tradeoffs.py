"""Trade-offs as tables."""

import pytest
from tradeoff_runs import BASELINE, LADDERS, three_ladders, traded

from ladder_eval.report.tradeoffs import equal_blocks, equal_sentences, tradeoff_block
from ladder_eval.results.equal_terms import equal_terms
from ladder_eval.results.store import read_result
from ladder_eval.results.tradeoff import tradeoffs


def only(folder):
    (found,) = tradeoffs(read_result(folder))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return three_ladders(tmp_path_factory.mktemp("runs") / "run", noise=0.0)


def test_points_are_rows_with_their_place_on_the_front(folder):
    block = tradeoff_block(only(folder))
    assert block.columns == ("", "points", "interval", "decode speedup", "tokens/s", "front")
    assert block.rows[0][:2] == (BASELINE, "—")
    assert [row[0] for row in block.rows[1:]] == list(LADDERS)
    assert [row[1] for row in block.rows[1:]] == ["−2.0", "−6.0", "−10.0"]
    assert block.rows[1][3] == "1.25 [1.25, 1.25]"
    assert {row[5] for row in block.rows} == {"yes"}
    assert "over the virtual link" in block.title


def test_what_is_slower_and_worse_is_not_on_the_front(tmp_path):
    made = {"ladder_x": ("ladder", 1.6, (1, 1)), "parallel_x": ("parallel", 1.2, (3, 3))}
    rows = tradeoff_block(only(traded(tmp_path / "run", made))).rows
    assert {row[0]: row[5] for row in rows} == {
        BASELINE: "yes",
        "ladder_x": "yes",
        "parallel_x": "no",
    }


def test_a_family_has_a_table_of_speeds_and_one_of_losses(folder):
    speeds, losses = equal_blocks(equal_terms(only(folder), folder))
    assert speeds.title == "accuracy at equal latency: ladder, converted, through 4 measured points"
    assert [row[:3] for row in speeds.rows][:2] == [
        ("1.2", "8.33", "−1.7"),
        ("1.4", "7.14", "−4.0"),
    ]
    assert [row[0] for row in losses.rows] == ["0.5", "1.0", "2.0", "5.0"]
    assert [row[1] for row in losses.rows] == ["1.05", "1.11", "1.25", "1.50"]


def test_what_is_not_reached_says_so(tmp_path):
    losing = zip(LADDERS, (1.25, 1.6, 2.0), ((0, 0), (0, 1), (1, 1)), strict=True)
    folder = traded(tmp_path / "run", {name: ("ladder", *each) for name, *each in losing})
    _, losses = equal_blocks(equal_terms(only(folder), folder))
    assert losses.rows[-1] == ("5.0", "not reached", "—")
    assert losses.rows[1][2].endswith(", …]")


def test_another_family_is_held_against_a_model(tmp_path):
    ladders = zip(LADDERS, (1.25, 1.6, 2.0), ((1, 1), (2, 4), (5, 5)), strict=True)
    made = {name: ("ladder", *each) for name, *each in ladders}
    made["parallel_x"] = ("parallel", 1.25, (2, 2))
    folder = traded(tmp_path / "run", made, noise=0.0)
    terms = equal_terms(only(folder), folder)
    (row,) = equal_blocks(terms)[-1].rows
    assert row[:3] == ("parallel_x", "ladder, converted", "+2.0")
    assert row[4] == "1.12"  # 0.8 / 0.7125
    (sentence,) = equal_sentences(terms)
    assert sentence == (
        "Accuracy at equal latency, of parallel, converted: not computable from 2 points: a curve "
        "needs at least 3 of one family, the baseline among them."
    )
