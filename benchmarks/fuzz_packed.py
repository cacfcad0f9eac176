"""Ways to spoil what is packed: gzip files, archives, safetensors and Parquet."""

import gzip
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_mutations import BYTES, JSON, NUMBERS, Mutation
from gguf import GGUFReader

_MIB = 2**20


# ------------------------------------------------------------- gzip and archives


def gzipped(mutations: Sequence[Mutation]) -> tuple[Mutation, ...]:
    """Mutations inside a gzip file, of the file itself, and bombs."""

    def inside(content: bytes, rng: Random) -> bytes:
        return gzip.compress(rng.choice(mutations)(gzip.decompress(content), rng), mtime=0)

    def bomb(content: bytes, rng: Random) -> bytes:
        filler = gzip.compress(b" " * 8 * _MIB, mtime=0)  # members may follow each other
        value = rng.choice((b"{},", b"[],", b"0.5,", b'"",'))
        small = gzip.compress(b'{"a":[' + value * (8 * _MIB) + b"0]}\n", mtime=0)
        return rng.choice((content + filler * 128, filler * 128, content + small))

    return (inside, inside, inside, inside, *BYTES[:6], bomb)


_NAMES = (
    *(
        "../evil",
        "a/../../evil",
        "/tmp/evil",
        "c:\\evil",
        "\\\\host\\evil",
        "a\0b",
        "",
        ".",
        "a//b",
    ),
    *("data/x" * 100, "data/" + "é" * 200, "data/" + "x" * 300, "data", "data/rows.json/inside"),
)


def archive(content: bytes, rng: Random) -> bytes:
    """An archive with a member that no honest tool would write."""
    made = io.BytesIO(content)
    with zipfile.ZipFile(made, "a") as opened:
        kind = rng.randrange(6)
        if kind == 0:
            opened.writestr(zipfile.ZipInfo(rng.choice(_NAMES)), b"x")
        elif kind == 1:  # a link, a pipe or a device
            member = zipfile.ZipInfo("data/link")
            member.external_attr = rng.choice((0o120777, 0o010666, 0o020666, 0o060666)) << 16
            opened.writestr(member, b"../../evil")
        elif kind == 2:
            method = rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
            opened.writestr("data/more.json", b" " * _MIB, method)
        elif kind == 3:  # packed a thousandfold
            opened.writestr("data/bomb.json", b"\0" * 64 * _MIB, zipfile.ZIP_DEFLATED)
        elif kind == 4:
            for number in range(2000):
                opened.writestr(f"data/{number}", b"")
        else:
            opened.writestr("data/rows.json/inside", b"")
    return made.getvalue()


def spoil_directory(content: bytes, rng: Random) -> bytes:
    """A number in the headers of members: sizes, offsets, methods, flags."""
    marks = [
        i for i in range(len(content)) if content[i : i + 4] in (b"PK\1\2", b"PK\3\4", b"PK\5\6")
    ]
    place = rng.choice(marks) + rng.randrange(4, 46)
    size = rng.choice((1, 2, 4))
    number = rng.choice(NUMBERS) % (1 << 8 * size)
    return content[:place] + number.to_bytes(size, "little") + content[place + size :]


ARCHIVES: tuple[Mutation, ...] = (archive, archive, spoil_directory, spoil_directory, *BYTES)


# ---------------------------------------------------------------- safetensors


def header(content: bytes, rng: Random) -> bytes:
    """The JSON in front of a safetensors file, with the length that it then has."""
    end = 8 + int.from_bytes(content[:8], "little")
    text = rng.choice(JSON)(content[8:end], rng)
    return len(text).to_bytes(8, "little") + text + content[end:]


def tensors(content: bytes, rng: Random) -> bytes:
    """A sound header in which one tensor has another shape, dtype, place or name."""
    end = 8 + int.from_bytes(content[:8], "little")
    described = json.loads(content[8:end])
    name, other = rng.sample([name for name in described if name != "__metadata__"], 2)
    own = described[name]
    size = own["data_offsets"][1] - own["data_offsets"][0]
    kind = rng.randrange(5)
    if kind == 0:
        first = rng.choice((1, 2, 4))
        own["shape"] = rng.choice(
            ([first, size // 4 // first], [size // 4], [0, 2**62], [2**62, 4])
        )
    elif kind == 1:
        own["dtype"] = rng.choice(("I32", "U32", "F64", "BF16", "F8_E4M3", "BOOL"))
    elif kind == 2:
        described[name], described[other] = described[other], own
    elif kind == 3:
        own["data_offsets"] = rng.choice((described[other]["data_offsets"], [-4, size], [2**63, 0]))
    else:
        described[rng.choice(("a\nb", "", "x" * 10_000, "model.layers.9999999999.x"))] = own
        del described[name]
    text = json.dumps(described).encode()
    return len(text).to_bytes(8, "little") + text + content[end:]


def weights(content: bytes, rng: Random) -> bytes:
    """Weights that are no numbers, or too large for any sum."""
    end = 8 + int.from_bytes(content[:8], "little")
    places = range(end, len(content) - 3, 4)
    value = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38, 1e-45)))
    spoiled = bytearray(content)
    for place in rng.sample(places, rng.choice((1, 100))):
        spoiled[place : place + 4] = value
    return bytes(spoiled)


