"""A run's folder: one writer, whole files, and one sentence for whatever is wrong."""

import json
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results import files
from ladder_eval.results.records import Provenance, RunResult, to_json
from ladder_eval.results.samples import SAMPLE_SCHEMA, samples_of
from ladder_eval.results.store import (
    SAMPLE_COLUMNS,
    RunFolder,
    atomic_write,
    find_runs,
    read_result,
    read_samples,
)


@pytest.fixture
def result():
    made = Provenance(
        versions={},
        commit="abc",
        hardware={},
        command=(),
        started_at="2025-01-31T12:00:00+00:00",
        seconds=1.0,
        peak_memory_bytes=(1,),
    )
    return RunResult(
        run_id="r",
        suite="s",
        limit=4,
        seed=0,
        baseline=None,
        provenance=made,
        models=(),
        tasks=(),
        scores=(),
        comparisons=(),
        warnings=(),
    )


def row(**changes):
    cells = dict.fromkeys(SAMPLE_COLUMNS, "x") | {"group": None, "doc_id": 3, "value": 1.0}
    cells |= {"category": None, "is_headline": True, "weight": 1.0}
    return cells | {"metrics": '{"acc": 1.0}'} | changes


def frame(*rows):
    return pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS))


def test_result_and_samples_return(tmp_path, result):
    samples = frame(row(model="a"), row(model="b", doc_id=4, value=1 / 3, group="g"))
    with RunFolder.open(tmp_path / "deep" / "run") as run:
        run.write_result(result)
        run.write_samples(samples)
        assert run.write_text("report.md", "− 5 %\n").read_text(encoding="utf-8") == "− 5 %\n"
    assert read_result(run.path) == read_result(run.path / "results.json") == result
    again = read_samples(run.path)
    assert tuple(again.columns) == SAMPLE_COLUMNS
    assert again["value"].tolist() == [1.0, 1 / 3]
    assert again["doc_id"].tolist() == [3, 4]
    assert again["group"].isna().tolist() == [True, False]


def test_damaged_samples_are_never_taken_for_others(tmp_path):
    rows = [row(doc_id=i, value=i / 7, answers=f"[{i / 3}]") for i in range(20)]
    with RunFolder.open(tmp_path) as run:
        run.write_samples(frame(*rows))
    file, good = tmp_path / "samples.parquet", read_samples(tmp_path)
    content = file.read_bytes()
    refused = 0
    for place in range(4, len(content) // 2, 7):  # what follows is mostly the schema
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert read_samples(tmp_path).equals(good)
        except RecordError:
            refused += 1
    assert refused > 50


def test_samples_of_one_model_in_order():
    samples = frame(row(model="a", value=0.5), row(model="b"), row(model="a", doc_hash="y"))
    found = samples_of(samples, "a")
    assert [(each.doc_hash, each.value) for each in found] == [("x", 0.5), ("y", 1.0)]
    assert found[0].metric == "x"


def test_no_samples_are_samples(tmp_path):
    with RunFolder.open(tmp_path) as run:
        run.write_samples(frame())
    assert read_samples(tmp_path).empty


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (frame(row()).drop(columns="target"), "give them model, task, group"),
        (frame(row())[list(reversed(SAMPLE_COLUMNS))], "give them model, task, group"),
        (frame(row(value="much")), "doesn't fit its column"),
        (frame(row(doc_id="first")), "doesn't fit its column"),
        (frame(row(doc_id=2**70)), "doesn't fit its column"),
        (frame(row(target=None)), "doesn't fit its column"),
    ],
)
def test_other_samples_are_refused(tmp_path, samples, message):
    with RunFolder.open(tmp_path) as run, pytest.raises(RecordError, match=message):
        run.write_samples(samples)
    assert not (tmp_path / "samples.parquet").exists()


def other_columns(samples):
    """A file of samples in which each column is of another type, or holds what it may not."""
    table = pa.Table.from_pandas(samples, schema=SAMPLE_SCHEMA)
    for place, field in enumerate(SAMPLE_SCHEMA):
        yield table.set_column(place, field.name, pa.array([b"x"]))
        yield table.set_column(place, field.name, pa.nulls(1))
        yield table.remove_column(place)


