"""Texts are encoded together, each once, and those of the next piece while one is answered."""

from threading import Event

import pytest
from transformers import AutoTokenizer

from ladder_eval.harness import adapter
from ladder_eval.harness.encoding import TextEncoder


class Recorder:
    """A tokenizer of letters that says what it was asked; 0 is its special token."""

    def __init__(self):
        self.calls = []
        self.has_seen = {}

    def __call__(self, texts, *, add_special_tokens, **_):
        self.calls.append((list(texts), add_special_tokens))
        for text in texts:
            self.has_seen.setdefault(text, Event()).set()
        start = [0] if add_special_tokens else []
        return {"input_ids": [start + list(map(ord, text)) for text in texts]}


def test_what_is_expected_is_encoded_once_and_together():
    tokenizer = Recorder()
    encoder = TextEncoder(tokenizer)
    encoder.expect([("a", True), ("b", False), ("a", True), ("ab", True)])
    assert encoder.ids("a", add_special_tokens=True) == [0, 97]
    assert encoder.ids("b", add_special_tokens=False) == [98]
    assert encoder.ids("ab", add_special_tokens=True) == [0, 97, 98]
    assert tokenizer.calls == [(["a", "ab"], True), (["b"], False)]
    assert encoder.ids("a", add_special_tokens=False) == [97]  # not expected, yet answered
    assert tokenizer.calls[2:] == [(["a"], False)]


def test_the_next_piece_is_encoded_while_one_is_answered():
    tokenizer = Recorder()
    tokenizer.has_seen["second"] = Event()
    encoder = TextEncoder(tokenizer)
    pieces = encoder.ahead(["first", "second", "third"], lambda piece: [(piece, True)])
    assert next(pieces) == "first"
    assert tokenizer.has_seen["second"].wait(timeout=5)
    assert encoder.ids("first", add_special_tokens=True)[1:] == list(map(ord, "first"))
    assert list(pieces) == ["second", "third"]
    assert len(tokenizer.calls) == 3


def test_no_pieces_take_nothing():
    assert list(TextEncoder(Recorder()).ahead([], list)) == []


def test_texts_together_have_the_ids_that_they_have_alone(bos_checkpoint):
    tokenizer = AutoTokenizer.from_pretrained(bos_checkpoint)
    encoder, texts = TextEncoder(tokenizer), ["a rainy day", " b", "", "<s>c", "naïve ☂"]
    for special in (True, False):
        encoder.expect((text, special) for text in texts)
        for text in texts:
            alone = tokenizer.encode(text, add_special_tokens=special)
            assert encoder.ids(text, add_special_tokens=special) == alone


PAIRS = [("It rains ", "a lot"), ("It rains", " cats"), ("", "Rain"), ("A rainy", " day")]


@pytest.mark.parametrize(("together", "calls"), [(1, 4), (3, 2), (100, 1)])
def test_answers_do_not_depend_on_how_many_are_planned_together(
    make_lm, ask, monkeypatch, together, calls
):
    expected = ask(make_lm(), PAIRS)
    monkeypatch.setattr(adapter, "_PLANNED_TOGETHER", together)
    lm, encoded, encode = make_lm(answers="others"), [], TextEncoder._encoded
    monkeypatch.setattr(
        TextEncoder, "_encoded", lambda self, wanted: encoded.append(1) or encode(self, wanted)
    )
    found = ask(lm, PAIRS)
    assert len(encoded) == calls  # no text had to be encoded by itself
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    values = [value for value, _ in expected]
    assert [value for value, _ in found] == pytest.approx(values, abs=1e-5)
