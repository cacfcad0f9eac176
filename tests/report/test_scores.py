"""Filters, parts, perplexities and the suite's average in tables."""

from dataclasses import replace

import pytest
from report_records import printed
from run_folders import task

from ladder_eval.report.leaderboard import leaderboard
from ladder_eval.report.scores import all_scores, average_blocks
from ladder_eval.report.tables import blocks, comparison_table, conditions, markdown
from ladder_eval.results.pairing import Pair, compare
from ladder_eval.results.published import published_row
from ladder_eval.results.records import Score

WIKI = replace(task("wikitext", "word_perplexity", 4, 62), num_fewshot=0)
PAGES = [
    Pair(task="wikitext", metric="word_perplexity", baseline=b, candidate=c, weight=50.0)
    for b, c in [(3.0, 2.8), (2.5, 2.4), (3.5, 3.3), (2.8, 2.7)]
]


def wiki_score(name, value):
    return Score(
        model=name,
        task="wikitext",
        metric="word_perplexity",
        value=value,
        n=4,
        stderr=1.25,
        low=value - 2,
        high=value + 2,
        method="bootstrap of documents (1,000)",
    )


@pytest.fixture
def with_wiki(undecided):
    (ratio,) = compare("lad|der", "dense", PAGES)
    return replace(
        undecided,
        tasks=(*undecided.tasks, WIKI),
        scores=(*undecided.scores, wiki_score("dense", 18.54), wiki_score("lad|der", 16.0)),
        comparisons=(*undecided.comparisons[:2], ratio, undecided.comparisons[2]),
    )


@pytest.fixture
def with_filters(uncompared):
    """Sums with two filters, of which strict counts."""
    sums = replace(task("sums", "exact_match", 40, 40), filter="strict")
    first = uncompared.scores[0]
    made = [
        replace(first, task="sums", metric="exact_match", filter=kind, value=value)
        for kind, value in [("flexible", 0.75), ("strict", 0.5)]
    ]
    return replace(uncompared, tasks=(sums,), scores=tuple(made))


def test_headline_of_a_macro_task_is_the_mean_of_its_subjects(uncompared):
    first = uncompared.scores[0]
    made = [replace(first, part="macro", value=0.25), replace(first, part="subject law")]
    (task, *_) = uncompared.tasks
    macros = replace(
        uncompared, tasks=(replace(task, part="macro"),), scores=(*uncompared.scores, *made)
    )
    row = blocks(macros)[0].rows[0]
    assert row[2:4] == (f"{task.metric} (macro)", "25.0")
    assert (
        "(macro); differences are over documents" in dict(conditions(macros))[f"task {task.task}"]
    )


def test_difference_of_a_macro_task_is_called_micro(undecided):
    """It is over documents, so that its values are other ones than the headline's."""
    first, *others = undecided.tasks
    macros = replace(undecided, tasks=(replace(first, part="macro"), *others))
    assert blocks(macros)[0].rows[0][2] == f"{first.metric} (micro)"


def test_ratio_has_a_block_of_its_own(with_wiki):
    differences, ratios = blocks(with_wiki)
    assert [row[0] for row in differences.rows] == ["arc_easy", "boolq", "pooled"]
    assert differences.rows == blocks(replace(with_wiki, tasks=with_wiki.tasks[:2]))[0].rows
    assert ratios.title.endswith("ratio cand. / base, lower is better")
    (row,) = ratios.rows
    # exp(11.8 / 4), exp(11.2 / 4) and exp(-0.15)
    assert row[:6] == ("wikitext", "4 of 62", "word_perplexity", "19.11", "16.44", "0.8607")
    assert row[7] == "4/0"
    assert ratios.notes[0].startswith(
        "wikitext: lad|der is better than dense, at 0.8607 times its word_perplexity (95 %"
    )
    text = markdown(with_wiki)
    assert "Not pooled" not in text
    assert "paired bootstrap of documents (1,000), or t where it is wider" in text


def test_undecided_ratio_is_not_called_better(with_wiki):
    arc, boolq, ratio, pooled = with_wiki.comparisons
    unsure = replace(ratio, low=0.9, high=1.1, ratio=0.99, decided=False)
    block = blocks(replace(with_wiki, comparisons=(arc, boolq, unsure, pooled)))[1]
    assert block.notes == (
        "wikitext: the ratio 0.9900 is too near to 1 to decide; the 95 % interval "
        "[0.9000, 1.100] contains 1.",
    )


def test_task_without_an_interval_is_named(with_wiki):
    less = tuple(each for each in with_wiki.comparisons if each.task != "wikitext")
    text = printed(comparison_table(replace(with_wiki, comparisons=less)))
    assert "Not compared, as their documents have no spread to estimate from: wikitext." in text