def test_columns_of_other_types_are_refused(tmp_path):
    for table in other_columns(frame(row())):
        pq.write_table(table, tmp_path / "samples.parquet")
        with pytest.raises(RecordError, match="has other columns than this ladder-eval writes"):
            read_samples(tmp_path)


def test_texts_that_are_none_are_refused(tmp_path):
    table = pa.Table.from_pandas(frame(row()), schema=SAMPLE_SCHEMA)
    bytes_called_text = pa.array([b"\xff"]).view(pa.string())
    field = SAMPLE_SCHEMA.field("document")
    place = SAMPLE_SCHEMA.get_field_index("document")
    pq.write_table(table.set_column(place, field, bytes_called_text), tmp_path / "samples.parquet")
    with pytest.raises(RecordError, match=r"can't read .*UTF8"):
        read_samples(tmp_path)


def test_second_process_is_refused_until_the_first_is_done(tmp_path):
    script = (
        "import sys; from pathlib import Path; from ladder_eval.results.store import RunFolder\n"
        "try: RunFolder.open(Path(sys.argv[1])).close()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    call = [sys.executable, "-c", script, str(tmp_path)]
    with RunFolder.open(tmp_path):
        second = subprocess.run(call, capture_output=True, text=True, check=True)
    third = subprocess.run(call, capture_output=True, text=True, check=True)
    assert second.stdout.startswith("RecordError another process is writing to")
    assert third.stdout == ""


def test_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RecordError, match="can't write to"):
            RunFolder.open(path)


def test_folder_that_takes_no_files_is_refused(tmp_path, monkeypatch):
    def fail(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(RecordError, match="Read-only file system"):
        RunFolder.open(tmp_path)


def test_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    target = tmp_path / "report.md"
    atomic_write(target, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, fail)
            with pytest.raises(RecordError, match="No space left on device"):
                atomic_write(target, "new")
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]


def test_written_file_is_readable_by_others_as_any_file(tmp_path):
    (tmp_path / "plain").write_text("")
    atomic_write(tmp_path / "atomic", b"\x00")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_request_logs_have_separate_files(tmp_path):
    with RunFolder.open(tmp_path) as run:
        names = ["org/model", "org:model", "org-model", "..", "a" * 300, "tiny-1.5"]
        paths = set()
        for name in names:
            with run.requests(name) as log:
                log.append({"k": name})
                paths.add(log.path)
        assert len(paths) == len(names)
        assert {path.parent for path in paths} == {tmp_path / "requests"}
        assert tmp_path / "requests" / "tiny-1.5.jsonl" in paths
        with run.requests("org/model") as log:
            assert log.get("k") == "org/model"


def test_runs_are_found_below(tmp_path, result):
    for name in ("b", "a/c"):
        with RunFolder.open(tmp_path / name) as run:
            run.write_result(result)
    (tmp_path / "unfinished").mkdir()
    assert find_runs(tmp_path) == [tmp_path / "a" / "c", tmp_path / "b"]
    assert find_runs(tmp_path / "b") == [tmp_path / "b"]
    with pytest.raises(RecordError, match="isn't a folder"):
        find_runs(tmp_path / "nowhere")


def test_missing_and_damaged_files_are_one_sentence(tmp_path, result):
    for read in (read_result, read_samples):
        with pytest.raises(RecordError, match="isn't a finished run"):
            read(tmp_path)
    (tmp_path / "samples.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(RecordError, match="can't read"):
        read_samples(tmp_path)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "samples.parquet")
    with pytest.raises(RecordError, match="other columns"):
        read_samples(tmp_path)
    (tmp_path / "results.json").write_bytes(b"\xff")
    with pytest.raises(RecordError, match="can't read"):
        read_result(tmp_path)
    data = json.loads(to_json(result)) | {"schema_version": 99}
    (tmp_path / "results.json").write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"results\.json: .*schema version 99"):
        read_result(tmp_path)
