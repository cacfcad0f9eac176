"""The choice of documents, and what becomes of lm-eval's results."""

import collections
import itertools
import json
from pathlib import Path

import lm_eval.api.task
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lm_eval.utils import apply_template
from lm_eval.utils import env as templates

from ladder_eval.errors import DataError, RecordError
from ladder_eval.harness import samples
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import (
    choose,
    compile_templates_once,
    estimate_tokens,
    prepare,
    run_suite,
)
from ladder_eval.harness.samples import prompt_hash, sample_rows, write_lm_eval_layout
from ladder_eval.harness.suites import suite_of

SIZES = {"anatomy": 100, "botany": 40, "cells": 260}


def flat(chosen):
    return {(part, row) for part, rows in chosen.items() for row in rows}


def test_choice_is_ascending_and_as_large_as_asked():
    chosen = choose(SIZES, 60, 0)
    assert len(flat(chosen)) == 60
    assert all(rows == sorted(set(rows)) for rows in chosen.values())
    assert all(0 <= row < SIZES[part] for part, row in flat(chosen))


def test_choice_depends_on_the_seed_alone():
    backwards = dict(reversed(SIZES.items()))
    assert choose(SIZES, 60, 1) == choose(SIZES, 60, 1) == choose(backwards, 60, 1)
    assert flat(choose(SIZES, 60, 1)) != flat(choose(SIZES, 60, 2))


@pytest.mark.parametrize("seed", range(3))
def test_larger_limit_keeps_the_smaller_choice(seed):
    choices = [flat(choose(SIZES, limit, seed)) for limit in (1, 10, 40, 399, None)]
    assert [len(choice) for choice in choices] == [1, 10, 40, 399, 400]
    assert all(small < large for small, large in itertools.pairwise(choices))


def test_growing_data_keeps_the_ranks_of_the_old():
    more = {**SIZES, "dogs": 50}
    new = flat(choose(more, 60, 0))
    assert {each for each in new if each[0] != "dogs"} <= flat(choose(SIZES, 60, 0))


def test_choice_is_even_over_parts_and_rows():
    counts = collections.Counter()
    for seed in range(200):
        counts.update(flat(choose(SIZES, 40, seed)))
    by_part = {p: sum(counts[p, row] for row in range(size)) for p, size in SIZES.items()}
    # Hypergeometric: 8000 draws, a standard deviation of at most 43 for the largest part.
    assert by_part == pytest.approx({p: 20 * size for p, size in SIZES.items()}, abs=170)
    first_rows = sum(counts[p, row] for p in SIZES for row in range(10))
    assert first_rows == pytest.approx(200 * 40 * 30 / 400, abs=110)


@pytest.mark.parametrize("limit", [None, 400, 1000])
def test_no_limit_is_everything(limit):
    assert choose(SIZES, limit, 0) == {part: list(range(size)) for part, size in SIZES.items()}


def test_parts_without_a_document_are_left_out():
    assert all(choose(SIZES, 2, seed) for seed in range(5))
    assert all([] not in choose(SIZES, 2, seed).values() for seed in range(5))
    assert choose({"anatomy": 3, "botany": 0}, None, 0) == {"anatomy": [0, 1, 2]}


@pytest.mark.parametrize(
    "changed",
    [
        [("The cat", " sat"), ("The cow", " sat")],
        [("The cat", " sat"), ("The dog", " ran")],
        [("The dog", " sat"), ("The cat", " sat")],
        [("The cat", " sat")],
        [("The cat ", "sat"), ("The dog", " sat")],
    ],
    ids=str,
)
def test_prompt_hash_covers_every_request(changed):
    asked = [("The cat", " sat"), ("The dog", " sat")]
    assert prompt_hash(asked) == prompt_hash([list(pair) for pair in asked])
    assert prompt_hash(changed) != prompt_hash(asked)


def write(folder, rows):
    folder.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder)


