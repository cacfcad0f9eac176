"""Each warning where it is due, and none where it isn't."""

import json
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_records import about, record, run_of
from report_records import build

from ladder_eval.errors import RecordError
from ladder_eval.report.page.cautions import cautions
from ladder_eval.results.samples import SAMPLE_SCHEMA
from ladder_eval.results.ties import ties


@pytest.fixture
def clean():
    """A run of 200 documents a task, with all of them, and nothing to warn of."""
    made = build(arc=(10, 10, 100, 80), boolq=(10, 10, 100, 80))
    tasks = tuple(
        replace(task, documents=200, documents_in_split=200, official_documents=200)
        for task in made.tasks
    )
    models = tuple(replace(model, truncated_requests=0) for model in made.models)
    return replace(made, tasks=tasks, models=models, warnings=())


def said(result, words):
    return [each for each in cautions(run_of(result)) if words in each]


def first_task(result, **changes):
    first, *others = result.tasks
    return replace(result, tasks=(replace(first, **changes), *others))


def test_nothing_is_said_where_nothing_is_wrong(clean):
    timed = replace(clean, speed=(record({"lad|der": 1.2}),))
    assert cautions(run_of(timed)) == ()


def test_a_subset_is_named(clean):
    (found,) = said(first_task(clean, documents_in_split=570), "subset")
    assert "subset: 400 of 770 documents" in found


@pytest.mark.parametrize(("documents", "few"), [(99, True), (100, False)])
def test_few_documents_are_named(clean, documents, few):
    result = first_task(
        clean, documents=documents, documents_in_split=documents, official_documents=documents
    )
    assert bool(said(result, f"arc_easy ({documents})")) is few


def test_truncated_prompts_are_said_once(clean):
    cut = replace(clean.models[0], truncated_requests=3)
    sentence = (
        "dense: 3 requests were longer than the model can read and lost the start of their context."
    )
    result = replace(clean, models=(cut, clean.models[1]), warnings=(sentence,))
    assert cautions(run_of(result)) == (sentence,)


def test_texts_that_were_cut_are_named(clean):
    result = replace(clean, models=(replace(clean.models[0], cut_texts=1), clean.models[1]))
    assert said(result, "dense: 1 generated text ended")


def test_missing_scores_and_values_are_named(clean):
    scores = tuple(each for each in clean.scores if (each.model, each.task) != ("lad|der", "boolq"))
    fewer = tuple(
        replace(each, n=190) if each.task == "arc_easy" and each.model == "dense" else each
        for each in scores
    )
    result = replace(clean, scores=fewer)
    assert said(result, "lad|der has no score in boolq.")
    assert said(result, "dense has no value in 10 documents of arc_easy")


def test_pending_tasks_wait_rather_than_miss(clean):
    scores = tuple(each for each in clean.scores if each.task != "boolq")
    result = replace(clean, scores=scores, pending_tasks=("boolq",))
    assert said(result, "boolq waits for a judge")
    assert not said(result, "no score")


def test_tasks_without_any_change_are_named(clean):
    alike = build(arc=(0, 0, 100, 100), boolq=(10, 10, 100, 80))
    result = replace(clean, comparisons=alike.comparisons)
    (found,) = said(result, "tie on every document")
    assert "arc_easy (200)" in found
    assert "boolq" not in found


def test_a_control_out_of_bounds_is_named(clean):
    out = replace(clean, speed=(record({"lad|der": 1.2}, control=1.05),))
    (found,) = said(out, "A/A out of bounds")
    assert "1.050 times as fast [1.029, 1.071]" in found
    assert about(1.019).low < 1  # its interval holds 1
    assert not said(replace(clean, speed=(record({"lad|der": 1.2}, control=1.019),)), "A/A")


def test_few_rounds_are_named(clean):
    assert said(replace(clean, speed=(record({"lad|der": 1.2}, rounds=4),)), "Only 4 rounds")


def samples(*rows):
    """Samples of (model, task, metric, log-likelihoods)."""
    blank = dict.fromkeys(SAMPLE_SCHEMA.names, "")
    numbers = {"is_headline": True, "doc_id": 0, "value": 0.0, "weight": 1.0, "group": None}
    return pd.DataFrame(
        [
            blank
            | numbers
            | {
                "model": model,
                "task": task,
                "metric": metric,
                "filter": "none",
                "answers": answers if isinstance(answers, str) else json.dumps(answers),
            }
            for model, task, metric, answers in rows
        ]
    )


def written(folder, *rows):
    table = pa.Table.from_pandas(samples(*rows), schema=SAMPLE_SCHEMA, preserve_index=False)
    pq.write_table(table, folder / "samples.parquet")
    return folder / "samples.parquet"


def test_ties_are_counted_by_hand(tmp_path, clean):
    file = written(
        tmp_path,
        ("dense", "mmlu", "acc", [[-1.5, True], [-1.5, False], [-3.25, False]]),
        ("dense", "mmlu", "acc", [[-1e-05, True], [-2.5, False], [-2.5, False]]),  # not the best
        ("dense", "mmlu", "acc", [[-2.0, False]]),
        ("lad|der", "mmlu", "acc", [[-2.0, False], [-1.0, True]]),
        ("dense", "arc", "acc_norm", [[-2.0, False], [-2.0, True]]),  # judged by length, too
        ("dense", "gsm8k", "acc", ["[[-1, a text"]),
    )
    (found,) = ties(file)
    assert (found.model, found.task, found.tied, found.documents) == ("dense", "mmlu", 1, 3)
    (sentence,) = [e for e in cautions(run_of(clean, tmp_path)) if "two most likely" in e]
    assert "dense has two most likely choices in 1 of 3 documents of mmlu" in sentence


def test_samples_without_choices_have_no_ties(tmp_path):
    assert ties(written(tmp_path, ("dense", "gsm8k", "exact_match", ["a text"]))) == ()


def test_damaged_samples_are_one_sentence(tmp_path):
    file = tmp_path / "samples.parquet"
    file.write_bytes(b"no parquet")
    with pytest.raises(RecordError, match=r"samples.parquet can't be read"):
        ties(file)
