"""Ways to spoil what is packed: gzip files, archives, safetensors and Parquet."""

import gzip
import io
import zipfile
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_mutations import BYTES, JSON, NUMBERS, Mutation

_MIB = 2**20


# ------------------------------------------------------------- gzip and archives


def gzipped(mutations: Sequence[Mutation]) -> tuple[Mutation, ...]:
    """Mutations inside a gzip file, of the file itself, and bombs."""

    def inside(content: bytes, rng: Random) -> bytes:
        return gzip.compress(rng.choice(mutations)(gzip.decompress(content), rng), mtime=0)

    def bomb(content: bytes, rng: Random) -> bytes:
        filler = gzip.compress(b" " * 8 * _MIB, mtime=0)  # members may follow each other
        return rng.choice((content + filler * 128, filler * 128))

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


SAFETENSORS: tuple[Mutation, ...] = (*([header] * 6), *BYTES)


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


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


PARQUET: tuple[Mutation, ...] = (*([retype] * 6), parquet_bomb, *BYTES, *BYTES)
