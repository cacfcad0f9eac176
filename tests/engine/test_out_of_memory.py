"""Too little memory to score a batch: all ranks go on alike, with half of it."""

import pytest
import torch
from thread_ranks import on_ranks
from tiny_checkpoint import write_checkpoint

from ladder_eval.distributed.team import alone
from ladder_eval.engine import scoring
from ladder_eval.engine.batching import ScoringRequest, divided, row_tokens
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.memory import OutOfMemoryError
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import BatchScorer, TooLargeError
from ladder_eval.models.checkpoint import load_model, read_config

CPU = torch.device("cpu")
# Sixteen rows that begin differently, of 10 tokens each.
REQUESTS = [ScoringRequest((row, *range(100, 109)), (7,)) for row in range(16)]
(WHOLE,) = plan(REQUESTS, BatchLimits(tokens=512, rows=99))


@pytest.fixture
def driver(tiny_checkpoint):
    with alone(CPU) as team:
        driver = Driver(team)
        driver.load(tiny_checkpoint, read_config(tiny_checkpoint), torch.float32)
        yield driver


def room_for(monkeypatch, rows):
    """Let a forward of more rows run out of memory; returns the rows of each that was tried."""
    real, tried = scoring.packed, []

    def packed(asked):
        tried.append(len(asked))
        if len(asked) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(asked)

    monkeypatch.setattr(scoring, "packed", packed)
    return tried


def answers(driver, batches):
    found = {}
    for _, answered in driver.score(batches):
        assert not found.keys() & answered.keys()
        found |= answered
    return [found[index].logprob for index in range(len(REQUESTS))]


def test_a_batch_is_divided_by_its_rows():
    parts = divided(WHOLE, 45)
    assert [row_tokens(part) for part in parts] == [40] * 4
    assert sum((part.rows for part in parts), ()) == WHOLE.rows
    assert [row_tokens(part) for part in divided(WHOLE, 1)] == [10] * 16


def test_batches_halve_until_they_fit_and_stay_so(driver, monkeypatch):
    expected = answers(driver, [WHOLE])
    tried = room_for(monkeypatch, rows=4)
    assert answers(driver, [WHOLE]) == pytest.approx(expected, abs=1e-5)
    assert tried == [16, 8, 4, 4, 4, 4]
    assert answers(driver, [WHOLE]) == pytest.approx(expected, abs=1e-5)
    assert tried[6:] == [4, 4, 4, 4]  # what was learnt isn't forgotten


def test_one_row_that_does_not_fit_is_named(driver, monkeypatch):
    room_for(monkeypatch, rows=0)
    with pytest.raises(TooLargeError) as caught:
        answers(driver, [WHOLE])
    assert caught.value.request in range(16)


def test_another_error_is_not_taken_for_too_little_memory(driver, monkeypatch):
    def packed(_):
        raise RuntimeError("shapes don't fit")

    monkeypatch.setattr(scoring, "packed", packed)
    with pytest.raises(RuntimeError, match="shapes don't fit"):
        answers(driver, [WHOLE])


def test_all_ranks_learn_that_one_of_them_has_too_little(tmp_path, monkeypatch):
    """Case: rank 1 has no room for more than four rows."""
    folder = write_checkpoint(tmp_path / "tiny")
    config = read_config(folder)

    def score(tp):
        model = load_model(folder, config, dtype=torch.float32, device=CPU, tp=tp)
        scorer, learnt = BatchScorer(model), []
        for batch in (WHOLE, *divided(WHOLE, 40)):
            try:
                learnt.append(sorted(scorer.score(batch)))
            except OutOfMemoryError:
                learnt.append("too large")
        return learnt

    real = scoring._workspace_bytes

    def workspace(model, rows, prefix):
        if model.tp.rank == 1 and len(rows.layout.columns) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(model, rows, prefix)

    monkeypatch.setattr(scoring, "_workspace_bytes", workspace)
    one, other = on_ranks(2, score)
    assert one == other
    assert one[0] == "too large"
    assert sorted(index for each in one[1:] for index in each) == list(range(16))


def test_what_is_set_aside_is_about_what_a_large_vocabulary_takes(tiny_checkpoint):
    config = read_config(tiny_checkpoint)
    model = load_model(tiny_checkpoint, config, dtype=torch.float32, device=CPU)
    rows = scoring.packed(WHOLE.rows)
    size = scoring._workspace_bytes(model, rows, 0)
    logits = 2 * 16 * config.vocab_size * 4
    stream = 160 * 6 * config.hidden_size * 4
    assert logits + stream < size < 10 * (logits + stream)
