"""Release files: where they are found, and what is refused."""

import gzip
import json

import pytest
from code_problems import row, write_lines

from ladder_eval.errors import DataError, UsageError
from ladder_eval.harness.code import problems as module
from ladder_eval.harness.code.problems import read_problems
from ladder_eval.harness.code.samples import read_samples


@pytest.fixture
def release(tmp_path):
    return write_lines(tmp_path / "HumanEvalPlus.jsonl", [row(0), row(1)])


def test_problems_of_a_file_packed_or_not(release, tmp_path):
    found = read_problems("humaneval", release)
    assert list(found.by_id) == ["HumanEval/0", "HumanEval/1"]
    assert found.by_id["HumanEval/0"].inputs["plus"] == [[-3], [10**30]]
    (tmp_path / "packed").write_bytes(gzip.compress(release.read_bytes()))
    assert read_problems("humaneval", tmp_path / "packed") == found


def test_mbpp_gets_the_types_that_json_lacks(tmp_path):
    rows = [row(0) | {"task_id": f"Mbpp/{n}", "plus_input": plus} for n, plus in MBPP.items()]
    found = read_problems("mbpp", write_lines(tmp_path / "m.jsonl", rows)).by_id
    assert found["Mbpp/2"].inputs["plus"] == [[(1, 2), (3,)]]
    assert found["Mbpp/252"].inputs["plus"] == [[1 + 2j]]
    assert found["Mbpp/115"].inputs["plus"] == [[[{1, 2}, {}]]]


MBPP = {2: [[[1, 2], [3]]], 252: [["1+2j"]], 115: [[[[1, 2], []]]]}


@pytest.fixture(autouse=True)
def plain_base_inputs(monkeypatch):
    kept = module.mbpp_deserialize_inputs
    monkeypatch.setattr(
        module, "mbpp_deserialize_inputs", lambda t, i: i if i == [[1], [2]] else kept(t, i)
    )


def test_what_is_damaged_or_unknown_is_one_sentence(tmp_path):
    odd = tmp_path / "odd.jsonl"
    with pytest.raises(UsageError, match="humaneval or mbpp"):
        read_problems("apps", odd)
    for content in (b"", b"[1]\n", b'{"task_id": 1}\n', b"\x1f\x8b\x00", b"{", b"\xff\xfe"):
        odd.write_bytes(content)
        with pytest.raises(DataError, match=r"odd\.jsonl"):
            read_problems("humaneval", odd)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"task_id": 3, "solution": ""}', "no JSON object"),
        ('{"task_id": "HumanEval/9", "solution": ""}', "doesn't have"),
        ('{"task_id": "HumanEval/0"}', "neither solution nor completion"),
        ('{"task_id": "HumanEval/0", "solution": ["a"]}', "no string"),
    ],
)
def test_bad_samples_are_named_by_their_line(line, words, release, tmp_path):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"task_id": "HumanEval/0", "solution": ""}) + "\n\n" + line)
    with pytest.raises(DataError, match=f"Line 3 of .*{words}"):
        read_samples(samples, read_problems("humaneval", release))


def test_a_file_without_samples_is_refused(release, tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    for name in ("none.jsonl", "absent.jsonl"):
        with pytest.raises(DataError, match=name):
            read_samples(tmp_path / name, read_problems("humaneval", release))


def test_samples_of_a_problem_are_counted(release, tmp_path):
    rows = [
        {"task_id": f"HumanEval/{n}", "solution": "", "completion": "    return 2 * x"}
        for n in (0, 1, 0)
    ]
    samples = write_lines(tmp_path / "s.jsonl", rows)
    found = read_samples(samples, read_problems("humaneval", release))
    assert [(one.task_id, one.place, one.code) for one in found] == [
        ("HumanEval/0", 0, ""),  # a solution goes before a completion
        ("HumanEval/1", 0, ""),
        ("HumanEval/0", 1, ""),
    ]
