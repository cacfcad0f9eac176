"""Ways to spoil a file: bytes, JSON, lines, YAML and CSV, drawn from a seeded generator."""

import json
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any
from zlib import crc32

Mutation = Callable[[bytes, Random], bytes]

DEEP = 100_000
NUMBERS = (0, 1, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 10**18, 0.5, -0.0),
    *(1e308, float("nan"), float("inf"), float("-inf")),
    *("", "0", "NaN", "x" * 10_000, "\ud800", "a\nb\u2028c\0", "../../etc/passwd", "/etc/passwd"),
    *("{{ 1 }}", "é\u202e", "__class__", "file:///etc/passwd"),
    *([], {}, [[]], [None], {"a": 1}, [{}], ["a", 1], [0] * 1000, [[[[[]]]]]),
)


# ----------------------------------------------------------------------- bytes


def flip_bits(content: bytes, rng: Random) -> bytes:
    """One to eight bits, at any place."""
    spoiled = bytearray(content or b"\0")
    for _ in range(rng.randint(1, 8)):
        spoiled[_place(spoiled, rng)] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def cut(content: bytes, rng: Random) -> bytes:
    """The first bytes alone."""
    return content[: rng.randrange(len(content) + 1)]


def lengthen(content: bytes, rng: Random) -> bytes:
    """Something after the end, or before the beginning."""
    more = rng.randbytes(rng.choice((1, 8, 1000)))
    return content + more if rng.random() < 0.7 else more + content


def put_number(content: bytes, rng: Random) -> bytes:
    """A number that may be a length, a count, an offset or a size."""
    number, (form, size) = rng.choice(NUMBERS), rng.choice((("<Q", 8), ("<I", 4), (">Q", 8)))
    place = _place(content, rng)
    packed = struct.pack(form, number % 2 ** (8 * size))
    return content[:place] + packed + content[place + size :]


def shuffle_parts(content: bytes, rng: Random) -> bytes:
    """A piece taken out, repeated, or put elsewhere."""
    start = _place(content, rng)
    piece = content[start : start + rng.choice((1, 4, 8, 64, 1024))]
    rest = content[:start] + content[start + len(piece) :]
    place = _place(rest, rng)
    taken = rng.choice((rest, content))
    return taken if taken is rest and rng.random() < 0.4 else taken[:place] + piece + taken[place:]


def noise(content: bytes, rng: Random) -> bytes:
    """A piece that is random, which is rarely UTF-8."""
    start, size = _place(content, rng), rng.choice((1, 2, 16, 256))
    return content[:start] + rng.randbytes(size) + content[start + size :]


def nothing(_: bytes, rng: Random) -> bytes:
    """No content, or one that has nothing to do with the format."""
    return rng.choice((b"", b"\0" * 64, b"\x80\x04cos\nsystem\n.", b"PK\3\4", b"\xff\xfe", b"null"))


BYTES: tuple[Mutation, ...] = (
    *(flip_bits, flip_bits, cut, lengthen, put_number, put_number, put_number),
    *(shuffle_parts, noise, nothing),
)


def _place(content: bytes | bytearray, rng: Random) -> int:
    """Any place, every other time one of the first: there most headers are."""
    return rng.randrange(max(1, min(len(content), rng.choice((64, 1024, len(content) or 1)))))


# ------------------------------------------------------------------------ JSON


def change_value(content: bytes, rng: Random) -> bytes:
    """One to three values of other types or sizes, fields left out, added or renamed."""
    value = json.loads(content)
    for _ in range(rng.randint(1, 3)):
        value = _changed(value, rng)
    return _dumped(value)


def nest(content: bytes, rng: Random) -> bytes:
    """A value that is nested deeper than any stack."""
    deep = rng.choice((500, DEEP))
    value, mark = json.loads(content), "\x01here"
    text = json.dumps(_put(value, mark, rng))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return text.replace(json.dumps(mark), opening * deep + "1" + closing * deep).encode()


def repeat_key(content: bytes, rng: Random) -> bytes:
    """The same key twice in one object."""
    value = json.loads(content)
    if not isinstance(value, dict) or not value:
        return content + content
    name = rng.choice(list(value))
    first = json.dumps({name: rng.choice(VALUES[:8])})[:-1]
    return (first + ", " + json.dumps(value)[1:]).encode()


def many_digits(content: bytes, rng: Random) -> bytes:
    """A number that Python refuses to read."""
    text = json.dumps(_put(json.loads(content), "\x01here", rng))
    return text.replace(json.dumps("\x01here"), "9" * rng.choice((30, 5000))).encode()


JSON: tuple[Mutation, ...] = (
    *([change_value] * 9),
    *(nest, repeat_key, many_digits, flip_bits, cut, noise, shuffle_parts, nothing),
)


