"""Runs that go on in their folder, with the options that they were started with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from running import Quiet, copy_of, recorded
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.engine import budget, driver, ranks
from ladder_eval.errors import RecordError, UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.hub_id import HubId
from ladder_eval.options import RunOptions
from ladder_eval.results.lines import read_lines, seal
from ladder_eval.results.requests import read_answers
from ladder_eval.results.store import RunFolder, read_batches, read_result
from ladder_eval.resuming import RunName, read_starts, resumed, started
from ladder_eval.run import run

NAME = RunName(run_id="piqa-tiny-1234", asked_sha256="a" * 64)
REQUESTS = 40


@pytest.fixture
def options(tiny_checkpoint, tiny_data, tmp_path):
    return RunOptions(
        model=(str(tiny_checkpoint),),
        residual=ResidualChoice(ladder_layers=2),
        tasks=("piqa",),
        data_dir=tiny_data,
        output_dir=tmp_path / "runs",
        device="cpu",
        no_speed=True,
    )


def invoke(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


def start(options):
    with started(options, NAME, 1) as run:
        return run.folder.path


def broken_off(options, stop_after=2):
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet(stop_after=stop_after))
    (folder,) = options.output_dir.iterdir()
    return folder


def test_every_option_comes_back(options, tmp_path, tiny_checkpoint):
    shutil.copytree(tiny_checkpoint, tmp_path / "dense")
    asked = replace(
        options,
        residual=ResidualChoice(residual="ladder", ladder_layers=(1, 3)),
        baseline=str(tmp_path / "dense"),
        checkpoint=HubId("owner/name", "main"),
        limit=7,
        seed=3,
        fewshot="stock",
        apply_chat_template=False,
        fewshot_as_multiturn=True,
        system_instruction="Be brief.",
        think_end_token="</think>",
        batch_size=3,
        dtype="bfloat16",
        tp=2,
        no_tp_check=True,
        prompt_len=5,
        output_len=6,
        prefer_hub=True,
    )
    folder = start(asked)
    default = RunOptions().output_dir
    assert resumed(folder, {}) == replace(asked, resume=folder, output_dir=default)
    asked = replace(asked, tasks=(), suite="smoke", no_baseline=True, baseline=None)
    assert resumed(start(asked), {}) == replace(asked, resume=folder, output_dir=default)


def test_what_a_user_agrees_to_or_pays_for_is_not_taken_from_a_folder(options):
    judge = {"judge_url": "http://judge.example/v1", "judge_model": "judge"}
    folder = start(replace(options, execute_code=True, unsafe_execution=True, **judge))
    found = resumed(folder, {})
    assert (found.execute_code, found.unsafe_execution) == (False, False)
    assert (found.judge_url, found.judge_model) == (None, None)
    found = resumed(folder, {"execute_code": True, **judge})
    assert (found.execute_code, found.judge_url) == (True, "http://judge.example/v1")


def test_paths_mean_the_same_from_anywhere(options, tmp_path, monkeypatch, tiny_checkpoint):
    shutil.copytree(tiny_checkpoint, tmp_path / "own")
    (tmp_path / "ladder_3b").mkdir()  # a name comes before a folder that is called like it
    monkeypatch.chdir(tmp_path)
    folder = start(replace(options, model=("own", "ladder_3b"), data_dir=Path()))
    found = resumed(folder, {})
    assert found.model == (str(tmp_path / "own"), "ladder_3b")
    assert found.data_dir == tmp_path


def test_a_run_goes_on_in_its_folder_wherever_it_is(options, tmp_path):
    undisturbed, _ = run(replace(options, output_dir=tmp_path / "other"), Quiet())
    folder = broken_off(options)
    before = recorded(folder)
    moved = tmp_path / "moved here"
    folder.rename(moved)
    result, where = run(resumed(moved, {}), Quiet())
    assert where == moved
    assert not folder.exists()
    assert (result.run_id, read_result(moved)) == (undisturbed.run_id, result)
    assert (result.scores, result.comparisons) == (undisturbed.scores, undisturbed.comparisons)
    assert result.models[0].reused_requests == len(before["tiny"]) > 0
    assert [start.run_id for start in read_starts(moved)] == [result.run_id] * 2


def test_a_finished_run_goes_on_by_doing_nothing(options, monkeypatch):
    result, folder = run(options, Quiet())
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    assert run(resumed(folder, {}), Quiet()) == (result, folder)


def test_other_batches_and_ranks_are_told_and_never_part_of_a_key(options):
    folder = broken_off(options)
    first = recorded(folder)["tiny"]
    result, _ = run(resumed(folder, {"batch_size": 3, "tp": 2}), Quiet())
    assert recorded(folder)["tiny"][: len(first)] == first
    dense, hybrid = result.models
    assert (dense.reused_requests, hybrid.reused_requests) == (len(first), 0)
    assert (dense.tp_size, dense.batch_size) == (2, 3)
    assert [(each.tp_size, each.batch_size) for each in read_starts(folder)] == [(1, 32), (2, 3)]
    assert result.warnings[0] == (
        "This run was started 2 times, at tp_size 1 and 2 and batch_size 3 and 32; recorded "
        "answers are of any of these."
    )


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({"limit": 5}, "--limit"),
        ({"seed": 0, "dtype": "bfloat16"}, "--seed and --dtype"),
        ({"output_dir": Path("x")}, "--output-dir"),
        ({"config": Path("x")}, "--config"),
    ],
)
def test_what_is_asked_stays_as_it_was(options, given, flags):
    folder = start(options)
    with pytest.raises(UsageError, match=rf"^{flags} can't be given beside --resume"):
        resumed(folder, given)


@pytest.mark.parametrize("option", ["colour", "execute_code", "judge_url", "resume"])
def test_options_that_no_start_can_have_are_refused(options, option):
    folder = start(options)
    (found,) = read_lines(folder / "starts.jsonl").records
    found["options"][option] = True
    (folder / "starts.jsonl").write_bytes(seal(found))
    with pytest.raises(RecordError, match=f"starts.jsonl has the unknown options {option}"):
        resumed(folder, {})


def test_a_model_that_has_changed_does_not_go_on(options, tmp_path):
    model = copy_of(Path(options.model[0]), tmp_path / "tiny")
    folder = broken_off(replace(options, model=(str(model),)))
    before = recorded(folder)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-3}))
    with pytest.raises(UsageError, match="can't go on: its models, data, device or versions"):
        run(resumed(folder, {}), Quiet())
    assert recorded(folder) == before
    assert len(read_starts(folder)) == 1


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path, options):
    for folder in (tmp_path, tmp_path / "missing"):
        found = invoke("run", "--resume", folder)
        assert (found.exit_code, found.stdout) == (2, "")
        assert found.stderr.endswith("or the command that started it.\n")
        assert found.stderr.startswith(f"ladder-eval: {folder} doesn't say how its run was started")


def test_the_command_goes_on(options, capsys):
    folder = broken_off(options)
    kept = len(recorded(folder)["tiny"])
    found = invoke("run", "--resume", folder, "--batch-size", 4, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["models"][0]["reused_requests"] == kept
    assert f"Everything is in {folder}" in found.stderr


def test_two_runs_in_one_folder_at_once_are_one_and_a_sentence(options):
    folder = broken_off(options)
    with RunFolder.open(folder):
        found = invoke("run", "--resume", folder)
        assert found.exit_code == 2
        assert f"another process is writing to {folder}; wait for it" in found.stderr
        with pytest.raises(RecordError, match="another process is writing"):
            run(options, Quiet())
    assert len(read_starts(folder)) == 1


def of_tokens(monkeypatch, tokens):
    """Let a search, of any work, find that a batch is best of so many tokens."""
    monkeypatch.setattr(budget, "_MUCH", 0)
    monkeypatch.setattr(driver, "best_tokens", lambda seconds: tokens)


def computed(folder):
    """What was computed together, and all answers to the last bit, by model and in their order."""
    logs = {log.stem: log for log in (folder / "requests").iterdir()}
    return {
        name: (read_batches(folder, name), [*read_answers(log).items()])
        for name, log in logs.items()
    }


@pytest.mark.parametrize("befalls", ["changed", "gone"])
@pytest.mark.parametrize("command", ["--resume", "the same"])
def test_batches_stay_as_large_as_they_began(options, tmp_path, monkeypatch, befalls, command):
    """Both models', whatever has become of the cache, since `run` began with 200 tokens."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    of_tokens(monkeypatch, 200)
    undisturbed, whole = run(replace(options, output_dir=tmp_path / "whole"), Quiet())
    folder = broken_off(options)
    of_tokens(monkeypatch, 700)
    cache = tmp_path / "cache" / "batch_tokens.json"
    found = dict.fromkeys(json.loads(cache.read_text()), 700)
    cache.write_text(json.dumps(found)) if befalls == "changed" else cache.unlink()
    result, _ = run(resumed(folder, {}) if command == "--resume" else options, Quiet())
    assert computed(folder) == computed(whole)
    assert [model.batch_tokens for model in result.models] == [(200,), (200,)]
    assert [model.reused_requests > 0 for model in result.models] == [True, False]
    assert undisturbed.scores == result.scores
    anew, other = run(replace(options, output_dir=tmp_path / "other"), Quiet())
    assert [model.batch_tokens for model in anew.models] == [(700,), (700,)]
    assert len(read_batches(other, "tiny")) < len(read_batches(folder, "tiny"))


def test_little_work_goes_on_as_it_began(options, monkeypatch):
    folder = broken_off(options)
    monkeypatch.setattr(budget, "LEAST_TOKENS", 256)
    result, _ = run(resumed(folder, {}), Quiet())
    assert [model.batch_tokens for model in result.models] == [(512,), (512,)]
