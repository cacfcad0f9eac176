"""The index of a folder of runs: always what the runs say, whatever happened to it."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from report_records import build

from ladder_eval.errors import RecordError
from ladder_eval.results import index
from ladder_eval.results.index import INDEX_NAME, Table, read_runs
from ladder_eval.results.records import SCHEMA_VERSION, to_json

READ = []


def rows(result):
    READ.append(result.run_id)
    return [{"name": model.name, "seed": result.seed, "cost": 0.1} for model in result.models]


TABLE = Table(
    name="models", columns={"name": "string", "seed": "Int64", "cost": "float64"}, rows=rows
)


@pytest.fixture
def runs(tmp_path):
    """Two runs of the same two models, with seeds 1 and 2."""
    for seed in (1, 2):
        write(tmp_path / f"run{seed}", seed)
    READ.clear()
    return tmp_path


def write(folder, seed):
    folder.mkdir(exist_ok=True)
    text = to_json(build(arc=(2, 4, 20, 14), boolq=(1, 1, 30, 8)))
    (folder / "results.json").write_text(text.replace('"seed": 7', f'"seed": {seed}'))


def seeds(folder):
    return read_runs(folder, [TABLE]).tables["models"]["seed"].tolist()


def test_tables_have_the_rows_of_all_runs(runs):
    found = read_runs(runs, [TABLE])
    frame = found.tables["models"]
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(TABLE.columns)
    assert frame.to_dict("list") == {
        "name": ["dense", "lad|der"] * 2,
        "seed": [1, 1, 2, 2],
        "cost": [0.1] * 4,
    }
    assert (found.runs, found.skipped) == (2, ())


def test_unchanged_runs_are_not_read_again(runs):
    assert seeds(runs) == seeds(runs) == [1, 1, 2, 2]
    assert len(READ) == 2
    with closing(sqlite3.connect(runs / INDEX_NAME)) as connection:
        assert connection.execute("SELECT count(*) FROM models").fetchone() == (4,)


def test_the_index_can_be_moved_with_its_runs(runs, tmp_path_factory):
    seeds(runs)
    moved = tmp_path_factory.mktemp("moved") / "runs"
    shutil.copytree(runs, moved)
    assert seeds(moved) == [1, 1, 2, 2]
    assert len(READ) == 2


def test_changed_new_and_removed_runs_are_followed(runs):
    seeds(runs)
    file = runs / "run1" / "results.json"
    before = file.stat()
    write(runs / "run1", 3)  # as many bytes, and as old
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    shutil.rmtree(runs / "run2")
    write(runs / "run0", 5)
    assert seeds(runs) == [5, 5, 3, 3]
    assert len(READ) == 4


def forget(file):
    file.unlink()


def garble(file):
    file.write_bytes(b"no database" * 500)


def cut(file):
    file.write_bytes(file.read_bytes()[:5000])


def empty(file):
    file.write_bytes(b"")


def block(file):
    file.unlink()
    file.mkdir()


def lose_a_table(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE models")


def other_version(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE models SET seed = 99")
        connection.execute("PRAGMA user_version = 1")


@pytest.mark.parametrize(
    "spoil",
    [forget, garble, cut, empty, block, lose_a_table, other_version],
    ids=lambda f: f.__name__,
)
def test_a_spoilt_index_is_made_anew(runs, spoil):
    seeds(runs)
    spoil(runs / INDEX_NAME)
    assert seeds(runs) == [1, 1, 2, 2]
    assert seeds(runs) == [1, 1, 2, 2]
    assert len(READ) == (6 if spoil is block else 4)


def test_an_index_that_another_process_writes_is_left_to_it(runs, monkeypatch):
    monkeypatch.setattr(index, "_PATIENCE", 0.01)
    seeds(runs)
    with closing(sqlite3.connect(runs / INDEX_NAME)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert seeds(runs) == [1, 1, 2, 2]
    assert seeds(runs) == [1, 1, 2, 2]
    assert len(READ) == 4


def test_a_run_that_cannot_be_read_is_named_until_it_can(runs):
    file = runs / "run1" / "results.json"
    text = file.read_text()
    for broken, why in (
        (text[:90], "isn't valid JSON"),
        (text.replace(f'on": {SCHEMA_VERSION}', 'on": 3'), "version 3"),
    ):
        file.write_text(broken)
        for _ in range(2):
            found = read_runs(runs, [TABLE])
            assert found.tables["models"]["seed"].tolist() == [2, 2]
            (sentence,) = found.skipped
            assert why in sentence
            assert str(file) in sentence
    file.write_text(text)
    assert seeds(runs) == [1, 1, 2, 2]


def test_a_folder_without_runs_gets_no_index(tmp_path):
    assert read_runs(tmp_path, [TABLE]).runs == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RecordError, match="isn't a folder"):
        read_runs(tmp_path / "nowhere", [TABLE])
