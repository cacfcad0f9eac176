"""Lengths of what was computed together: what is kept is what is read back."""

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.recorded_work import (
    RecordedBatch,
    ScoredRow,
    WrittenText,
    batch_key,
    recorded_batches,
)
from ladder_eval.results.store import RunFolder, read_batches

ROWS = RecordedBatch(scored=(ScoredRow(10, (3, 1, 1)), ScoredRow(4, (2,))))
TEXTS = RecordedBatch(written=(WrittenText(9, 20), WrittenText(5, 1)))


def test_a_row_reads_its_context_once_and_no_last_token():
    row = ROWS.scored[0]
    assert (row.prompt_len, row.output_len, row.requests) == (12, 1, 3)
    assert (ROWS.requests, TEXTS.requests) == (4, 2)
    assert (ROWS.rows, TEXTS.rows) == (ROWS.scored, TEXTS.written)


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


@pytest.mark.parametrize("answer", [{}, {"written": [[1]]}, {"scored": [[]]}, [1, 2], None])
def test_damaged_lengths_are_refused(answer):
    with pytest.raises(RecordError, match=r"lengths of a batch can't be read .*run the evaluation"):
        recorded_batches([{"key": "a", "answer": answer}])
