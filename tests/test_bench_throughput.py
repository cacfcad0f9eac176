"""`bench throughput` on a tiny model: both engines on the same requests, and what is refused."""

import json
import shutil
import statistics
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.errors import UsageError
from ladder_eval.harness import suites
from ladder_eval.harness.own_model import OwnModel
from ladder_eval.results.throughput_records import OURS, STOCK
from ladder_eval.throughput import _suite
from ladder_eval.throughput_options import ThroughputOptions, throughput_options


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def words(tiny_checkpoint, tiny_data, tmp_path):
    """The command line of a small bench."""
    return (
        *("bench", "throughput", "--model", tiny_checkpoint, "--data-dir", tiny_data),
        *("--tasks", "arc_easy,piqa", "--limit", 6, "--rounds", 2, "--hf-batch-size", "1,8"),
        *("--hf-documents", 3, "--device", "cpu", "--output-dir", tmp_path / "runs"),
    )


def test_both_engines_answer_the_same_and_everything_is_kept(words, tmp_path):
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "throughput.json").read_text()) == result
    assert {path.name for path in folder.iterdir()} <= {
        *("throughput.json", "report.md", "rounds.jsonl", "run.lock"),
    }
    assert [task["task"] for task in result["tasks"]] == ["arc_easy", "piqa"]
    for task, choices in zip(result["tasks"], (4, 2), strict=True):
        counts, agreement = task["counts"], task["agreement"]
        assert (counts["documents"], counts["requests"]) == (6, 6 * choices)
        assert counts["unique_tokens"] < counts["tokens"]
        assert agreement["choices"] < 5e-4
        assert all(pair["ours"] == pair["theirs"] for pair in agreement["metrics"])
        assert [(each["batch_size"], each["documents"]) for each in task["tries"]] == [
            (1, 3),
            (8, 3),
        ]
        fastest = min(task["tries"], key=lambda each: each["seconds"])
        assert task["stock_batch_size"] == fastest["batch_size"]
        orders = [[trial["engine"] for trial in each["trials"]] for each in task["rounds"]]
        assert orders == [[OURS, STOCK], [STOCK, OURS]]
        ratios = [
            seconds(each, STOCK)["seconds"] / seconds(each, OURS)["seconds"]
            for each in task["rounds"]
        ]
        assert task["summary"]["times_as_fast"]["value"] == statistics.median(ratios)
        for each in task["rounds"]:
            # Sharing contexts reads less than all requests, padding more.
            assert counts["unique_tokens"] <= seconds(each, OURS)["read_tokens"]
            assert seconds(each, STOCK)["read_tokens"] >= counts["tokens"] - counts["requests"]
            assert each["products_flops_per_second"] > 0
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [(line["task"], line["round"]["number"]) for line in lines] == [
        (name, number) for name in ("arc_easy", "piqa") for number in (1, 2)
    ]
    assert lines[0]["round"] == result["tasks"][0]["rounds"][0]
    report = (folder / "report.md").read_text()
    assert "arc_easy 0-shot, 6 documents" in report
    assert "tried on 3 of 6 documents" in report
    assert "Warning" not in report


def seconds(each, engine):
    return next(trial for trial in each["trials"] if trial["engine"] == engine)


def test_a_wrong_answer_is_told_and_ends_with_one(words, monkeypatch):
    right = OwnModel.timed

    def wrong(self, questions):
        answers, trial = right(self, questions)
        (logprob, greedy), *others = answers["loglikelihood"]
        return {"loglikelihood": [(logprob - 1e-3, greedy), *others]}, trial

    monkeypatch.setattr(OwnModel, "timed", wrong)
    monkeypatch.setenv("COLUMNS", "200")
    done = invoke(*words, "--tasks", "piqa", "--rounds", 1)
    assert done.exit_code == 1, done.output
    assert "Warning: piqa: log-likelihoods differ by up to 0.001." in done.stdout


SUMS = """
include: lm_eval/tasks/gsm8k/gsm8k-cot.yaml
task: sums
dataset_path: sums
dataset_name: null
num_fewshot: 0
filter_list:
  - name: number
    filter: [{function: regex, regex_pattern: "([0-9]+)"}, {function: take_first}]
generation_kwargs: {until: ["Q:"], do_sample: false, max_gen_toks: 12}
"""
PAGES = """
include: lm_eval/tasks/wikitext/wikitext.yaml
task: pages
dataset_path: pages
dataset_name: null
training_split: null
validation_split: null
"""


