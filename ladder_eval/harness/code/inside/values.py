"""Values as JSON that keeps their types, so that nothing from a sandbox is ever unpickled.

A list or any other container is `[tag, ...]`; null, booleans, numbers and strings are themselves.
What has no form here, such as a generator, becomes `Opaque`: not None, and equal to nothing.
"""

import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

_PLAIN_INT = 2**63  # longer ones are written in hexadecimal, which has no limit of digits
_PLAIN = (str, float, bool, type(None))


class Opaque:
    """A value that can't leave the sandbox; equal to nothing, not even to itself."""

    __slots__ = ("kind",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self.kind}>"


def encode(value: Any) -> Any:
    """A value as JSON knows it.

    Instances of subclasses become those of the built-in type, to which they compare equal.
    """
    try:
        return _encode(value)
    except MemoryError:
        raise
    except Exception:  # a class of the program's own, or a list that holds itself
        return ["opaque", type(value).__name__[:80]]


def decode(value: Any) -> Any:
    """The value of `encode`.

    Raises:
        ValueError: If it's nothing that `encode` writes.
    """
    try:
        return _decode(value)
    except (TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not an encoded value: {error}") from error


def _encode(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN or (kind is int and -_PLAIN_INT < value < _PLAIN_INT):
        return value
    if (numpy := sys.modules.get("numpy")) and isinstance(value, numpy.generic):
        return ["numpy", value.dtype.str, _encode(_item(value))]
    for base, form in _FORMS:
        if isinstance(value, base):
            return form(value)
    return ["opaque", kind.__name__[:80]]


def _item(scalar: Any) -> Any:
    if scalar.dtype.kind not in "biufc":  # dates, records
        raise TypeError
    item = scalar.item()
    if type(item) not in {bool, int, float, complex}:  # longdouble is its own item
        raise TypeError
    return item


def _int(value: int) -> Any:
    plain = int.__int__(value)
    return plain if -_PLAIN_INT < plain < _PLAIN_INT else ["int", hex(plain)]


def _all(tag: str) -> Callable[[Any], list[Any]]:
    return lambda values: [tag, *map(_encode, values)]


_FORMS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (bool, bool),
    (int, _int),
    (float, float.__float__),
    (str, str.__str__),
    (list, _all("list")),
    (tuple, _all("tuple")),
    (dict, lambda value: ["dict", *([_encode(k), _encode(v)] for k, v in value.items())]),
    (set, _all("set")),
    (frozenset, _all("frozenset")),
    (complex, lambda value: ["complex", value.real, value.imag]),
    (bytes, lambda value: ["bytes", value.hex()]),
    (Decimal, lambda value: ["decimal", str(value)]),
    (Fraction, lambda value: ["fraction", _int(value.numerator), _int(value.denominator)]),
)


def _decode(value: Any) -> Any:
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise TypeError("an object")
        return value
    return _READERS[value[0]](value[1:])


def _numpy(parts: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - only outside, where it's at hand

    dtype, item = np.dtype(parts[0]), _decode(parts[1])
    if dtype.kind not in "biufc" or not isinstance(item, bool | int | float | complex):
        raise TypeError("no number")
    return dtype.type(item)


_READERS: dict[str, Callable[[list[Any]], Any]] = {
    "int": lambda parts: int(parts[0], 16),
    "list": lambda parts: [_decode(part) for part in parts],
    "tuple": lambda parts: tuple(_decode(part) for part in parts),
    "dict": lambda parts: {_decode(key): _decode(item) for key, item in parts},
    "set": lambda parts: {_decode(part) for part in parts},
    "frozenset": lambda parts: frozenset(_decode(part) for part in parts),
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "bytes": lambda parts: bytes.fromhex(parts[0]),
    "decimal": lambda parts: Decimal(parts[0]),
    "fraction": lambda parts: Fraction(_decode(parts[0]), _decode(parts[1])),
    "numpy": _numpy,
    "opaque": lambda parts: Opaque(str(parts[0])),
}