def json_lines(mutations: Sequence[Mutation] = JSON) -> tuple[Mutation, ...]:
    """JSON mutations of one line among others, and lines left out or repeated."""

    def one_line(content: bytes, rng: Random) -> bytes:
        lines = content.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = rng.choice(mutations)(lines[place], rng)
        return b"\n".join(lines) + b"\n"

    def order(content: bytes, rng: Random) -> bytes:
        lines = content.splitlines() * rng.choice((1, 2))
        rng.shuffle(lines)
        return b"\n".join(lines[: rng.randrange(len(lines) + 1)]) + b"\n"

    return (one_line, one_line, one_line, one_line, order, flip_bits, cut, nothing)


def sealed_lines(mutations: Sequence[Mutation] = JSON) -> tuple[Mutation, ...]:
    """As `json_lines`, and lines of a log whose content is spoiled under a checksum that fits."""

    def resealed(content: bytes, rng: Random) -> bytes:
        lines = content.splitlines()
        place = rng.randrange(len(lines))
        record = json.loads(lines[place])
        part = record.pop("part")
        del record["crc32"]
        body = rng.choice(mutations)(json.dumps(record).encode(), rng)
        if rng.random() < 0.1:
            part = rng.choice(([0, 0], [1, 2**63], [-1, 1], [True, True], [2, 2], [1, 1, 1], "1"))
        body = body.rstrip()[:-1] + b',"part":' + json.dumps(part).encode()
        lines[place] = body + b',"crc32":"%08x"}' % crc32(body)
        return b"\n".join(lines) + b"\n"

    return (*([resealed] * 12), *json_lines(mutations))


def _dumped(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=True)
    return text.encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a value, however deep."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return []
    own = [(value, key) for key, _ in items]
    return own + [place for _, item in items for place in _places(item)]


def _put(value: Any, new: Any, rng: Random) -> Any:
    if not (places := _places(value)):
        return new
    container, key = rng.choice(places)
    container[key] = new
    return value


def _changed(value: Any, rng: Random) -> Any:
    if not (places := _places(value)) or rng.random() < 0.02:
        return deepcopy(rng.choice(VALUES))
    container, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.15:
        del container[key]
    elif kind < 0.25 and isinstance(container, dict):
        container[rng.choice(("", "x", "self", "__init__", str(key) + " "))] = container[key]
    elif kind < 0.35:
        container[key] = deepcopy(rng.choice(places)[0])
        if any(inner is container for inner, _ in _places(container[key])):
            container[key] = None
    else:
        container[key] = deepcopy(rng.choice(VALUES))
    return value


# ---------------------------------------------------------- YAML and other text

_YAML = (
    "&a [*a]",
    "&a {x: *a}",
    "!!python/object/apply:os.system [false]",
    "!!python/name:os.system ''",
    "!!binary '%%%'",
    "!!set {a, b}",
    "!!timestamp 2001-99-99",
    "!function evil.run",
    "0x" + "f" * 5000,
    "1:" * 30 + "1",
    ".nan",
    "~",
    "2001-01-01",
    "'\\ud800'",
    '"\\ud800"',
    "[" * 5000,
    "{? [a, b] : c}",
    "'" + "x" * 10_000 + "'",
    "'a\0b'",
)


def _laughs(levels: int) -> str:
    """Lists of lists of the same lists: small, unless someone counts or prints them."""
    lists = ["&l0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lists.append(f"&l{level} [{', '.join([f'*l{level - 1}'] * 10)}]")
    return f"[{', '.join(lists)}]"


def put_yaml(content: bytes, rng: Random) -> bytes:
    """Another value after a colon, such as a tag that would make an object."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    key, _, _ = lines[place].partition(":")
    lines[place] = f"{key}: {rng.choice(_YAML)}"
    return "\n".join(lines).encode(errors="surrogatepass")


def aliases(content: bytes, rng: Random) -> bytes:
    """The laughs, and a value that is all of them."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    key, _, _ = lines[place].partition(":")
    lines[place] = f"{key}: {_laughs(10)}"
    return "\n".join(lines).encode()


YAML: tuple[Mutation, ...] = (
    *([put_yaml] * 6),
    *(aliases, flip_bits, cut, shuffle_parts, noise, nothing),
)


def put_cell(content: bytes, rng: Random) -> bytes:
    """Another value in a cell of a CSV file."""
    lines = [line.split(b",") for line in content.splitlines()]
    row = rng.choice(lines)
    texts = (b"", b"nan", b"inf", b"-1", b"1e999", b"9" * 5000, b'"', b"x" * 10**6, b"\xff", b"\0")
    row[rng.randrange(len(row))] = rng.choice(texts)
    return b"\n".join(b",".join(cells) for cells in lines) + b"\n"


CSV: tuple[Mutation, ...] = (*([put_cell] * 5), flip_bits, cut, shuffle_parts, noise, nothing)
