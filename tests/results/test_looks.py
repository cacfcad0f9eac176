"""Looks share the level of their claim."""

import json

import pytest

from ladder_eval.errors import RecordError, UsageError
from ladder_eval.results.looks import Look, read_looks, record, spend


def look(documents="first", level=0.04, claim="c", margin=0.01, verdict="INCONCLUSIVE"):
    return Look(
        claim=claim,
        documents_sha256=documents,
        documents=320,
        level=level,
        margin=margin,
        verdict=verdict,
        looked_at="2026-01-31T12:00:00+00:00",
    )


def test_levels_add_up_to_five_percent():
    looks, levels = [], []
    for i in range(6):
        given = spend(looks, "c", f"documents {i}", 0.01, last=False)
        assert given.number == i + 1
        levels.append(given.level)
        looks.append(look(f"documents {i}", given.level))
    assert levels[:3] == pytest.approx([0.04, 0.008, 0.0016])
    final = spend(looks, "c", "more", 0.01, last=True)
    assert sum(levels) + final.level == pytest.approx(0.05)
    assert final.left == 0


def test_the_only_look_may_take_all():
    assert spend([], "c", "first", 0.01, last=True).level == 0.05


def test_the_same_documents_are_the_same_look():
    again = spend([look()], "c", "first", 0.01, last=False)
    assert (again.number, again.level) == (1, 0.04)
    assert spend([look()], "c", "first", 0.01, last=True).level == pytest.approx(0.05)
    later = [look(), look("second", 0.008)]
    assert spend(later, "c", "first", 0.01, last=True).level == pytest.approx(0.042)


def test_other_claims_take_nothing():
    assert spend([look(claim="other")], "c", "first", 0.01, last=False).number == 1


def test_after_the_last_look_nothing_is_decided():
    with pytest.raises(UsageError, match="its last"):
        spend([look(level=0.05)], "c", "second", 0.01, last=False)


def test_other_margins_are_told():
    assert spend([look(margin=0.02)], "c", "first", 0.01, last=False).margins == (0.02,)
    assert spend([look()], "c", "first", 0.01, last=False).margins == ()


def test_looks_are_kept_once(tmp_path):
    file = tmp_path / "claims.jsonl"
    assert read_looks(file) == ()
    record(file, (), look())
    record(file, read_looks(file), look())
    record(file, read_looks(file), look("second"))
    assert read_looks(file) == (look(), look("second"))


@pytest.mark.parametrize("line", ["{", '{"claim": "c"}', "[]"])
def test_a_damaged_file_is_refused(tmp_path, line):
    file = tmp_path / "claims.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(RecordError):
        read_looks(file)


def test_a_look_that_cant_be_kept_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="can't be recorded"):
        record(tmp_path / "file" / "claims.jsonl", (), look())


def test_a_lost_look_is_refused_and_one_that_was_never_told_is_not(tmp_path):
    file = tmp_path / "claims.jsonl"
    record(file, (), look())
    record(file, read_looks(file), look("second"))
    first, second = file.read_bytes().splitlines(keepends=True)
    # A look is shown when its line is whole: what a crash has torn was never looked at.
    file.write_bytes(first + second[:-1])
    assert read_looks(file) == (look(),)
    file.write_bytes(first + second.replace(b"second", b"sekond"))
    with pytest.raises(RecordError, match=r"1 torn or damaged line.*so that earlier looks are"):
        read_looks(file)


def test_a_line_is_json(tmp_path):
    record(tmp_path / "claims.jsonl", (), look())
    (line,) = (tmp_path / "claims.jsonl").read_text().splitlines()
    assert json.loads(line)["documents"] == 320
