"""Parts of pages that are made from published results and from the columns."""

from dataclasses import replace
from pathlib import Path

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.report.board_columns import COLUMNS_VERSION, LEADERBOARD_COLUMNS, SCORE_COLUMNS
from ladder_eval.report.generated import PAGES, published_table, rewritten, sections
from ladder_eval.results.records import to_json

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_current(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    again = rewritten(text, sections(ROOT / "reports"))
    assert text == again, "run `python -m ladder_eval.report.generated`"
    assert "generated -->\n\n" in text


def test_every_column_is_documented_once():
    text = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    first, second = text.split("### A row a model and task")
    for part, names in ((first, LEADERBOARD_COLUMNS), (second, [c.name for c in SCORE_COLUMNS])):
        listed = [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
        assert listed == list(names)


HEADER = (
    "model,residual,ladder_layers,num_hidden_layers,parameters,suite,group,tasks,task_versions,"
    "prompting,limit,seed,documents,documents_whole,prompts_sha256,documents_sha256,mean_headline,"
    "mean_headline_stderr,mean_headline_n,baseline,pooled_difference_points,pooled_low_points,"
    "pooled_high_points,pooled_n,speed_kind,ttft_ms,tpot_ms,tokens_per_s,decode_speedup,"
    "decode_speedup_low,decode_speedup_high,speed_rounds,speed_batch_size,speed_prompt_len,"
    "speed_output_len,speed_tp_size,speed_link,speed_device,speed_dtype,speed_weights,"
    "speed_layers,dtype,device,tp_size,batch_size,weights,adaptation,weights_sha256,"
    "tokenizer_sha256,fingerprint,origin,run_id,started_at,commit,ladder_eval_version,"
    "lm_eval_version,torch_version,transformers_version,schema_version"
)
SCORES_HEADER = (
    "model,suite,group,task,task_version,dataset,split,num_fewshot,metric,filter,part,value,stderr,"
    "low,high,n,documents,documents_in_split,prompts_sha256,documents_sha256,data_sha256,dtype,"
    "device,fingerprint,origin,run_id"
)


def test_columns_of_version_1_stay():
    """New ones may join at the end; whatever else changes raises the version."""
    assert COLUMNS_VERSION == 1
    assert ",".join(LEADERBOARD_COLUMNS).startswith(HEADER)
    assert ",".join(column.name for column in SCORE_COLUMNS).startswith(SCORES_HEADER)


def published(folder, result):
    (folder / "run").mkdir()
    (folder / "run" / "results.json").write_text(to_json(result))
    return published_table(folder)


def test_published_results_are_ranked(undecided, tmp_path):
    assert published_table(tmp_path) == "No result is published yet."
    text = published(tmp_path, undecided)
    assert text.startswith(
        "commonsense: 2 tasks, 80 documents, subset: 80 of 610, limit 40, seed 7"
    )
    assert "| 1 | dense | standard |" in text
    assert "lad\\|der" in text


@pytest.mark.parametrize("commit", [None, "abc123-dirty"])
def test_what_cannot_be_repeated_is_not_published(undecided, tmp_path, commit):
    made = replace(undecided.provenance, commit=commit)
    with pytest.raises(RecordError, match="run-1 can't be published: it wasn't made from a clean"):
        published(tmp_path, replace(undecided, provenance=made))


def test_what_waits_or_has_no_hash_is_not_published(undecided, tmp_path):
    tasks = tuple(replace(task, data_sha256="") for task in undecided.tasks)
    waiting = replace(undecided, tasks=tasks, pending_tasks=("alpaca_eval",))
    with pytest.raises(RecordError, match="no hash of its data; alpaca_eval wait for a judge"):
        published(tmp_path, waiting)


def test_what_was_imported_needs_samples_to_be_published(undecided, tmp_path):
    models = tuple(replace(model, origin="results.json") for model in undecided.models)
    with pytest.raises(RecordError, match="it was imported without samples"):
        published(tmp_path, replace(undecided, models=models))


def test_only_what_is_between_markers_is_rewritten():
    page = "a\n<!-- x: generated -->\nold\n<!-- end of x -->\nb\n"
    assert rewritten(page, {"x": "new"}) == (
        "a\n<!-- x: generated -->\n\nnew\n\n<!-- end of x -->\nb\n"
    )
    assert rewritten("no markers", {"x": "new"}) == "no markers"