SAFETENSORS: tuple[Mutation, ...] = (*([header] * 4), *([tensors] * 6), weights, *BYTES)


# ----------------------------------------------------------------------- GGUF


def gguf_parts(content: bytes, rng: Random) -> bytes:
    """Another length, type, count, extent, offset, name or value in a sound header."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        reader = GGUFReader(file.name)
    fields = [*reader.fields.values(), *(tensor.field for tensor in reader.tensors)]
    spoiled = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        field = rng.choice(rng.choice((fields, fields[-len(reader.tensors) :])))
        number = rng.randrange(len(field.parts))
        place = field.offset + sum(part.nbytes for part in field.parts[:number])
        size = field.parts[number].nbytes
        value = rng.choice((rng.randrange(40), rng.choice(NUMBERS))) % 2**64
        odd = rng.choice((b"\n", b"\xff", b"\0", b" ")) * size
        taken = value.to_bytes(8, "little") + bytes(size)
        spoiled[place : place + size] = rng.choice((taken[:size], taken[:size], odd))
    return bytes(spoiled)


def gguf_weights(content: bytes, rng: Random) -> bytes:
    """Weights at the end of the file that are no numbers."""
    value = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38)))
    return content[:-1024] + value * 256


GGUF: tuple[Mutation, ...] = (*([gguf_parts] * 8), gguf_weights, *BYTES)


# -------------------------------------------------------------------- Parquet


def retype(content: bytes, rng: Random) -> bytes:
    """A column of another type, with nulls, no UTF-8 or strange numbers in it, or none at all."""
    table = pq.read_table(pa.BufferReader(content))
    place = rng.randrange(table.num_columns)
    name, rows = table.column_names[place], table.num_rows
    columns: tuple[pa.Array, ...] = (
        pa.nulls(rows),
        pa.array([float("nan")] * rows),
        pa.array([2**63 - 1] * rows),
        pa.array(["x\ud7ff\0"] * rows),
        pa.array([b"\xff\xfe"] * rows),
        pa.array([[1, None]] * rows),
        pa.array([{"a": None}] * rows),
        pa.array([None, *[0] * (rows - 1)], pa.timestamp("ns")),
        pa.array([True] * rows),
        # Bytes that are called text are what a damaged page leaves.
        pa.array([b"\xff\xfe"] * rows).view(pa.string()),
    )
    kind = rng.random()
    if kind < 0.1:
        table = table.remove_column(place)
    elif kind < 0.2:
        table = table.rename_columns(
            [
                *table.column_names[:place],
                rng.choice(("x", "", "model")),
                *table.column_names[place + 1 :],
            ]
        )
    elif kind < 0.3:
        table = table.slice(0, 0)
    else:
        table = table.set_column(place, name, rng.choice(columns))
    return _parquet(table)


def parquet_bomb(content: bytes, rng: Random) -> bytes:
    """Gigabytes of the same row in some kilobytes."""
    table = pq.read_table(pa.BufferReader(content)).slice(0, 1)
    name = rng.choice(table.column_names)
    rows = rng.choice((10**6, 10**7))
    text = pa.array(["x" * (4 * 10**9 // rows)])
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, "int32")), text)
    return _parquet(pa.table({name: repeated}))


def list_bomb(content: bytes, rng: Random) -> bytes:
    """The same in one row, which is a list."""
    name = rng.choice(pq.read_schema(pa.BufferReader(content)).names)
    values: pa.Array = pa.nulls(5 * 10**7, pa.int64())
    if rng.random() < 0.5:
        places = pa.array(np.zeros(4 * 10**4, "int32"))
        values = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 25_000]))
    ends = pa.array([0, len(values)], pa.int32())
    return _parquet(pa.table({name: pa.ListArray.from_arrays(ends, values)}))


def pages(content: bytes, rng: Random) -> bytes:
    """A byte or two in what stands before a page: sizes, counts, encodings."""
    group = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0)
    column = group.column(rng.randrange(group.num_columns))
    start = rng.choice((column.data_page_offset, column.dictionary_page_offset or 4))
    spoiled = bytearray(content)
    for _ in range(rng.randint(1, 2)):
        spoiled[start + rng.randrange(24)] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
        )
    return bytes(spoiled)


def footer(content: bytes, rng: Random) -> bytes:
    """A number of another size in the description of all columns, whose length then fits."""
    size = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - size
    text = bytearray(content[start:-8])
    place = rng.randrange(len(text))
    number = rng.choice(
        (b"\0", b"\1", b"\xff" * 4 + b"\x0f", b"\xff" * 9 + b"\1", b"\xfe" * 9 + b"\1")
    )
    text[place : place + rng.choice((1, len(number)))] = number
    return content[:start] + bytes(text) + len(text).to_bytes(4, "little") + b"PAR1"


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


PARQUET: tuple[Mutation, ...] = (
    *([retype] * 6),
    *([pages] * 5),
    *([footer] * 5),
    *(parquet_bomb, list_bomb, *BYTES),
)
