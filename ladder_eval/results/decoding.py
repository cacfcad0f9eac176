"""Reading a record back from JSON, each field checked against its annotation."""

import sys
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from ladder_eval.errors import RecordError, brief

__all__ = ["decode"]


def decode(kind: Any, value: object, where: str) -> object:
    """Check `value` against the annotation `kind`, and turn lists and objects into records.

    Args:
        kind: A record, a scalar, or a tuple, list, dict or union of such.
        value: What JSON holds.
        where: What the value is called in messages.

    Raises:
        RecordError: If they don't agree.
    """
    arguments = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType:
            return _decode_union(arguments, value, where)
        case origin if origin in (tuple, list) and isinstance(value, list):
            items = [decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
            return tuple(items) if origin is tuple else items
        case origin if origin is dict and isinstance(value, dict):
            return {key: decode(arguments[1], value[key], f"{where}.{key}") for key in value}
        case None if is_dataclass(kind) and isinstance(value, dict):
            return _decode_record(kind, value, where)
        case None if _is_scalar(kind, value):
            return float(typing.cast("float", value)) if kind is float else value
    raise RecordError(
        f"{where} should be {_name(kind)}, but is {_shorten(value)}; "
        "restore the result, or run the evaluation again."
    )


def _decode_union(kinds: tuple[Any, ...], value: object, where: str) -> object:
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except RecordError:
            continue
    expected = " or ".join(_name(kind) for kind in kinds)
    raise RecordError(
        f"{where} should be {expected}, but is {_shorten(value)}; "
        "restore the result, or run the evaluation again."
    )


def _decode_record(kind: Any, value: dict[str, object], where: str) -> object:
    names = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    if wrong := [name for name in needed if name not in value]:
        problem = f"lacks {', '.join(wrong)}"
    elif wrong := [name for name in value if name not in names]:
        problem = f"has the unknown {brief(', '.join(wrong))}"
    else:
        hints = typing.get_type_hints(kind)
        return kind(**{name: decode(hints[name], value[name], f"{where}.{name}") for name in value})
    raise RecordError(f"{where} {problem}; restore the result, or run the evaluation again.")


def _is_scalar(kind: Any, value: object) -> bool:
    # bool is a subclass of int, and JSON writes a whole float as an int only if someone edits it.
    if isinstance(value, bool):
        return kind is bool
    if kind is float:  # whole numbers are as long as one likes, and floats aren't
        whole = isinstance(value, int) and abs(value) <= sys.float_info.max
        return whole or isinstance(value, float)
    if kind is int:  # as SQLite's
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return isinstance(value, kind)


def _name(kind: Any) -> str:
    if kind is types.NoneType:
        return "null"
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