@pytest.fixture(scope="session")
def data(tmp_path_factory, tiny_data):
    """WinoGrande, and MMLU with one to five questions a subject, beside the tiny data."""
    folder = tmp_path_factory.mktemp("more-data")
    places = ["field", "room", "box"]
    wino = [
        {
            "sentence": f"The stone {i} fell on the lamp because the _ was in the {places[i % 3]}.",
            "option1": "stone",
            "option2": "lamp",
            "answer": str(1 + i % 2),
        }
        for i in range(12)
    ]
    write(folder / "winogrande" / "winogrande_xl" / "validation.parquet", wino)
    for i, part in enumerate(suite_of(["mmlu"]).tasks[0].parts):
        subject = part.evaluated.config
        rows = [
            {
                "question": f"{subject} {row}?",
                "subject": subject,
                "choices": [f"{word} {row}" for word in ("one", "two", "three", "four")],
                "answer": (i + row) % 4,
            }
            for row in range(1 + i % 5)
        ]
        write(folder / "mmlu" / subject / "test.parquet", rows)
        write(folder / "mmlu" / subject / "dev.parquet", rows[:1])
    for name in ("ai2_arc", "piqa"):
        (folder / name).symlink_to(tiny_data / name)
    return DataSources(data_dir=folder, notify=print)


def test_limit_is_drawn_over_all_subjects(data):
    (whole,) = prepare(suite_of(["mmlu"]), limit=None, seed=0, sources=data)
    (some,) = prepare(suite_of(["mmlu"]), limit=40, seed=0, sources=data)
    assert len(whole.chosen) == 57
    assert len(flat(whole.chosen)) == whole.documents_in_split == 168
    assert some.documents_in_split == 168
    assert len(flat(some.chosen)) == 40
    assert len(some.chosen) > 20  # subjects
    assert some.lm_tasks.keys() == some.chosen.keys()
    assert some.data_sha256 == whole.data_sha256


def test_subjects_are_scored_as_one_task(data, make_lm):
    (task,) = prepare(suite_of(["mmlu"]), limit=40, seed=0, sources=data)
    result = run_suite(make_lm(), [task])
    rows = list(sample_rows("tiny", [task], result))
    assert len(rows) == 40
    assert {(row["group"], row["doc_id"]) for row in rows} == flat(task.chosen)
    mean = np.mean([row["value"] for row in rows])
    assert result["results"]["mmlu"]["acc,none"] == pytest.approx(mean)
    for row in rows:
        document = json.loads(row["document"])
        assert row["group"] == f"mmlu_{document['subject']}"
        assert document["question"].endswith(f" {row['doc_id']}?")
        choices = [logprob for logprob, _ in json.loads(row["answers"])]
        assert row["value"] == (int(np.argmax(choices)) == document["answer"])
        assert row["target"] == str(document["answer"])


def test_rows_name_the_documents_that_were_chosen(data, make_lm, tiny_data):
    tasks = prepare(suite_of(["piqa", "arc_easy"]), limit=7, seed=1, sources=data)
    rows = list(sample_rows("tiny", tasks, run_suite(make_lm(), tasks)))
    assert [row["task"] for row in rows] == ["piqa"] * 7 + ["arc_easy"] * 7
    piqa = pq.read_table(tiny_data / "piqa" / "default" / "validation.parquet").to_pylist()
    assert [row["doc_id"] for row in rows[:7]] == tasks[0].chosen["piqa"]
    assert [json.loads(row["document"]) for row in rows[:7]] == [
        piqa[row] for row in tasks[0].chosen["piqa"]
    ]
    assert {row["group"] for row in rows} == {None}
    assert {(row["metric"], row["filter"], row["model"]) for row in rows} == {
        ("acc_norm", "none", "tiny")
    }
    assert all(json.loads(row["metrics"])["acc_norm"] == row["value"] for row in rows)


def test_winogrande_prompts_are_hashed_with_both_options(data, make_lm):
    (task,) = prepare(suite_of(["winogrande"]), limit=None, seed=0, sources=data)
    result = run_suite(make_lm(), [task])
    rows = list(sample_rows("tiny", [task], result))
    for row, sample in zip(rows, result["samples"]["winogrande"], strict=True):
        contexts = [context for context, _ in sample["arguments"]]
        assert contexts[0].endswith("because the stone")
        assert contexts[1].endswith("because the lamp")
        assert row["prompt_hash"] == prompt_hash(sample["arguments"])
    assert len({row["prompt_hash"] for row in rows}) == 12


