"""The terminal's table and the Markdown say the same, completely, and no more than the data."""

from dataclasses import replace

import pytest
from report_records import printed
from scipy import stats

from ladder_eval.report.tables import blocks, comparison_table, conditions, markdown


def test_rows_by_hand(undecided):
    (block,) = blocks(undecided)
    arc, boolq, pooled = block.rows
    assert block.title == "lad|der (cand.) against dense (base): difference in points"
    assert arc[:6] == ("arc_easy", "40 of 570", "acc_norm", "60.0", "55.0", "−5.0")
    assert arc[7] == "2/4"
    assert boolq[:6] == ("boolq", "40", "acc", "77.5", "77.5", "0.0")
    assert pooled[:6] == ("pooled", "80", "headline", "68.8", "66.2", "−2.5")
    assert pooled[7] == "3/5"
    assert block.total
    assert all(len(row) == len(block.columns) for row in block.rows)


def test_undecided_is_not_called_worse(undecided):
    for text in (printed(comparison_table(undecided)), markdown(undecided)):
        assert "too small to decide" in text
        assert "worse" not in text
        assert "better" not in text


def test_decided_is_called_worse(decided):
    (block,) = blocks(decided)
    assert block.notes[0].startswith(
        "Pooled over 80 documents (subset: 80 of 610), lad|der is 25.0 points worse than dense"
    )


def test_one_block_for_each_candidate(undecided):
    other = tuple(replace(each, candidate="second") for each in undecided.comparisons)
    both = replace(undecided, comparisons=undecided.comparisons + other)
    assert [each.title for each in blocks(both)] == [
        "lad|der (cand.) against dense (base): difference in points",
        "second (cand.) against dense (base): difference in points",
    ]


def test_task_that_is_not_pooled_is_named(undecided):
    arc, boolq, pooled = undecided.comparisons
    graded = replace(undecided, comparisons=(arc, replace(boolq, method="paired t"), pooled))
    (block,) = blocks(graded)
    assert block.notes[1] == "Not pooled, as no right or wrong per document: boolq."
    assert "(subset: 40 of 570)" in block.notes[0]
    none = replace(undecided, comparisons=(replace(arc, method="paired t"),))
    (block,) = blocks(none)
    assert block.notes == ("No pooled difference: no task's metric is 0 or 1 for each document.",)
    assert not block.total


def test_scores_alone_have_exact_intervals(uncompared):
    dense, ladder = blocks(uncompared)
    assert (dense.title, ladder.title) == ("scores of dense", "scores of lad|der")
    expected = stats.binomtest(24, 40).proportion_ci(method="exact")
    interval = f"[{100 * expected.low:.1f}, {100 * expected.high:.1f}]"
    assert dense.rows[0] == ("arc_easy", "40 of 570", "acc_norm", "60.0", interval)
    assert ("intervals", "exact binomial (Clopper–Pearson)") in conditions(uncompared)


def test_score_without_an_interval_has_a_dash(uncompared):
    first, *others = uncompared.scores
    graded = replace(uncompared, scores=(replace(first, low=None, high=None, method=""), *others))
    assert blocks(graded)[0].rows[0][-1] == "—"


IN_BOTH = (
    "standard (16 layers)",
    "ladder (layers 8–15 of 16)",
    "converted without retraining",
    "float32 on cpu",
    "tp_size 1, batch_size 8",
    "3.00 GiB",
    "exact unconditional (Tango score, Berger–Boos)",
    "two requests were truncated",
)


@pytest.mark.parametrize("fact", IN_BOTH)
def test_what_the_numbers_need_is_in_terminal_and_report(undecided, fact):
    assert fact in markdown(undecided)
    assert fact in printed(comparison_table(undecided), width=400)


@pytest.mark.parametrize(
    "fact",
    [
        "BOS: added once",
        "5 reused, 2 truncated",
        "hub/arc_easy, test split, subset: 40 of 570, 0-shot, acc_norm, version 1",
        "at most 40 documents a task, seed 7, subset: 80 of 610",
        "cpu Some [CPU], gpus a, b",
        "61.2 s wall time",
        "abc123",
    ],
)
def test_report_has_all_conditions(undecided, fact):
    assert fact in markdown(undecided)


def test_tokens_of_a_batch_stand_beside_its_rows(undecided):
    dense, ladder = undecided.models
    models = (replace(dense, batch_tokens=(2048,)), replace(ladder, batch_tokens=(512, 2048)))
    result = replace(undecided, models=models)
    text, shown = markdown(result), printed(comparison_table(result), width=400)
    for tokens in ("2048", "512 or 2048"):
        assert f"batch_size 8 (up to {tokens} tokens a batch)" in text
        assert f"batch_size 8 (up to {tokens} tokens a batch)" in shown
    assert "tokens a batch" not in markdown(undecided)  # nobody knows it of older results


def test_markdown_tables_are_rectangular_and_names_are_escaped(undecided):
    text = markdown(replace(undecided, warnings=("a\nb <script>",)))
    assert "lad\\|der" in text
    assert "a b &lt;script>" in text
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 5 + 6
    assert {line.count("|") for line in lines[:5]} == {9}
    assert {line.count("|") for line in lines[5:]} == {10}


def test_brackets_are_not_markup(undecided):
    first, *others = undecided.models
    risky = replace(undecided, models=(replace(first, name="[bold]x[/bold]"), *others))
    assert "[bold]x[/bold]" in printed(comparison_table(risky))


def test_narrow_terminal_shows_every_number(undecided):
    text = printed(comparison_table(undecided), width=80)
    assert "…" not in text
    assert "[−19.4, +8.7]" in text
    assert "−5.0" in text
