"""Which rows are ranked together, what stands on a page, and what other programs read of it."""

import csv
import html.parser
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pandas as pd
import pytest

import ladder_eval
from ladder_eval.errors import UsageError
from ladder_eval.report.block import Block
from ladder_eval.report.board_columns import LEADERBOARD_COLUMNS, SCORE_COLUMNS, kinds
from ladder_eval.report.board_exports import board_html, export, to_json
from ladder_eval.report.board_pages import board_blocks
from ladder_eval.report.leaderboard import Wanted, leaderboard, read_board
from ladder_eval.results.records import JudgementRecord
from ladder_eval.results.records import to_json as result_json


def now(result, **changes):
    """The result as if this version had made it, with other hashes than none."""
    tasks = tuple(replace(task, documents_sha256="d") for task in result.tasks)
    versions = {"ladder-eval": ladder_eval.__version__}
    made = replace(result.provenance, versions=versions)
    return replace(replace(result, provenance=made, tasks=tasks), **changes)


def other(result, suffix="2"):
    """The same evaluation of other models."""
    models = tuple(
        replace(model, fingerprint=f"{model.fingerprint}{suffix}") for model in result.models
    )
    return replace(result, models=models, run_id=f"run{suffix}")


def stored(folder, *results):
    for number, result in enumerate(results):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "results.json").write_text(result_json(result))
    return folder


def changed(result, **changes):
    first, *others = result.tasks
    return replace(result, tasks=(replace(first, **changes), *others))


JUDGEMENT = JudgementRecord(
    model="dense",
    task="arc_easy",
    reference="reference",
    judge="judge",
    url="u",
    prompt="p",
    seed=0,
    documents=40,
    win_rate=0.5,
    win_rate_stderr=None,
    lc_win_rate=None,
    lc_win_rate_stderr=None,
    why_not=None,
    mean_length=1.0,
    reference_mean_length=1.0,
    price=None,
)


@pytest.mark.parametrize(
    "apart",
    [
        lambda result: changed(result, version="2"),
        lambda result: changed(result, documents=39),
        lambda result: changed(result, prompts_sha256="other"),
        lambda result: changed(result, documents_sha256="other"),
        lambda result: changed(result, filter="strict"),
        lambda result: changed(result, num_fewshot=5),
        lambda result: replace(result, tasks=result.tasks[:1]),
        lambda result: replace(result, average_tasks=("arc_easy",)),
        lambda result: replace(result, judgements=(JUDGEMENT,)),
        lambda result: replace(result, suite="other"),
    ],
)
def test_what_was_not_asked_the_same_is_ranked_apart(undecided, apart):
    one, two = now(undecided), apart(other(now(undecided)))
    blocks = board_blocks(leaderboard([one, two]))
    assert [len(block.rows) for block in blocks] == [2, 2]
    assert all({row[0] for row in block.rows} <= {"1", "2", "—"} for block in blocks)
    assert len({block.title for block in blocks}) == 2


def test_models_of_one_run_in_other_forms_are_ranked_apart(undecided):
    dense, ladder = undecided.models
    templated = replace(ladder, prompts="in the chat template (SHA-256 0123456789ab)")
    frame = leaderboard([now(undecided, models=(dense, templated))])
    blocks = board_blocks(frame)
    assert [len(block.rows) for block in blocks] == [1, 1]
    notes = [block.notes[0] for block in blocks]
    assert any("by questions in the chat template (SHA-256 0123456789ab)." in n for n in notes)


def test_what_was_asked_the_same_is_ranked_together(undecided):
    three = [now(undecided), other(now(undecided)), other(now(undecided), "3")]
    (block,) = board_blocks(leaderboard(three))
    assert [row[0] for row in block.rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row[1] for row in block.rows] == ["dense"] * 3 + ["lad|der"] * 3
    assert [row[4] for row in block.rows] == ["68.8 ± 5.1"] * 3 + ["66.3 ± 5.1"] * 3
    group = leaderboard(three)["group"][0]
    assert block.title == (
        f"commonsense: 2 tasks, 80 documents, subset: 80 of 610, limit 40, seed 7 (group {group})"
    )
    assert "lad|der: converted without retraining." not in block.notes
    assert any("converted without retraining" in note for note in block.notes)


