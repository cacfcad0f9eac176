"""Values of a `config.json`, which may be anything: what they are, and how errors show them."""

import reprlib
from collections.abc import Mapping
from typing import Any

from ladder_eval.errors import CheckpointError

_LONGEST_SHOWN = 100


def shown(value: object) -> str:
    """A value for an error message: one line, and not longer than a message may be."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 256 bits"  # Python refuses to print the largest ones
    # What YAML's aliases make of a few bytes has more items than anyone could print.
    text = reprlib.repr(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def printable(text: str) -> str:
    """A text for an error message: as it is, unless it is long or breaks the line."""
    return text if text.isprintable() and len(text) <= 200 else shown(text)


def either(value: Any, otherwise: Any) -> Any:
    """The value, or the other one where it is null."""
    return otherwise if value is None else value


def flag(values: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """A field that is true, false, null or missing.

    Raises:
        CheckpointError: if it is anything else.
    """
    value = either(values.get(name), default)
    if not isinstance(value, bool):
        raise CheckpointError(f"{name} must be true or false, not {shown(value)}.")
    return value


def require(values: Mapping[str, Any], name: str, supported: object, default: object) -> None:
    """Refuse any value of a field but one.

    Args:
        values: The fields.
        name: The field.
        supported: The value that is computed here.
        default: What the format takes for a missing field.

    Raises:
        CheckpointError: if the value is another one.
    """
    value = values.get(name, default)
    if type(value) is not type(supported) or value != supported:
        missing = "" if name in values else ", the default of that format,"
        raise CheckpointError(
            f"{name}={shown(value)}{missing} is not supported; only {shown(supported)} is."
        )


def refuse(values: Mapping[str, Any], *names: str) -> None:
    """Refuse fields that change what a model computes, unless they are null, false or missing.

    Raises:
        CheckpointError: if one of them is anything else.
    """
    for name in names:
        if values.get(name) not in (None, False):
            raise CheckpointError(f"{name}={shown(values[name])} is not supported.")


def require_window(window: object, max_position_embeddings: object) -> None:
    """Refuse a sliding window that any text would be longer than; None is no window.

    Raises:
        CheckpointError: if there is such a window, or it is no number.
    """
    if window is None:
        return
    size = whole("sliding_window", window)
    longest = whole("max_position_embeddings", max_position_embeddings)
    if size < longest:
        raise CheckpointError(
            f"sliding_window={shown(size)} is smaller than "
            f"max_position_embeddings={shown(longest)}, and sliding windows are not supported; set "
            f"max_position_embeddings to {shown(size)} in config.json to run the model on texts "
            "that fit in the window."
        )


def whole(name: str, value: object) -> int:
    """A positive whole number.

    Raises:
        CheckpointError: if it is anything else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(f"{name} must be a positive whole number, not {shown(value)}.")
    return value
