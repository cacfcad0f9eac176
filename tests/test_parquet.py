"""Parquet files: read whole, but neither gigabytes of nothing nor text that is none."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ladder_eval.parquet import read_parquet


def test_a_table_comes_back_without_its_writers_metadata(tmp_path):
    rows = [{"a": i, "b": f"text {i}", "c": [i, None], "d": {"e": i / 2}} for i in range(1000)]
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"pandas": "{nonsense"})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    found = read_parquet(tmp_path / "a.parquet")
    assert found.to_pylist() == rows
    assert found.schema.metadata is None


def test_an_empty_table_keeps_its_columns(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert read_parquet(tmp_path / "a.parquet").schema == pa.schema({"a": pa.string()})


@pytest.mark.parametrize("rows", [1000, 10**6])
def test_one_text_a_million_times(tmp_path, rows):
    text = pa.array(["x" * (10**9 // rows)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, "int32")), text)
    pq.write_table(
        pa.table({"a": column}), tmp_path / "a.parquet", compression="zstd", store_schema=False
    )
    assert (tmp_path / "a.parquet").stat().st_size < 300_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="it unpacks to more than"):
        read_parquet(tmp_path / "a.parquet")
    assert pa.total_allocated_bytes() == before


def test_text_that_is_no_utf8(tmp_path):
    bytes_called_text = pa.array([b"\xff\xfe"]).view(pa.string())
    pq.write_table(pa.table({"a": bytes_called_text}), tmp_path / "a.parquet")
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        read_parquet(tmp_path / "a.parquet")
