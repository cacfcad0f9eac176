"""The log of answers: what `append` promised is there again, whatever happens to the file's end."""

import os

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.lines import seal
from ladder_eval.results.requests import RequestLog, read_answers, request_key


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "log.jsonl"


def fill(path, answers):
    with RequestLog(path) as log:
        log.append(answers)


def test_answers_return_bit_for_bit(path):
    answers = {"a": [-0.1 - 0.2, True], "b": "text\n\u2028\r“”", "c": [5e-324, -1e308, 1 / 3]}
    fill(path, answers)
    with RequestLog(path) as log:
        assert {key: log.get(key) for key in answers} == answers
        assert log.get("a")[0].hex() == (-0.1 - 0.2).hex()
        assert log.damage == ""
        assert len(log) == 3
        assert "a" in log
        assert "z" not in log
        assert log.get("z") is None


def test_an_answer_is_the_same_before_and_after_reopening(path):
    with RequestLog(path) as log:
        log.append({"a": (-1.5, False)})
        now = log.get("a")
    with RequestLog(path) as log:
        assert log.get("a") == now == [-1.5, False]


def test_appends_grow_the_file_and_the_last_answer_counts(path):
    fill(path, {"a": 1})
    before = path.read_bytes()
    fill(path, {"b": 2, "a": 3})
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 3
    with RequestLog(path) as log:
        assert (log.get("a"), log.get("b"), len(log)) == (3, 2, 2)


@pytest.mark.parametrize(
    "tail",
    [
        seal({"key": "x", "answer": 1})[:-1],  # whole but for its end of line
        seal({"key": "x", "answer": 1})[:20],
        b"\x00" * 40,
        b"\xff\xfe\n",
        b'{"key":"x","answer":1}\n',  # no checksum
        b'{"key":"x","answer":1,"part":[1,1],"crc32":"00000000"}\n',
        b"\n",
    ],
)
def test_bad_tail_is_cut_off_and_reported(path, tail):
    fill(path, {"a": 1, "b": 2})
    good = path.read_bytes()
    path.write_bytes(good + tail)
    with RequestLog(path) as log:
        assert log.damage == f"1 torn or damaged line of {len(tail)} bytes"
        assert len(log) == 2
        log.append({"c": 3})
    assert path.read_bytes() == good + seal({"key": "c", "answer": 3})


def test_every_truncation_leaves_whole_batches(path):
    batches = [{"a": [-1.25, True], "b": "é"}, {"c": 3}]
    with RequestLog(path) as log:
        for batch in batches:
            log.append(batch)
    content = path.read_bytes()
    first = content.index(b'{"key":"c"')
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        whole = (size >= first) + (size == len(content))
        with RequestLog(path) as log:
            assert dict(log.items()) == {k: v for each in batches[:whole] for k, v in each.items()}
            assert bool(log.damage) == (size not in (0, first, len(content)))


def test_only_what_its_checksum_fits_is_trusted(path):
    for answers in ({"a": 1}, {"b": 2}, {"c": 3}):
        fill(path, answers)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b"2", b"4", 1) + third)
    assert read_answers(path) == {"a": 1, "c": 3}
    with RequestLog(path) as log:
        assert dict(log.items()) == {"a": 1, "c": 3}
        assert log.damage == f"1 torn or damaged line of {len(second)} bytes"
    assert path.read_bytes() == first + third


def test_append_is_on_disk_before_it_returns(path, monkeypatch):
    sizes = []
    with RequestLog(path) as log:
        monkeypatch.setattr(os, "fsync", lambda fd: sizes.append(os.fstat(fd).st_size))
        log.append({"a": 1, "b": 2})
    assert sizes == [path.stat().st_size]


def test_failed_append_leaves_the_log_as_it_was(path, monkeypatch):
    def fail(fd):
        raise OSError(28, "No space left on device")

    with RequestLog(path) as log:
        log.append({"a": 1})
        good = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(RecordError, match="No space left on device"):
                log.append({"b": 2})
        assert "b" not in log
        assert path.read_bytes() == good
        log.append({"c": 3})
    with RequestLog(path) as log:
        assert (log.damage, len(log)) == ("", 2)


def test_unwritable_place_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "log.jsonl", tmp_path):
        with pytest.raises(RecordError, match="can't keep answers in"):
            RequestLog(path)


def test_keys_are_unambiguous():
    parts = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (1,),
        ("1",),
        ([1],),
        ([1, 2],),
        ([1], [2]),
        (1, 2),
    ]
    keys = {request_key(*each) for each in parts}
    assert len(keys) == len(parts)
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in keys)
    assert request_key("model", (1, 2)) == request_key("model", [1, 2])
    assert len(request_key("\udcff")) == 64


def test_lent_answers_are_known_and_not_written(tmp_path):
    with RequestLog(tmp_path / "own.jsonl", {"a": [1.0, True], "b": "text"}) as log:
        log.append({"a": [2.0, False]})
        assert (log.get("a"), log.get("b"), log.get("c")) == ([2.0, False], "text", None)
        assert len(log) == 1
    assert read_answers(tmp_path / "own.jsonl") == {"a": [2.0, False]}


def test_a_log_is_read_without_a_trace(tmp_path):
    file = tmp_path / "other.jsonl"
    with RequestLog(file) as log:
        log.append({"a": 1})
    torn = file.read_bytes() + b'{"key": "b", "ans'
    file.write_bytes(torn)
    assert read_answers(file) == {"a": 1}
    assert file.read_bytes() == torn
    with pytest.raises(RecordError, match="can't read the answers"):
        read_answers(tmp_path / "missing.jsonl")
