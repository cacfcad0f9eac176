"""How large batches are: held against paces that are known, and against what a file remembers."""

import json

import pytest

from ladder_eval.engine import budget
from ladder_eval.engine.budget import (
    LEAST_TOKENS,
    Budget,
    best_tokens,
    made_up_batch,
    remembered,
)
from ladder_eval.results.requests import RequestLog


def overhead(seconds, per_token):
    return lambda tokens: seconds + per_token * tokens


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (lambda tokens: 1e-3 * tokens, 512),  # nothing is gained
        # From n to 2n tokens a twentieth is gained while n is at most 9.5 · seconds / per_token.
        (overhead(0.010, 1e-4), 1024),
        (overhead(0.050, 1e-4), 8192),
        (lambda tokens: 1.0, 16_384),  # costs nothing: no more than the most
    ],
)
def test_batches_grow_while_that_gains_a_twentieth(seconds, expected):
    assert best_tokens(seconds) == expected


def test_batches_grow_no_further_than_memory_allows():
    def seconds(tokens):
        if tokens > 2048:
            raise MemoryError
        return 1.0

    assert best_tokens(seconds) == 2048


def test_what_was_found_is_not_searched_again(tmp_path):
    file = tmp_path / "new" / "batch_tokens.json"
    assert remembered(file, "small", lambda: 512) == 512
    assert remembered(file, "large", lambda: 2048) == 2048
    assert remembered(file, "small", pytest.fail) == 512
    assert json.loads(file.read_text()) == {"small": 512, "large": 2048}


@pytest.mark.parametrize("content", ["", "[]", '{"small": "many"}', '{"small": -1}', "\xff"])
def test_a_damaged_file_costs_nothing_but_a_search(tmp_path, content):
    file = tmp_path / "batch_tokens.json"
    file.write_bytes(content.encode("latin-1"))
    assert remembered(file, "small", lambda: 1024) == 1024
    assert json.loads(file.read_text()) == {"small": 1024}


def test_a_place_that_can_not_be_written_costs_nothing_but_a_search(tmp_path):
    (tmp_path / "file").write_text("")
    assert remembered(tmp_path / "file" / "below.json", "small", lambda: 1024) == 1024


def test_a_made_up_batch_has_so_many_tokens():
    batch = made_up_batch(LEAST_TOKENS)
    assert batch.tokens == LEAST_TOKENS
    assert len(batch.rows) == 4


# 32 batches of the least tokens: more than that is worth a search.
LITTLE, MUCH = 32 * 512, 32 * 512 + 1


def test_a_budget_is_settled_once_for_little_work_and_once_for_much(tmp_path):
    with RequestLog(tmp_path / "batch_tokens.jsonl") as log:
        own = Budget("135", log)
        assert own.settled == ()
        assert own.tokens(LITTLE, pytest.fail) == 512
        assert own.tokens(MUCH, lambda: 4096) == 4096
        assert own.tokens(MUCH, pytest.fail) == 4096
        assert own.settled == (512, 4096)
        assert Budget("1235", log).tokens(MUCH, lambda: 2048) == 2048
    with RequestLog(tmp_path / "batch_tokens.jsonl") as log:
        again = Budget("135", log)
        assert again.settled == (512, 4096)
        assert (again.tokens(MUCH, pytest.fail), again.tokens(LITTLE, pytest.fail)) == (4096, 512)


def test_little_work_goes_on_as_it_began_whatever_is_least_by_now(tmp_path, monkeypatch):
    with RequestLog(tmp_path / "batch_tokens.jsonl") as log:
        Budget("135", log).tokens(100, pytest.fail)
        monkeypatch.setattr(budget, "LEAST_TOKENS", 1024)
        assert Budget("135", log).tokens(100, pytest.fail) == 512
        assert Budget("1235", log).tokens(100, pytest.fail) == 1024


def test_what_is_settled_is_on_disk_before_it_is_used(tmp_path):
    file = tmp_path / "batch_tokens.jsonl"
    with RequestLog(file) as log:
        Budget("135", log).tokens(MUCH, lambda: 4096)
        assert json.loads(file.read_text())["answer"] == {"much": 4096}


@pytest.mark.parametrize("value", [None, 512, [512], {"much": "many"}, {"much": 0}])
def test_what_is_no_budget_is_found_anew(tmp_path, value):
    with RequestLog(tmp_path / "batch_tokens.jsonl") as log:
        log.append({"135": value})
        assert Budget("135", log).tokens(MUCH, lambda: 1024) == 1024


def test_without_a_log_a_budget_lasts_as_long_as_its_model():
    own = Budget("135")
    assert own.tokens(MUCH, lambda: 1024) == own.tokens(MUCH, pytest.fail) == 1024
