"""JSON that others wrote, and what they said in a sentence of ours."""

import pytest

from ladder_eval.errors import brief
from ladder_eval.plain_json import parse_json


def test_values_are_read():
    assert parse_json('{"a": [1, 2.5, null, "é\\ud83d\\ude00"]}') == {"a": [1, 2.5, None, "é😀"]}
    assert parse_json(b"[]") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        "[" * 10**5,
        '{"a":' * 10**5,
        b"\xff",
        "9" * 5000,
    ],
    ids=["empty", "cut", "half", "half a name", "lists", "objects", "no UTF-8", "digits"],
)
def test_whatever_is_wrong_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        parse_json(text)


def test_a_long_text_of_several_lines_becomes_a_part_of_a_sentence():
    assert brief("a\n  b\u2028c\x1b[31m") == "a b c\ufffd[31m"
    assert brief("x" * 300) == "x" * 300
    assert brief("x" * 301) == "x" * 300 + "…"
    assert brief(OSError(2, "gone")) == "[Errno 2] gone"
