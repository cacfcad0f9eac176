"""What docs/failures.md says of disks, folders and damage: sentences, codes, what is kept."""

import errno
import json
import os
import tempfile

import pytest
from running import Quiet, recorded
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.engine import ranks
from ladder_eval.options import RunOptions
from ladder_eval.results import files, lines
from ladder_eval.results.lines import read_lines
from ladder_eval.results.store import read_batches, read_result, read_samples
from ladder_eval.resuming import resumed
from ladder_eval.run import run

REQUESTS = 40


@pytest.fixture(scope="module")
def undisturbed(tiny_checkpoint, tiny_data, tmp_path_factory):
    return run(options_of(tiny_checkpoint, tiny_data, tmp_path_factory.mktemp("runs")), Quiet())


@pytest.fixture
def options(tiny_checkpoint, tiny_data, tmp_path):
    return options_of(tiny_checkpoint, tiny_data, tmp_path / "runs")


def options_of(checkpoint, data, out):
    return RunOptions(
        model=(str(checkpoint),),
        tasks=("piqa",),
        data_dir=data,
        output_dir=out,
        device="cpu",
        no_speed=True,
    )


def invoke(options):
    """The same run by the command line."""
    flags = ["--model", options.model[0], "--tasks", "piqa", "--data-dir", str(options.data_dir)]
    flags += ["--output-dir", str(options.output_dir), "--device", "cpu", "--no-speed"]
    return CliRunner().invoke(app, ["run", *flags], catch_exceptions=False)


def sizes_of(undisturbed):
    """Requests that each batch answers."""
    return [batch.requests for batch in read_batches(undisturbed[1], "tiny")]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def folder_of(options):
    (folder,) = options.output_dir.iterdir()
    return folder


def require_same(found, undisturbed):
    """Whatever befell a run, what it found is what an undisturbed one finds, bit for bit."""
    (result, folder), (other, there) = found, undisturbed
    assert (result.scores, result.comparisons, result.tasks) == (
        other.scores,
        other.comparisons,
        other.tasks,
    )
    same = "samples.parquet"
    assert (folder / same).read_bytes() == (there / same).read_bytes()
    assert read_samples(folder)["answers"].tolist() == read_samples(there)["answers"].tolist()


def test_a_full_disk_ends_the_run_and_keeps_what_was_scored(options, undisturbed, monkeypatch):
    appends = []

    def append(self, records, plainly=lines.LineFile.append):
        appends.append(self.path.parent.name)
        if len(appends) == 6:  # a start, its tokens, lengths and answers of a batch, other lengths
            full()
        plainly(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(lines.LineFile, "append", append)
        found = invoke(options)
    folder = folder_of(options)
    assert appends[2:] == ["batches", "requests", "batches", "requests"]
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1] == (
        f"ladder-eval: can't keep answers in {folder / 'requests' / 'tiny.jsonl'} (No space left "
        "on device); free some space there, or choose another folder."
    )
    sizes = sizes_of(undisturbed)
    kept = sizes[0]
    assert len(recorded(folder)["tiny"]) == kept < REQUESTS
    result, there = run(resumed(folder, {}), Quiet())
    require_same((result, there), undisturbed)
    (model,) = result.models
    assert (model.reused_requests, model.scored_requests) == (kept, REQUESTS - kept)
    # The batch that was computed and couldn't be kept is there once, for whoever times the work.
    assert len(read_lines(folder / "batches" / "tiny.jsonl").records) == len(sizes) + 1
    assert sizes_of((result, folder)) == sizes


def test_a_disk_that_is_full_at_the_end_costs_no_answer(options, undisturbed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_beside", full)
        found = invoke(options)
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1] == (
        f"ladder-eval: can't write {folder_of(options) / 'samples.parquet'} (No space left on "
        "device); free some space there, or choose another folder."
    )
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    require_same(run(resumed(folder_of(options), {}), Quiet()), undisturbed)


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_computed(options, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    found = invoke(options)
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1] == (
        f"ladder-eval: can't write to {folder_of(options)} (Read-only file system); choose another "
        "folder."
    )


@pytest.mark.parametrize("place", [0, 17, 39], ids=["first", "middle", "last"])
def test_a_flipped_bit_costs_its_batch_and_is_told(options, undisturbed, place):
    _, folder = run(options, Quiet())
    log = folder / "requests" / "tiny.jsonl"
    content = log.read_bytes().splitlines(keepends=True)
    bad = bytearray(content[place])
    bad[bad.index(b".") + 1] ^= 1  # a digit of the log-likelihood: the line stays JSON
    assert json.loads(bytes(bad))["key"] == json.loads(content[place])["key"]
    log.write_bytes(b"".join([*content[:place], bytes(bad), *content[place + 1 :]]))
    result, there = run(options, Quiet())
    require_same((result, there), undisturbed)
    (model,) = result.models
    _, lost = json.loads(content[place])["part"]  # what was computed with it goes with it
    assert lost in sizes_of(undisturbed)
    assert (model.reused_requests, model.scored_requests) == (REQUESTS - lost, lost)
    assert result.warnings[0].startswith(f"tiny: recorded answers had {lost} torn or damaged lines")
    assert read_result(folder) == result


def test_what_a_killed_write_leaves_is_removed(options):
    _, folder = run(options, Quiet())
    left = folder / ".results.json.abc.unfinished"
    left.write_text("{")
    run(options, Quiet())
    assert not left.exists()
