"""Values as JSON that keeps their types, so that nothing from a sandbox is ever unpickled.

A list or any other container is `[tag, ...]`; null, booleans, numbers and strings are themselves.
What has no form here, such as a generator, becomes `Opaque`: not None, and equal to nothing. What
is so large that it could hardly be moved, up to a gigabyte in MBPP+, becomes its `Digest`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

_PLAIN_INT = 2**63  # longer ones are written in hexadecimal, which has no limit of digits
_LARGE = 2_000_000  # elements, of which eight characters or bytes are one
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


@dataclass(frozen=True, slots=True)
class Digest:
    """A large value by its hash, equal to that of any equal value in the same Python.

    Hashes of texts depend on PYTHONHASHSEED, which is the same in every sandbox.
    """

    hash: int


def encode(value: Any) -> Any:
    """A value as JSON knows it.

    Instances of subclasses become those of the built-in type, to which they compare equal.
    """
    try:
        return ["digest", _digest(value)] if _left(value, _LARGE) < 0 else _encode(value)
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


def _left(value: Any, budget: int) -> int:
    """What a value leaves of a budget of elements; counting ends where nothing is left."""
    budget -= 1
    if isinstance(value, str | bytes):
        return budget - len(value) // 8
    if isinstance(value, int):
        return budget - value.bit_length() // 64
    if isinstance(value, dict):
        return _left(list(value.values()), _left(list(value), budget))
    if isinstance(value, list | tuple | set | frozenset):
        if len(value) > budget:
            return -1
        for part in value:
            budget = _left(part, budget)
            if budget < 0:
                break
    return budget


def _digest(value: Any) -> int:
    """A hash at the speed of Python's own where there are no lists, sets or dictionaries."""
    if isinstance(value, list):
        return hash(("list", tuple(map(_digest, value))))
    if isinstance(value, dict):
        return hash(("dict", frozenset((key, _digest(part)) for key, part in value.items())))
    if isinstance(value, set):
        return hash(frozenset(value))
    try:
        return hash(value)
    except TypeError:
        if isinstance(value, tuple):
            return hash(("tuple", tuple(map(_digest, value))))
        raise


def _encode(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN or (kind is int and -_PLAIN_INT < value < _PLAIN_INT):
        return value
    if (numpy := sys.modules.get("numpy")) and isinstance(value, numpy.generic):
        return ["numpy", value.dtype.str, _encode(_item(value))]
    if kind is Digest:  # outside, where what was decoded is kept
        return ["digest", value.hash]
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
    "digest": lambda parts: Digest(int(parts[0])),
    "opaque": lambda parts: Opaque(str(parts[0])),
}