def test_texts_and_whole_documents_are_compared_too(tmp_path, tiny_checkpoint, monkeypatch):
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "sums.yaml").write_text(SUMS)
    (folder / "pages.yaml").write_text(PAGES)
    monkeypatch.setattr(suites, "_folder", lambda: folder)
    sums = [{"question": f"{i} and {i}?", "answer": f"It is\n#### {2 * i}"} for i in range(5)]
    for name, rows in (("sums", sums), ("pages", [{"page": f"Rain {i}. " * 9} for i in range(3)])):
        file = tmp_path / "data" / name / "default" / "test.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), file)
    done = invoke(
        *("bench", "throughput", "--model", tiny_checkpoint, "--tasks", "sums,pages", "--json"),
        *("--data-dir", tmp_path / "data", "--rounds", 1, "--hf-batch-size", 2, "--device", "cpu"),
        *("--output-dir", tmp_path / "runs"),
    )
    assert done.exit_code == 0, done.output
    texts, pages = json.loads(done.stdout)["tasks"]
    assert (texts["agreement"]["texts"], texts["agreement"]["differences"]) == (5, [])
    assert texts["counts"]["written_tokens"] > 0
    assert texts["work"]["write_bytes"] > 0
    assert texts["agreement"]["choices"] is None
    assert pages["agreement"]["rolling"] < 1e-5
    assert pages["work"]["write_flops"] == 0
    # A token a byte: "Rain ", three digits, and after these each page's own; all but the last
    # token are read, after <s>. lm-eval's detokenizer takes nothing away here.
    page = len("Rain 0. " * 9)
    assert pages["counts"]["tokens"] == 3 * (1 + page)
    assert pages["counts"]["unique_tokens"] == 1 + len("Rain ") + 3 * (page - len("Rain ") - 1)
    assert pages["counts"]["predicted_tokens"] == pages["counts"]["unique_tokens"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--rounds", 0), "--rounds 0 must be 1 or more."),
        (("--hf-batch-size", "1,x"), "--hf-batch-size takes whole numbers with commas, not '1,x'."),
        (("--hf-batch-size", "0"), "--hf-batch-size takes whole numbers from 1, such as 1,8,32."),
        (("--tasks", "piqa,"), "--tasks takes a list with commas, not 'piqa,'."),
        (("--tasks", "no_such"), "Unknown task 'no_such'; known are "),
        (("--tasks", "alpaca_eval"), "run as programs or need a judge; leave it out."),
        (("--tasks", "gsm8k_llama", "--suite", "llama-3.1"), "asks in a chat template; choose"),
        (("--fewshot", "none"), "--fewshot must be per-document or stock, not 'none'."),
        (("--dtype", "int8"), "Unknown dtype 'int8'; known are float32"),
        (("--data-dir", "nowhere"), "nowhere doesn't exist; correct --data-dir."),
        (("--model", "ladder_3b"), "No checkpoint of ladder_3b is known; give its folder."),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence(words, given, sentence, tmp_path):
    done = invoke(*words, *given)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert sentence in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_a_model_that_hf_would_run_as_another_is_refused(words, tiny_checkpoint, tmp_path):
    ladder = tmp_path / "trained"
    shutil.copytree(tiny_checkpoint, ladder)
    config = json.loads((ladder / "config.json").read_text())
    (ladder / "config.json").write_text(json.dumps(config | {"ladder_layers": [2, 3]}))
    done = invoke(*words, "--model", ladder)
    assert done.exit_code == 2
    assert "hf would run trained as a dense model; give a dense one." in done.stderr


def test_options_before_the_command_are_not_lost():
    done = invoke("bench", "--model", "smollm2_135m", "throughput")
    assert done.exit_code == 2
    assert done.stderr == (
        "ladder-eval: --model stands before throughput; "
        "give options of `bench throughput` after it.\n"
    )


def test_no_memory_for_any_logits_is_one_sentence(words, monkeypatch):
    monkeypatch.setattr("ladder_eval.throughput_rounds.free_bytes", lambda *_: 1)
    done = invoke(*words)
    assert done.exit_code == 2
    assert "The logits of hf don't fit into memory" in done.stderr


def test_parts_are_the_first_by_name():
    (task,) = _suite("mmlu", ThroughputOptions(suite="paper-adapted", parts=3)).tasks
    names = [part.name for part in task.parts]
    assert names == ["mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_astronomy"]
    assert task.num_fewshot == 5
    (whole,) = _suite("mmlu", ThroughputOptions()).tasks
    assert len(whole.parts) == 57
    assert [part.name for part in whole.parts] == sorted(part.name for part in whole.parts)


def test_lists_of_the_command_line_are_tuples():
    found = throughput_options({"tasks": "piqa, arc_easy,piqa", "hf_batch_size": "8", "seed": None})
    assert found == replace(ThroughputOptions(), tasks=("piqa", "arc_easy"), hf_batch_size=(8,))
    with pytest.raises(UsageError, match="--limit 0 must be 1 or more"):
        throughput_options({"limit": 0})
