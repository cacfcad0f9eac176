"""What lm-eval logged about documents: found by their row in the split, read one by one."""

import json

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.logged import LoggedSamples

DATED = "_2026-01-31T12-00-00.000001.jsonl"


def line(doc_id, name="none", **changes):
    fields = {
        "doc_id": doc_id,
        "doc": {"question": f"{doc_id}?"},
        "arguments": {
            f"gen_args_{i}": {"arg_0": f"{doc_id}?", "arg_1": f" {i}"} for i in range(11)
        },
        "resps": [[["-1.5", "False"]]],
        "filter": name,
        "doc_hash": f"hash {doc_id}",
    }
    return json.dumps(fields | changes, ensure_ascii=False)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "lm_eval" / "org__model"
    made.mkdir(parents=True)
    lines = [line(7, "a"), line(7, "b"), line(3, "é"), line(30)]
    (made / f"samples_mmlu_law{DATED}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (made / f"samples_mmlu{DATED}").write_text(line(7, doc_hash="other"), encoding="utf-8")
    return made


def test_documents_are_found_in_any_order(tmp_path, folder):
    logged = LoggedSamples(tmp_path, "org/model")
    wanted = [(30, "hash 30"), (7, "hash 7"), (3, "hash 3"), (8, "hash 8"), (7, "old")]
    thirty, seven, three, missing, changed = logged.read("mmlu_law", wanted)
    assert [each.document["question"] for each in (thirty, seven, three)] == ["30?", "7?", "3?"]
    assert seven.requests[10] == ("7?", " 10")  # the eleventh, though its name sorts third
    assert len(seven.requests) == 11
    assert seven.responses == ([["-1.5", "False"]],)
    assert (missing, changed) == (None, None)


def test_a_part_is_not_taken_for_another_that_begins_like_it(tmp_path, folder):
    (found,) = LoggedSamples(tmp_path, "org/model").read("mmlu", [(7, "other")])
    assert found.document == {"question": "7?"}


def test_what_is_not_there_is_none(tmp_path, folder):
    assert list(LoggedSamples(tmp_path, "org/model").read("arc", [(1, "x")])) == [None]
    assert list(LoggedSamples(tmp_path, "another").read("mmlu", [(1, "x")])) == [None]


@pytest.mark.parametrize("text", ["{", '{"doc_id": 7, "doc_hash"', "[]", '{"doc_id": 7, "x": 1}'])
def test_a_damaged_line_is_named(tmp_path, folder, text):
    path = folder / f"samples_mmlu{DATED}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match="samples_mmlu"):
        list(LoggedSamples(tmp_path, "org/model").read("mmlu", [(7, "other")]))