def test_data_hash_is_of_the_evaluated_rows(data, tiny_data, tmp_path):
    def hash_of(folder, limit=None):
        sources = DataSources(data_dir=folder, notify=print)
        return prepare(suite_of(["piqa"]), limit=limit, seed=0, sources=sources)[0].data_sha256

    rows = pq.read_table(tiny_data / "piqa" / "default" / "validation.parquet").to_pylist()
    file = tmp_path / "piqa" / "default" / "validation.parquet"
    write(file, rows)
    same = hash_of(tmp_path, limit=3)
    rows[-1]["label"] = 1 - rows[-1]["label"]
    write(file, rows)
    assert hash_of(tiny_data) == same
    assert hash_of(tmp_path) != same


def test_estimate_is_near_the_tokens_that_are_read(data, make_lm):
    tasks = prepare(suite_of(["arc_easy", "piqa"]), limit=None, seed=0, sources=data)
    estimate = estimate_tokens(tasks)
    lm = make_lm()
    run_suite(lm, tasks)
    # The tiny tokenizer makes a token of each character, the rule of thumb assumes four.
    assert 4 * estimate == pytest.approx(lm.tally.scored_tokens, rel=0.15)


@pytest.mark.parametrize("name", ["tiny", "a model [v1.0] of: mine?"])
def test_lm_eval_files_are_written(data, make_lm, tmp_path, name):
    tasks = prepare(suite_of(["piqa", "arc_easy"]), limit=5, seed=0, sources=data)
    for _ in range(2):  # the second replaces the first
        result = run_suite(make_lm(), tasks)
        expected = dict(result["results"]["piqa"])
        write_lm_eval_layout(tmp_path / "lm_eval", name, {"dtype": "float32"}, result)
    (folder,) = (tmp_path / "lm_eval").iterdir()
    (results,) = folder.glob("results_*.json")
    written = json.loads(results.read_text())
    assert written["results"]["piqa"]["acc_norm,none"] == expected["acc_norm,none"]
    assert written["config"] == {"model": name, "model_args": {"dtype": "float32"}}
    assert written["n-samples"]["piqa"]["effective"] == 5
    for task in ("piqa", "arc_easy"):
        (samples,) = folder.glob(f"samples_{task}_*.jsonl")
        assert len(samples.read_text().splitlines()) == 5


def test_lm_eval_files_that_fail_are_an_error(data, make_lm, tmp_path, monkeypatch):
    tasks = prepare(suite_of(["piqa"]), limit=2, seed=0, sources=data)
    result = run_suite(make_lm(), tasks)
    monkeypatch.setattr(samples.EvaluationTracker, "save_results_samples", lambda *_: None)
    with pytest.raises(RecordError, match="can't be written"):
        write_lm_eval_layout(tmp_path / "lm_eval", "tiny", {}, result)


def test_lm_eval_files_that_are_cut_replace_nothing(data, make_lm, tmp_path, monkeypatch):
    """lm-eval logs that the disk is full, leaves an empty file and goes on."""
    tasks = prepare(suite_of(["piqa"]), limit=2, seed=0, sources=data)
    write_lm_eval_layout(tmp_path, "tiny", {}, run_suite(make_lm(), tasks))
    before = {file: file.read_bytes() for file in (tmp_path / "tiny").iterdir()}

    def cut(tracker, task, samples):
        (Path(tracker.output_path) / "tiny" / f"samples_{task}_now.jsonl").touch()

    result = run_suite(make_lm(), tasks)
    monkeypatch.setattr(samples.EvaluationTracker, "save_results_samples", cut)
    with pytest.raises(RecordError, match="can't be written"):
        write_lm_eval_layout(tmp_path, "tiny", {}, result)
    assert {file: file.read_bytes() for file in (tmp_path / "tiny").iterdir()} == before


