"""Lengths of what was computed together: what is kept is what is read back."""

from dataclasses import replace

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.recorded_work import (
    PrefixPiece,
    RecordedBatch,
    ScoredRow,
    WrittenText,
    batch_key,
    recorded_batches,
)
from ladder_eval.results.store import RunFolder, read_batches

HEADER, SUBJECT = PrefixPiece("aa", 100), PrefixPiece("bb", 20)
ROWS = RecordedBatch(
    scored=(ScoredRow(12, 3, 5, 3), ScoredRow(5, 2, 2, 1)), prefix=(HEADER, SUBJECT)
)
TEXTS = RecordedBatch(written=(WrittenText(9, 20), WrittenText(5, 1)))


def test_a_row_stands_after_the_whole_prefix():
    assert ROWS.lengths == [(132, 1), (125, 1)]
    assert TEXTS.lengths == [(9, 20), (5, 1)]
    assert (ROWS.requests, TEXTS.requests) == (4, 2)


def test_of_a_prefix_only_what_the_batch_before_lacks_is_read():
    other = replace(ROWS, prefix=(HEADER, PrefixPiece("cc", 20), SUBJECT))
    assert [ROWS.new_prefix(before) for before in (None, TEXTS, ROWS, other)] == [120, 120, 0, 20]
    assert other.new_prefix(ROWS) == 40


def test_batches_come_back_in_the_order_in_which_they_were_computed(tmp_path):
    with RunFolder.open(tmp_path) as run:
        with run.batches("org/model") as log:
            log.append({batch_key(["b"]): ROWS.as_answer()})
        with run.batches("org/model") as log:  # a run that goes on
            log.append({batch_key(["a", "c"]): TEXTS.as_answer()})
    assert read_batches(tmp_path, "org/model") == [ROWS, TEXTS]


def test_a_batch_that_a_crash_let_be_computed_twice_counts_once(tmp_path):
    line = {"key": batch_key(["a"]), "answer": ROWS.as_answer()}
    other = {"key": batch_key(["a", "b"]), "answer": TEXTS.as_answer()}
    assert recorded_batches([line, other, line]) == [ROWS, TEXTS]


def test_a_run_without_lengths_is_one_sentence(tmp_path):
    with pytest.raises(RecordError, match=r"doesn't say how long the requests of tiny were; run"):
        read_batches(tmp_path, "tiny")


def test_a_line_that_is_nested_too_deeply_is_one_sentence(tmp_path):
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "tiny.jsonl").write_text("[" * 10**5 + "\n")
    with pytest.raises(RecordError, match="nested too deeply"):
        read_batches(tmp_path, "tiny")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"written": [[1]]},
        {"written": [[1, 2**40]]},
        {"written": [[1, True]]},
        {"scored": [[]]},
        {"scored": [[1, [2]]]},
        {"scored": [[1.0, -2]]},
        [1, 2],
        None,
    ],
)
def test_damaged_lengths_are_refused(answer):
    with pytest.raises(RecordError, match=r"lengths of a batch can't be read .*run the evaluation"):
        recorded_batches([{"key": "a", "answer": answer}])
