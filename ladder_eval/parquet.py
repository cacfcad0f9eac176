"""Parquet files, read as if they were hostile: bounded in memory, and checked before use."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ladder_eval.parquet_footer import value_count
from ladder_eval.unpacking import most_unpacked

_BATCH_ROWS = 128  # a value that is stored once can stand in each of them
_VALUE_BYTES = 8  # of a number, or of where a text lies, at least


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The whole table, or some columns of it, without the metadata of whoever wrote it.

    Args:
        file: The file.
        columns: Names of columns, in any order; None for all. One that isn't there is left out.

    Raises:
        OSError: if the file can't be read.
        ValueError: if it is damaged, holds text that is no UTF-8, or unpacks to more than
            `most_unpacked`.
        pa.ArrowException: if it is damaged otherwise.
    """
    most = most_unpacked(file.stat().st_size)
    # A null takes no room in a file, and a row can be a list of a billion of them.
    if _VALUE_BYTES * value_count(file) > most:
        raise _too_large(most)
    # A thread that finds no memory would leave the others waiting.
    with pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as opened:
        groups = map(opened.metadata.row_group, range(opened.num_row_groups))
        if max(opened.metadata.num_rows, sum(group.total_byte_size for group in groups)) > most:
            raise _too_large(most)
        _bound_lists(file, opened.schema, most)
        whole = opened.schema_arrow.remove_metadata()
        wanted = [each for each in whole if columns is None or each.name in columns]
        batches = _bounded(opened, most, [each.name for each in wanted])
        table = pa.Table.from_batches(batches, pa.schema(wanted))
        if table.num_rows != opened.metadata.num_rows:  # damage can end a column early
            raise ValueError(f"it has {table.num_rows} of {opened.metadata.num_rows} rows")
    table.validate(full=True)
    return table


def _bound_lists(file: Path, schema: pq.ParquetSchema, most: int) -> None:
    """Refuse texts in lists that are too long together.

    Rows are read a few at a time, but a list is in one row, and a text that is stored once can
    stand in it a million times. Read as places in a dictionary, it is there once, and is counted
    wherever it stands.
    """
    leaves = [schema.column(i) for i in range(len(schema))]
    listed = [
        leaf.path
        for leaf in leaves
        if leaf.max_repetition_level and leaf.physical_type == "BYTE_ARRAY"
    ]
    if not listed:
        return
    with pq.ParquetFile(file, pre_buffer=False, read_dictionary=listed) as opened:
        size = 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=listed, use_threads=False):
            size += sum(map(_text_bytes, batch.columns))
            if size > most:
                raise _too_large(most)


def _text_bytes(array: pa.Array) -> int:
    """What the texts in an array take, those of its dictionaries counted wherever they stand."""
    if isinstance(array, pa.DictionaryArray):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if isinstance(array, pa.StructArray):
        return sum(map(_text_bytes, array.flatten()))
    if isinstance(array, pa.MapArray):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return _text_bytes(array.values)
    return int(array.nbytes)


def _bounded(opened: pq.ParquetFile, most: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in opened.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        size += batch.nbytes
        if size > most:
            raise _too_large(most)
        yield batch.replace_schema_metadata(None)


def _too_large(most: int) -> ValueError:
    return ValueError(f"it unpacks to more than {most / 1e6:.0f} MB")