def test_unwritable_place_of_lm_eval_files_is_a_sentence(data, make_lm, tmp_path):
    tasks = prepare(suite_of(["piqa"]), limit=2, seed=0, sources=data)
    result = run_suite(make_lm(), tasks)
    (tmp_path / "lm_eval").write_text("a file")
    with pytest.raises(RecordError, match="can't be written"):
        write_lm_eval_layout(tmp_path / "lm_eval", "tiny", {}, result)


def test_stock_progress_bars_are_off(data, capfd):
    prepare(suite_of(["piqa"]), limit=2, seed=0, sources=data)
    assert list(lm_eval.api.task.tqdm([1, 2])) == [1, 2]
    assert capfd.readouterr().err == ""


def altered(folder, tiny_data, place, change):
    """Sources with one file of the tiny data, whose fifth row has changed: lm-eval tries one."""
    rows = pq.read_table(tiny_data / f"{place}.parquet").to_pylist()
    change(rows)
    write(folder / f"{place}.parquet", rows)
    return DataSources(data_dir=folder, notify=print)


def test_a_row_without_its_answer_is_a_sentence(tiny_data, tmp_path):
    """Before a model is asked anything, though lm-eval looks for the answer only afterwards."""
    place = "ai2_arc/ARC-Easy/validation"
    sources = altered(tmp_path, tiny_data, place, lambda rows: rows[4].update(answerKey="Z"))
    (prepared,) = prepare(suite_of(["arc_easy"]), limit=None, seed=0, sources=sources)
    with pytest.raises(DataError, match="doesn't suit its task arc_easy") as caught:
        prepared.lm_tasks["arc_easy"].build_all_requests(samples=[4])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{"sentence": "No blank."}, {"option1": None}, {"answer": None}, {"answer": "7"}]
)
def test_a_row_that_a_function_can_not_read_is_a_sentence(tmp_path, changes):
    row = {"sentence": "The _ is full.", "option1": "cup", "option2": "plan", "answer": "1"}
    write(tmp_path / "winogrande/winogrande_xl/validation.parquet", [row, row | changes])
    sources = DataSources(data_dir=tmp_path, notify=print)
    (prepared,) = prepare(suite_of(["winogrande"]), limit=None, seed=0, sources=sources)
    with pytest.raises(DataError, match="doesn't suit its task winogrande"):
        prepared.lm_tasks["winogrande"].build_all_requests(samples=[1])


@pytest.mark.parametrize("column", ["question", "choices", "answerKey"])
def test_nulls_in_what_a_task_asks_are_a_sentence(tiny_data, tmp_path, column):
    """A template would write "None"."""
    place = "ai2_arc/ARC-Easy/validation"
    sources = altered(tmp_path, tiny_data, place, lambda rows: rows[4].update({column: None}))
    with pytest.raises(DataError, match=f"^1 rows of .* have no {column}, which arc_easy needs"):
        prepare(suite_of(["arc_easy"]), limit=1, seed=0, sources=sources)


def test_nulls_in_other_columns_do_no_harm(tiny_data, tmp_path):
    place = "ai2_arc/ARC-Easy/validation"
    sources = altered(tmp_path, tiny_data, place, lambda rows: rows[4].update(id=None))
    assert prepare(suite_of(["arc_easy"]), limit=1, seed=0, sources=sources)


def test_more_rows_than_there_are_is_a_sentence(tiny_data, tmp_path):
    place = "ai2_arc/ARC-Easy/validation"
    sources = altered(tmp_path, tiny_data, place, lambda rows: rows.extend(rows[:1] * 570))
    with pytest.raises(DataError, match="more than the 570 that there are"):
        prepare(suite_of(["arc_easy"]), limit=1, seed=0, sources=sources)


def test_a_template_is_compiled_once():
    compile_templates_once()
    compile_templates_once()
    template = "{{question}} {{answer}}"
    assert templates.from_string(template) is templates.from_string(template)
    assert apply_template(template, {"question": "Rain?", "answer": "yes"}) == "Rain? yes"
    assert apply_template(template, {"question": "Rain?", "answer": "no"}) == "Rain? no"