def test_what_sets_groups_apart_is_said(undecided):
    one, two = now(undecided), changed(other(now(undecided)), version="2")
    blocks = board_blocks(leaderboard([one, two]))
    notes = sorted(block.notes[0] for block in blocks)
    apart = "Ranked apart from other rows of this suite, by versions"
    assert notes == [f"{apart} v1 v1.", f"{apart} v2 v1."]


def test_a_model_without_an_average_is_not_ranked(undecided):
    part = replace(now(undecided), scores=undecided.scores[:3])
    (block,) = board_blocks(leaderboard([part]))
    assert [row[0] for row in block.rows] == ["1", "—"]
    assert block.rows[1][4] == "—"


def test_a_row_of_another_version_is_marked(undecided):
    old = replace(undecided.provenance, versions={"ladder-eval": "0.0.1"})
    blocks = board_blocks(leaderboard([replace(now(undecided), provenance=old)]))
    assert blocks[0].rows[0][1] == "dense †"
    assert f"† Made by ladder-eval 0.0.1; this is {ladder_eval.__version__}." in blocks[0].notes


def test_standard_error_and_n_of_the_mean_by_hand(undecided):
    dense = leaderboard([now(undecided)]).to_dict("records")[0]
    assert dense["mean_headline_stderr"] == pytest.approx((0.0721**2 * 2) ** 0.5 / 2)
    assert (dense["mean_headline_n"], dense["documents"], dense["documents_whole"]) == (80, 80, 610)
    assert pd.isna(dense["pooled_n"])


def test_filters(undecided, tmp_path):
    later = replace(undecided.provenance, started_at="2025-03-01T00:30:00+02:00")
    second = other(replace(now(undecided), suite="quick"))
    runs = stored(tmp_path, now(undecided), replace(second, provenance=later))

    def models(**filters):
        frame = read_board(runs, Wanted(**filters)).models
        return list(zip(frame["suite"], frame["model"], strict=True))

    every = [("commonsense", "dense"), ("commonsense", "lad|der")]
    every += [("quick", "dense"), ("quick", "lad|der")]
    assert models() == every
    assert models(suite="q*") == every[2:]
    assert models(model="lad*") == every[1::2]
    assert models(residual="standard") == every[::2]
    assert models(dtype="float32") == every
    assert models(since="2025-02-28T22:30:00") == models(since="2025-02-28") == every[2:]
    for nothing in ({"kind": "measured"}, {"since": "2025-03-01"}, {"dtype": "float"}):
        with pytest.raises(UsageError, match="as wanted"):
            models(**nothing)


def test_repeated_evaluations_count_once_with_their_scores(undecided, tmp_path):
    newer = replace(undecided.provenance, started_at="2026-01-01T00:00:00+00:00")
    again = replace(now(undecided), provenance=newer, run_id="again")
    runs = stored(tmp_path, now(undecided), again, again)  # and a copy
    board = read_board(runs, Wanted())
    assert board.repeated == 4
    assert board.models["run_id"].tolist() == ["again", "again"]
    assert board.scores["run_id"].tolist() == ["again"] * 4
    assert board.scores["task"].tolist() == ["arc_easy", "boolq"] * 2
    assert board.scores["value"].tolist() == pytest.approx([24 / 40, 31 / 40, 22 / 40, 31 / 40])


def test_damaged_runs_do_not_stop_the_board(undecided, tmp_path):
    runs = stored(tmp_path, now(undecided), now(undecided))
    (runs / "0" / "results.json").write_text("{")
    board = read_board(runs, Wanted())
    assert len(board.models) == 2
    assert len(board.skipped) == 1


