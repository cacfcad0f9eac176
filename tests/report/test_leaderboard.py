"""The leaderboard: stable columns, one row per evaluation, and a CSV that is only data."""

import csv
import io
from dataclasses import replace

import pandas as pd
import pytest

from ladder_eval.report.board_columns import LEADERBOARD_COLUMNS
from ladder_eval.report.leaderboard import leaderboard, to_csv


def later(result, started_at="2025-02-01T00:00:00+00:00", **changes):
    made = replace(result.provenance, started_at=started_at)
    return replace(result, provenance=made, **changes)


def test_rows_by_hand(undecided):
    frame = leaderboard([undecided])
    assert list(frame.columns) == list(LEADERBOARD_COLUMNS)
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == LEADERBOARD_COLUMNS
    dense, ladder = frame.to_dict("records")
    assert (dense["model"], ladder["model"]) == ("dense", "lad|der")
    assert dense["mean_headline"] == pytest.approx((24 / 40 + 31 / 40) / 2)
    assert ladder["mean_headline"] == pytest.approx((22 / 40 + 31 / 40) / 2)
    assert ladder["pooled_difference_points"] == pytest.approx(-2.5)
    assert ladder["pooled_low_points"] == 100 * undecided.comparisons[-1].low
    assert ladder["pooled_high_points"] == 100 * undecided.comparisons[-1].high
    assert ladder["baseline"] == "dense"
    assert ladder["ladder_layers"] == "[8, 9, 10, 11, 12, 13, 14, 15]"
    assert (ladder["documents"], ladder["limit"], ladder["seed"]) == (80, 40, 7)
    assert ladder["ladder_eval_version"] == "0.1.0"
    assert pd.isna(dense["pooled_difference_points"])
    assert pd.isna(dense["baseline"])


def test_sorted_by_suite_then_mean(undecided):
    other = later(undecided, suite="arc")
    frame = leaderboard([undecided, other])
    assert frame["suite"].tolist() == ["arc", "arc", "commonsense", "commonsense"]
    assert frame["model"].tolist() == ["dense", "lad|der"] * 2


def test_repeated_evaluation_counts_once_the_newest(undecided):
    # Later than the first, although its text sorts before it.
    newer = later(undecided, "2025-01-31T09:00:00-05:00", run_id="new")
    for order in ([undecided, newer], [newer, undecided]):
        assert leaderboard(order)["run_id"].tolist() == ["new", "new"]


def test_other_evaluation_stays(undecided):
    first, second = undecided.tasks
    others = [
        later(undecided, suite="x"),
        later(undecided, tasks=(replace(first, prompts_sha256="other"), second)),
        later(undecided, models=tuple(replace(m, device="cuda") for m in undecided.models)),
        later(undecided, models=tuple(replace(m, dtype="bfloat16") for m in undecided.models)),
    ]
    for other in others:
        assert len(leaderboard([undecided, other])) == 4


def test_repeated_whole_evaluation_counts_once(undecided):
    whole = replace(undecided, limit=None)
    assert len(leaderboard([whole, later(whole)])) == 2


def test_missing_headline_gives_no_mean(undecided):
    frame = leaderboard([replace(undecided, scores=undecided.scores[:2])])
    assert frame["mean_headline"].isna().all()


def test_nothing_is_an_empty_leaderboard():
    frame = leaderboard([])
    assert frame.empty
    assert to_csv(frame) == ",".join(LEADERBOARD_COLUMNS) + "\n"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("x")'])
def test_text_is_never_a_formula(undecided, name):
    first, second = undecided.models
    risky = replace(undecided, models=(replace(first, weights=name), second))
    text = to_csv(leaderboard([risky]))
    again = pd.read_csv(io.StringIO(text), lineterminator="\n")
    assert again["weights"].tolist() == [f"'{name}", "org/weights"]


def test_numbers_stay_numbers(undecided, tmp_path):
    frame = leaderboard([undecided])
    (tmp_path / "leaderboard.csv").write_text(to_csv(frame), encoding="utf-8")
    with (tmp_path / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        dense, ladder = csv.DictReader(file)
    for name in ("mean_headline", "pooled_difference_points", "pooled_low_points"):
        assert float(ladder[name]) == frame[name][1]
    assert ladder["pooled_low_points"].startswith("-")
    assert dense["pooled_low_points"] == ""
    assert (ladder["seed"], ladder["limit"]) == ("7", "40")
