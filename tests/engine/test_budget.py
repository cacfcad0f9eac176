"""How large batches are: held against paces that are known, and against what a file remembers."""

import json

import pytest

from ladder_eval.engine.budget import LEAST_TOKENS, best_tokens, made_up_batch, remembered


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