def test_perplexity_is_no_percentage(with_wiki):
    shown = blocks(replace(with_wiki, comparisons=(), baseline=None))
    assert [block.title for block in shown] == [
        "scores of dense",
        "scores of dense, lower is better",
        "scores of lad|der",
        "scores of lad|der, lower is better",
    ]
    assert shown[1].rows == (("wikitext", "4 of 62", "word_perplexity", "18.54", "[16.54, 20.54]"),)


def test_headline_filter_is_named_where_there_are_several(with_filters):
    (block, _) = (*blocks(with_filters), None)
    assert block.rows[0][:4] == ("sums", "40", "exact_match (strict)", "50.0")
    assert any("exact_match (strict), version" in text for _, text in conditions(with_filters))
    one = replace(with_filters, scores=with_filters.scores[1:])
    assert blocks(one)[0].rows[0][2] == "exact_match"


def test_all_scores_have_filter_part_and_count(with_filters):
    first = with_filters.scores[1]
    parts = [
        replace(first, part=part, n=n)
        for part, n in [("macro", 40), ("category x", 40), ("subject a", 30), ("subject b", 10)]
    ]
    rows = all_scores(replace(with_filters, scores=(*with_filters.scores, *parts))).rows
    assert [row[2:6] for row in rows] == [
        ("", "exact_match", "flexible", "40"),
        ("micro (all documents)", "exact_match", "strict", "40"),
        ("macro (mean of 2 subjects)", "exact_match", "strict", "40"),
        ("category x", "exact_match", "strict", "40"),
        ("subject a", "exact_match", "strict", "30"),
        ("subject b", "exact_match", "strict", "10"),
    ]


def test_unknown_standard_error_is_a_dash_beside_the_exact_interval(with_filters):
    agreed = replace(with_filters.scores[0], value=1.0, stderr=None, low=0.912, high=1.0)
    row = all_scores(replace(with_filters, scores=(agreed,))).rows[0]
    assert row[-3:] == ("1.0000", "—", "[0.9120, 1.0000]")


@pytest.fixture
def averaged(with_wiki):
    published = published_row("ladder_1b")
    row = replace(published, model="lad|der", metrics=published.metrics | {"boolq": 61.0})
    return replace(
        with_wiki,
        published=(row,),
        average_tasks=("arc_easy", "boolq", "ifeval"),
        pending_tasks=("ifeval", "alpaca_eval"),
    )


def test_average_is_laid_out_as_the_papers_table(averaged):
    (block,) = average_blocks(averaged)
    assert block.columns == (
        "",
        "arc_easy",
        "boolq",
        "ifeval",
        "average",
        "wikitext word_perplexity",
    )
    dense, ladder, paper = block.rows
    # sqrt(2 * 0.0721²) / 2
    assert dense == ("dense", "60.0", "77.5", "—", "68.8 ± 5.1 (2 of 3)", "18.54")
    assert ladder == ("lad|der", "55.0", "77.5", "—", "66.3 ± 5.1 (2 of 3)", "16.00")
    assert paper == ("ladder-1b (published)", "67.76", "61.00", "—", "58.92", "18.42")
    assert block.notes[1].startswith("Incomplete: without ifeval, so no average of all 3 tasks")
    assert block.notes[2] == "Measured on a subset: 80 of 610."


def test_what_is_not_averaged_stands_beside(averaged):
    (block,) = average_blocks(replace(averaged, average_tasks=("boolq", "ifeval")))
    assert block.columns[3:] == ("average", "arc_easy acc_norm", "wikitext word_perplexity")
    assert block.rows[0][3:] == ("77.5 ± 7.2 (1 of 2)", "60.0", "18.54")


def test_incomplete_average_is_on_no_leaderboard(averaged):
    assert leaderboard([averaged])["mean_headline"].isna().all()
    complete = replace(averaged, average_tasks=("arc_easy", "boolq"))
    (block,) = average_blocks(complete)
    assert block.rows[0][3] == "68.8 ± 5.1"
    assert leaderboard([complete])["mean_headline"].tolist() == pytest.approx([0.6875, 0.6625])


def test_perplexities_are_in_no_mean(with_wiki, undecided):
    means = [leaderboard([each])["mean_headline"].tolist() for each in (with_wiki, undecided)]
    assert means[0] == means[1]


def test_average_and_pending_tasks_are_in_terminal_and_report(averaged):
    narrow = printed(comparison_table(averaged), width=80)
    assert "…" not in narrow
    assert "68.8 ± 5.1" in narrow
    assert "ifeval and alpaca_eval wait for a judge" in narrow
    text = markdown(averaged)
    assert "| dense | 60.0 | 77.5 | — | 68.8 ± 5.1 (2 of 3) | 18.54 |" in text
    assert "* **waiting**: ifeval and alpaca_eval wait for a judge: `ladder-eval judge`" in text


def test_no_average_without_the_suites_choice(undecided):
    assert average_blocks(undecided) == []
    assert average_blocks(replace(undecided, average_tasks=("arc_easy", "boolq"), scores=())) == []
    assert average_blocks(replace(undecided, average_tasks=("arc_easy",))) == []
