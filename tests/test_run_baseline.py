"""A finished baseline is scored once: `--baseline-run` takes its answers."""

from dataclasses import replace

import pytest
from running import Quiet, copy_of, recorded
from tiny_checkpoint import write_checkpoint

from ladder_eval.errors import RecordError, UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.options import RunOptions, run_options
from ladder_eval.results.store import read_samples
from ladder_eval.run import run

REQUESTS = 30 * 4 + 20 * 2


@pytest.fixture(scope="module")
def options(tiny_checkpoint, tiny_data, tmp_path_factory):
    return RunOptions(
        model=(str(tiny_checkpoint),),
        residual=ResidualChoice(ladder_layers=2),
        tasks=("arc_easy", "piqa"),
        data_dir=tiny_data,
        output_dir=tmp_path_factory.mktemp("first"),
        device="cpu",
        no_speed=True,
    )


@pytest.fixture(scope="module")
def finished(options):
    return run(options, Quiet())


def test_only_the_candidate_is_scored(finished, options, tmp_path):
    result, folder = finished
    before = (folder / "requests" / "tiny.jsonl").read_bytes()
    again = replace(
        options,
        residual=ResidualChoice(ladder_layers=1),
        baseline_run=folder,
        output_dir=tmp_path / "runs",
    )
    found, other = run(again, Quiet())
    dense, hybrid = found.models
    assert (dense.scored_requests, dense.reused_requests) == (0, REQUESTS)
    assert hybrid.scored_requests == REQUESTS
    assert recorded(other)["tiny"] == []
    assert (folder / "requests" / "tiny.jsonl").read_bytes() == before
    (warning,) = found.warnings
    assert warning.startswith(f"tiny: answers were taken from {folder} (--baseline-run)")
    own = [score for score in found.scores if score.model == "tiny"]
    assert own == [score for score in result.scores if score.model == "tiny"]
    theirs, ours = read_samples(folder), read_samples(other)
    answers = [each.loc[each["model"] == "tiny", "answers"].tolist() for each in (theirs, ours)]
    assert answers[0] == answers[1]


def test_documents_that_it_lacks_are_scored(finished, options, tmp_path):
    few = replace(options, limit=10, output_dir=tmp_path / "few")
    _, folder = run(few, Quiet())
    whole = replace(options, baseline_run=folder, output_dir=tmp_path / "whole")
    dense, _ = run(whole, Quiet())[0].models
    assert dense.reused_requests == 10 * 4 + 10 * 2
    assert dense.scored_requests == REQUESTS - dense.reused_requests
    assert run(whole, Quiet())[0].scores == finished[0].scores


def test_other_weights_and_dtypes_are_refused(finished, options, tmp_path):
    _, folder = finished
    elsewhere = replace(options, baseline_run=folder, output_dir=tmp_path / "runs")
    other = write_checkpoint(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match="no answers of this baseline's weights in float32"):
        run(replace(elsewhere, model=(str(other),)), Quiet())
    with pytest.raises(UsageError, match="no answers of this baseline's weights in bfloat16"):
        run(replace(elsewhere, dtype="bfloat16"), Quiet())


def test_a_folder_that_is_no_run_is_refused(options, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="isn't a finished run"):
        run(replace(options, baseline_run=tmp_path / "empty", output_dir=tmp_path), Quiet())


def test_options_that_make_no_sense_are_refused(tiny_checkpoint, tiny_data, tmp_path):
    with pytest.raises(UsageError, match="--baseline-run and --no-baseline exclude"):
        run_options({"baseline_run": tmp_path, "no_baseline": True}, None)
    with pytest.raises(UsageError, match="correct --baseline-run"):
        run_options({"baseline_run": tmp_path / "missing"}, None)
    copy = copy_of(tiny_checkpoint, tmp_path / "alone")
    alone = RunOptions(model=(str(copy),), tasks=("piqa",), device="cpu", baseline_run=tmp_path)
    with pytest.raises(UsageError, match="this run scores none"):
        run(
            replace(alone, data_dir=tiny_data, output_dir=tmp_path / "runs", no_speed=True), Quiet()
        )
