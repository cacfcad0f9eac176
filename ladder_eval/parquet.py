"""Parquet files, read as if they were hostile: bounded in memory, and checked before use."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ladder_eval.unpacking import most_unpacked

_BATCH_ROWS = 128  # a value that is stored once can stand in each of them


def read_parquet(file: Path) -> pa.Table:
    """The whole table, without the metadata of whoever wrote it.

    Raises:
        OSError: if the file can't be read.
        ValueError: if it is damaged, holds text that is no UTF-8, or unpacks to more than
            `most_unpacked`.
        pa.ArrowException: if it is damaged otherwise.
    """
    most = most_unpacked(file.stat().st_size)
    # A thread that finds no memory would leave the others waiting.
    with pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as opened:
        groups = map(opened.metadata.row_group, range(opened.num_row_groups))
        if max(opened.metadata.num_rows, sum(group.total_byte_size for group in groups)) > most:
            raise _too_large(most)
        schema = opened.schema_arrow.remove_metadata()
        table = pa.Table.from_batches(_bounded(opened, most), schema)
        if table.num_rows != opened.metadata.num_rows:  # damage can end a column early
            raise ValueError(f"it has {table.num_rows} of {opened.metadata.num_rows} rows")
    table.validate(full=True)
    return table


def _bounded(opened: pq.ParquetFile, most: int) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in opened.iter_batches(_BATCH_ROWS, use_threads=False):
        size += batch.nbytes
        if size > most:
            raise _too_large(most)
        yield batch.replace_schema_metadata(None)


def _too_large(most: int) -> ValueError:
    return ValueError(f"it unpacks to more than {most / 1e6:.0f} MB")
