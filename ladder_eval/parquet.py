"""Parquet files, read as if they were hostile: bounded in memory, and checked before use."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ladder_eval.unpacking import most_unpacked

_BATCH_ROWS = 128  # a value that is stored once can stand in each of them


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
    # A thread that finds no memory would leave the others waiting.
    with pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as opened:
        groups = map(opened.metadata.row_group, range(opened.num_row_groups))
        if max(opened.metadata.num_rows, sum(group.total_byte_size for group in groups)) > most:
            raise _too_large(most)
        whole = opened.schema_arrow.remove_metadata()
        wanted = [each for each in whole if columns is None or each.name in columns]
        batches = _bounded(opened, most, [each.name for each in wanted])
        table = pa.Table.from_batches(batches, pa.schema(wanted))
        if table.num_rows != opened.metadata.num_rows:  # damage can end a column early
            raise ValueError(f"it has {table.num_rows} of {opened.metadata.num_rows} rows")
    table.validate(full=True)
    return table


def _bounded(opened: pq.ParquetFile, most: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in opened.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        size += batch.nbytes
        if size > most:
            raise _too_large(most)
        yield batch.replace_schema_metadata(None)


def _too_large(most: int) -> ValueError:
    return ValueError(f"it unpacks to more than {most / 1e6:.0f} MB")
