"""A folder of data for a machine without network: complete, or not there."""

import json

import pyarrow.parquet as pq
import pytest
from test_catalogue import ARC, PIQA

from ladder_eval.errors import DataError, UsageError
from ladder_eval.fetch import sha256_file
from ladder_eval.harness.catalogue import DataSources, load
from ladder_eval.harness.data import packing
from ladder_eval.harness.data.contents import content_sha256
from ladder_eval.harness.data.packing import require_empty, write_pack


@pytest.fixture
def loaded(tiny_data):
    return load([ARC, PIQA], DataSources(data_dir=tiny_data, notify=print))


SOURCES = DataSources(notify=print)


def test_a_pack_gives_what_went_into_it(tmp_path, loaded, monkeypatch):
    (tmp_path / "out").mkdir()  # an empty one may be there
    assert write_pack(tmp_path / "out", loaded, SOURCES) == tmp_path / "out" / "MANIFEST.json"
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "empty"))
    again = load(loaded, DataSources(data_dir=tmp_path / "out", notify=pytest.fail))
    assert {s: list(one.rows) for s, one in again.items()} == {
        s: list(one.rows) for s, one in loaded.items()
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_manifest_says_what_each_file_is(tmp_path, loaded, tiny_data):
    manifest = json.loads(write_pack(tmp_path / "out", loaded, SOURCES).read_text())
    arc, piqa = manifest["splits"]
    file = tmp_path / "out" / "piqa" / "default" / "validation.parquet"
    assert piqa == {
        "file": "piqa/default/validation.parquet",
        "data_set": "baber/piqa",
        "configuration": "",
        "split": "validation",
        "rows": 20,
        "official_rows": 1838,
        "content_sha256": content_sha256(pq.read_table(file).to_pylist()),
        "sha256": sha256_file(file),
        "source": str((tiny_data / "piqa/default/validation.parquet").resolve()),
        "licence": "AFL-3.0",
        "revision": "142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
    }
    assert arc["file"] == "ai2_arc/ARC-Easy/validation.parquet"
    assert (arc["configuration"], arc["rows"]) == ("ARC-Easy", 30)
    assert manifest["resources"] == []


def test_a_pack_that_fails_leaves_nothing(tmp_path, loaded, monkeypatch):
    monkeypatch.setattr(packing, "read_rows", lambda _: [])
    with pytest.raises(DataError, match="ARC-Easy validation was not read back"):
        write_pack(tmp_path / "out", loaded, SOURCES)
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_folder_is_written(tmp_path, loaded):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for taken in (tmp_path / "out", tmp_path / "out" / "mine"):
        with pytest.raises(UsageError, match="exists and is no empty folder; name another one"):
            write_pack(taken, loaded, SOURCES)
    with pytest.raises(UsageError, match="can't be written"):
        write_pack(tmp_path / "out" / "mine" / "deeper", loaded, SOURCES)
    with pytest.raises(UsageError, match="can't be written"):
        require_empty(tmp_path / ("long" * 100))