@pytest.fixture
def board(undecided, tmp_path):
    return read_board(stored(tmp_path / "runs", risky(now(undecided))), Wanted())


RISKY = '=HYPERLINK("x")<script>alert(1)</script>'


def risky(result):
    """The dense model's name is what no page may take for its own."""
    first, second = result.models
    scores = (
        replace(each, model=RISKY if each.model == "dense" else each.model)
        for each in result.scores
    )
    named = tuple(replace(each, baseline=RISKY) for each in result.comparisons)
    return replace(
        result,
        models=(replace(first, name=RISKY), second),
        scores=tuple(scores),
        comparisons=named,
        baseline=RISKY,
    )


@pytest.mark.parametrize(
    ("by_task", "columns"), [(False, LEADERBOARD_COLUMNS), (True, kinds(SCORE_COLUMNS))]
)
def test_pandas_reads_the_types_of_the_csv(board, by_task, columns):
    text = export(board, "csv", by_task=by_task)
    frame = pd.read_csv(io.StringIO(text))
    assert list(frame.columns) == list(columns)
    kept = {"string": "object str string", "Int64": "int64 float64", "float64": "float64"}
    for name, kind in columns.items():
        if frame[name].notna().any():
            assert str(frame[name].dtype) in kept[kind].split(), name
    typed = pd.read_csv(io.StringIO(text), dtype=columns)
    own = board.scores if by_task else board.models
    for name, kind in columns.items():
        if kind != "string":
            assert typed[name].equals(own[name]), name


def test_no_text_of_the_csv_is_a_formula(board):
    for by_task in (False, True):
        rows = list(csv.reader(io.StringIO(export(board, "csv", by_task=by_task))))
        assert f"'{RISKY}" in {cell for row in rows for cell in row}
        starts = {cell for row in rows for cell in row if cell[:1] in set("=+-@\t\r\n")}
        assert all(re.fullmatch(r"-\d+(\.\d+)?(e-\d+)?", cell) for cell in starts)


def test_json_has_types(board):
    page = json.loads(export(board, "json", by_task=False))
    assert page["columns_version"] == 1
    row = page["rows"][0]
    assert list(row) == list(LEADERBOARD_COLUMNS)
    assert (row["model"], row["documents"], row["ttft_ms"]) == (RISKY, 80, None)
    assert row["mean_headline"] == board.models["mean_headline"][0]
    assert to_json(board.models.head(0)) == '{\n  "columns_version": 1,\n  "rows": []\n}\n'


class Page(html.parser.HTMLParser):
    """Tags, and the texts of cells."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells, self._in_cell = [], [], False

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._in_cell = tag in ("td", "th")
        if self._in_cell:
            self.cells.append("")

    def handle_endtag(self, tag):
        self._in_cell = False

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


def test_html_shows_every_cell_and_runs_none(board):
    text = export(board, "html", by_task=False)
    page = Page()
    page.feed(text)
    (block,) = board_blocks(board.models)
    assert page.cells == [*block.columns, *(cell for row in block.rows for cell in row)]
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "<script>alert" not in text
    assert not any("src" in attributes or "href" in attributes for _, attributes in page.tags)
    assert "://" not in text
    assert "color-scheme: light dark" in text


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_script_of_the_page_parses(board, tmp_path):
    text = export(board, "html", by_task=False)
    script = text.partition("<script>")[2].partition("</script>")[0]
    (tmp_path / "page.js").write_text(script)
    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True, timeout=30)


def test_notes_and_titles_are_escaped():
    block = Block(title="<b>", columns=("a&b",), rows=(("<i>",),), notes=("<u>",))
    text = board_html([block])
    for raw in ("<b>", "a&b<", "<i>", "<u>"):
        assert raw not in text
    assert "a&amp;b" in text


def test_markdown_is_rectangular_and_escaped(board):
    for by_task in (False, True):
        text = export(board, "md", by_task=by_task)
        assert "<script" not in text
        lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1
        assert len(lines) == (6 if by_task else 4)
