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


def listed(values):
    """A table of one row, which is a list of all the values."""
    return pa.table({"a": pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)})


@pytest.mark.parametrize("kind", ["nulls", "texts"])
def test_a_list_of_millions_in_one_row(tmp_path, kind):
    values = pa.nulls(10**7, pa.int64())
    if kind == "texts":
        places = pa.array(np.zeros(10**4, "int32"))
        values = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 10**4]))
    pq.write_table(listed(values), tmp_path / "a.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 1000
    before = pa.total_allocated_bytes()
    del values
    with pytest.raises(ValueError, match="it unpacks to more than 67 MB"):
        read_parquet(tmp_path / "a.parquet")
    assert pa.total_allocated_bytes() <= before


def test_texts_in_lists_structs_and_maps_come_back(tmp_path):
    rows = [{"a": {"t": ["x", None], "n": [1]}, "b": [["y"], []]}, {"a": None, "b": None}] * 200
    table = pa.Table.from_pylist(rows)
    pairs = pa.array([[("k", "v")], None] * 200, pa.map_(pa.string(), pa.string()))
    pq.write_table(table.append_column("c", pairs), tmp_path / "a.parquet", store_schema=False)
    found = read_parquet(tmp_path / "a.parquet")
    assert found.drop_columns("c").to_pylist() == rows
    assert found["c"].to_pylist() == pairs.to_pylist()
