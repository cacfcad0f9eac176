"""Whole runs on several ranks: started by the command itself, by torchrun, and by hand."""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from running import (
    TORCHRUN,
    Quiet,
    command,
    copy_of,
    files,
    finish,
    free_port,
    logprobs,
    recorded,
    start,
)
from typer.testing import CliRunner

import ladder_eval
import ladder_eval.accuracy
import ladder_eval.asked
from ladder_eval.__main__ import app
from ladder_eval.engine import ranks
from ladder_eval.errors import UsageError
from ladder_eval.harness import arm
from ladder_eval.harness.arm import Arm
from ladder_eval.models import checkpoint, stored, weight_sources
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.named import AS_TRAINED
from ladder_eval.models.selection import SelectedModel
from ladder_eval.options import RunOptions
from ladder_eval.results.records import from_json
from ladder_eval.results.store import read_samples
from ladder_eval.run import run

PLACE = {"RANK": 0, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
LAST_TWO = ResidualChoice(ladder_layers=2)
UNADAPTED = "unadapted: dense weights, norms copied to each rank"


def never(*_, **__):
    raise AssertionError("it was read or computed for nothing")


@pytest.fixture(scope="module", autouse=True)
def not_under_torchrun():
    with pytest.MonkeyPatch.context() as patch:
        for name in (*TORCHRUN, "GLOO_SOCKET_IFNAME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def ask(tiny_checkpoint, tiny_data, tmp_path_factory):
    """Options of a run of the tiny model and its hybrid on three documents."""
    return RunOptions(
        model=(str(tiny_checkpoint),),
        residual=LAST_TWO,
        tasks=("piqa",),
        limit=3,
        data_dir=tiny_data,
        output_dir=tmp_path_factory.mktemp("runs"),
        device="cpu",
        no_speed=True,
    )


@pytest.fixture(scope="module")
def alone(ask):
    return run(ask, Quiet())


@pytest.fixture(scope="module")
def together(alone, ask, tmp_path_factory):
    """The same with two ranks, in another folder."""
    return run(replace(ask, tp=2, output_dir=tmp_path_factory.mktemp("together")), Quiet())


def test_two_ranks_give_the_answers_and_files_of_one(alone, together):
    (one, here), (two, there) = alone, together
    assert two.scores == one.scores
    assert two.comparisons == one.comparisons
    assert two.tasks == one.tasks  # and so the same documents and prompts
    assert files(there) == files(here)
    assert recorded(there).keys() == recorded(here).keys()
    assert logprobs(there) == pytest.approx(logprobs(here), abs=1e-4)
    columns = ["prompt_hash", "doc_hash", "value"]
    assert read_samples(there)[columns].equals(read_samples(here)[columns])


def test_what_each_rank_held_is_told(alone, together):
    (one, _), (two, folder) = alone, together
    for single, model in zip(one.models, two.models, strict=True):
        assert (single.tp_size, single.tp_backend, single.tp_check) == (1, "none", None)
        assert (single.heads_per_rank, single.kv_heads_per_rank) == ((4,), (2,))
        assert (model.tp_size, model.tp_backend) == (2, "gloo")
        assert (model.heads_per_rank, model.kv_heads_per_rank) == ((2, 2), (1, 1))
        assert model.fingerprint == single.fingerprint
        (whole,) = single.weight_bytes_per_rank
        assert whole == 4 * model.parameters
        assert whole < sum(model.weight_bytes_per_rank) < 1.05 * whole
        assert 0 <= model.tp_check < 1e-4
    assert len(one.provenance.peak_memory_bytes) == 1
    assert len(two.provenance.peak_memory_bytes) == 2
    assert "heads 2:2" in (folder / "report.md").read_text()


def test_the_check_tells_a_wrong_answer(ask, tmp_path, monkeypatch):
    """Rank 0 loads the whole model with another norm: the check has something to find."""
    whole = ladder_eval.accuracy.load_model

    def altered(*arguments, **options):
        model = whole(*arguments, **options)
        model.norm.weight.mul_(1.01)
        return model

    monkeypatch.setattr(ladder_eval.accuracy, "load_model", altered)
    result, _ = run(replace(ask, tp=2, output_dir=tmp_path, no_baseline=True), Quiet())
    assert result.models[0].tp_check > 1e-3


def test_two_ranks_go_on_where_they_stopped(ask, tmp_path):
    options = replace(ask, output_dir=tmp_path, tp=2)
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet(stop_after=1))  # when the dense model is done
    (folder,) = tmp_path.iterdir()
    before = recorded(folder)
    result, where = run(options, Quiet())
    assert where == folder
    dense, candidate = result.models
    assert (dense.scored_requests, dense.reused_requests) == (0, 6)
    assert (candidate.scored_requests, candidate.reused_requests) == (6, 0)
    assert dense.weight_bytes_per_rank == ()
    assert len(candidate.weight_bytes_per_rank) == 2
    assert recorded(folder)["tiny"] == before["tiny"]
    assert candidate.tp_check < 1e-4
    assert dense.tp_check is None  # nothing was computed that could be held against one rank


def test_a_folder_holds_the_answers_of_one_tp_size(alone, together, ask):
    """The keys of the answers are the same, but a result must not claim what it didn't compute."""
    assert alone[1].name != together[1].name
    assert {name: set(log) for name, log in recorded(alone[1]).items()} == {
        name: set(log) for name, log in recorded(together[1]).items()
    }


def test_a_check_that_does_not_fit_costs_nothing_but_a_warning(ask, tmp_path, monkeypatch):
    def too_large(*_, **__):
        raise RuntimeError("can't allocate memory\nfor the whole model")

    monkeypatch.setattr(ladder_eval.accuracy, "load_model", too_large)
    result, folder = run(replace(ask, tp=2, output_dir=tmp_path, no_baseline=True), Quiet())
    assert result.models[0].tp_check is None
    assert result.warnings == (
        "tiny-ladder-last2: the check at tp_size 1 could not be made (can't allocate memory).",
    )
    assert (folder / "results.json").exists()


def test_answers_of_desync_are_never_taken_at_another_tp_size(ask, tmp_path):
    desync = ResidualChoice(residual="desync-2x")
    options = replace(ask, output_dir=tmp_path, residual=desync, no_baseline=True)
    (_, one), (result, two) = run(options, Quiet()), run(replace(options, tp=2), Quiet())
    name = "tiny-desync-2x"
    assert not set(recorded(one)[name]) & set(recorded(two)[name])
    assert logprobs(one) != pytest.approx(logprobs(two), abs=0.1)
    (model,) = result.models
    assert (model.name, model.residual, model.adaptation) == (name, "desync-2x", UNADAPTED)
    assert (model.scored_requests, model.reused_requests) == (6, 0)
    assert model.tp_check is None  # another tp_size is another function


def arm_of(model, tp_size):
    hashes = {"weights_sha256": "w", "tokenizer_sha256": "t"}
    return Arm(model=model, folder=model.folder, tokenizer=None, eos=(), tp_size=tp_size, **hashes)


@pytest.mark.parametrize(
    ("changes", "depends"),
    [
        ({}, False),
        ({"ladder_layers": (0, 1, 2, 3)}, False),
        ({"ladder_layers": (3,)}, False),
        ({"topology": "parallel"}, False),
        ({"topology": "desync-2x"}, True),
        ({"topology": "desync-4x"}, True),
    ],
    ids=str,
)
def test_fingerprints_of_desync_alone_depend_on_tp_size(tiny_checkpoint, changes, depends):
    config = replace(checkpoint.read_config(tiny_checkpoint), **changes)
    model = SelectedModel(
        name="tiny",
        folder=tiny_checkpoint,
        config=config,
        weights="",
        adaptation=AS_TRAINED,
        baseline=None,
    )
    arms = [arm_of(model, tp_size=size) for size in (1, 2, 4)]
    assert len({arm.fingerprint for arm in arms}) == (3 if depends else 1)


def test_every_residual_has_a_fingerprint_of_its_own(tiny_checkpoint):
    config = checkpoint.read_config(tiny_checkpoint)
    kinds = [replace(config, topology=t) for t in ("standard", "parallel", "desync-2x")]
    kinds += [replace(config, topology="desync-4x"), config.with_ladder(4), config.with_ladder(2)]
    models = [
        SelectedModel(
            name="", folder=tiny_checkpoint, config=c, weights="", adaptation="", baseline=None
        )
        for c in kinds
    ]
    arms = [arm_of(model, tp_size=1) for model in models]
    assert len({arm.fingerprint for arm in arms}) == len(kinds)


@pytest.mark.parametrize(
    ("residual", "adaptation"),
    [("parallel", "converted without retraining"), ("desync-4x", UNADAPTED)],
)
def test_other_residuals_run_beside_the_dense_model(ask, tmp_path, residual, adaptation):
    options = replace(ask, residual=ResidualChoice(residual=residual), output_dir=tmp_path)
    result, folder = run(options, Quiet())
    dense, candidate = result.models
    assert (dense.name, dense.residual) == ("tiny", "standard")
    assert (candidate.name, candidate.residual) == (f"tiny-{residual}", residual)
    assert candidate.adaptation == adaptation
    assert candidate.ladder_layers == ()
    assert adaptation in (folder / "report.md").read_text()


def test_no_comm_is_never_scored(ask, tmp_path):
    options = replace(ask, residual=ResidualChoice(residual="no-comm"), output_dir=tmp_path)
    with pytest.raises(UsageError, match=r"^no-comm is a bound on speed; its outputs mean nothing"):
        run(options, Quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "tp", "sentence"),
    [
        (
            "smollm2_135m",
            "12",
            "tp_size=12 exceeds num_attention_heads=9; this model works with 1, 2, 3, 4, 6, 8.",
        ),
        (
            "hybrid_ladder_smollm2_135m_10l",
            "7",
            "tp_size=7 does not divide intermediate_size=1536; "
            "this model works with 1, 2, 3, 4, 6, 8.",
        ),
        (
            None,
            "3",
            "tp_size=3 does not divide intermediate_size=128; this model works with 1, 2, 4.",
        ),
    ],
)
def test_a_tp_size_that_cannot_work_is_refused_before_anything_is_read(
    ask, tmp_path, monkeypatch, model, tp, sentence
):
    monkeypatch.setattr(weight_sources, "fetch_wheel", never)
    monkeypatch.setattr(stored, "safe_open", never)
    monkeypatch.setattr(arm, "weights_sha256", never)
    monkeypatch.setattr(ladder_eval.asked, "prepare", never)
    monkeypatch.setattr(ranks, "load_model", never)
    arguments = ["run", "--model", model or ask.model[0], "--tp", tp, "--output-dir", tmp_path]
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"ladder-eval: {sentence}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tp", "sentence"), [("0", "--tp 0 must be 1 or more."), ("-2", "--tp -2")]
)
def test_a_tp_size_below_one_is_refused(ask, tmp_path, tp, sentence):
    done = CliRunner().invoke(app, command(ask, tmp_path, tp=tp))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"ladder-eval: {sentence}")


def test_tp_that_contradicts_torchrun_is_refused(ask, tmp_path, monkeypatch):
    for name, value in (PLACE | {"WORLD_SIZE": 2}).items():
        monkeypatch.setenv(name, str(value))
    done = CliRunner().invoke(app, command(ask, tmp_path, tp=3))
    assert done.exit_code == 2
    assert done.stderr == "ladder-eval: torchrun started 2 processes, not --tp 3.\n"


def test_torchrun_with_one_process_is_tp_size_1(ask, alone, tmp_path, monkeypatch):
    for name, value in (PLACE | {"WORLD_SIZE": 1}).items():
        monkeypatch.setenv(name, str(value))
    result, _ = run(replace(ask, output_dir=tmp_path), Quiet())
    assert [model.tp_size for model in result.models] == [1, 1]
    assert result.scores == alone[0].scores


def test_torchrun_gives_the_same_result_once(ask, alone, tmp_path):
    torchrun = ("torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()))
    arguments = [*torchrun, "-m", "ladder_eval", *command(ask, tmp_path / "runs"), "--json"]
    process = start(arguments, tmp_path)
    out, err = finish(process)
    assert process.returncode == 0, err
    result = from_json(out)  # rank 1 prints nothing
    assert (result.scores, result.comparisons) == (alone[0].scores, alone[0].comparisons)
    assert [model.tp_size for model in result.models] == [2, 2]
    (folder,) = (tmp_path / "runs").iterdir()
    assert set(files(folder)) - {"rounds.jsonl"} == set(files(alone[1]))
    assert "Traceback" not in err


def test_of_two_nodes_only_rank_0_writes(ask, alone, tmp_path):
    """Both are the first process of their node: LOCAL_RANK is 0 twice."""
    shared = {"WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": free_port(), "GLOO_SOCKET_IFNAME": "lo"}
    places = [tmp_path / "node0", tmp_path / "node1"]
    nodes = []
    for rank, place in enumerate(places):
        place.mkdir()
        arguments = ["ladder_eval", *command(ask, place / "runs"), "--json"]
        nodes.append(start(arguments, place, RANK=rank, **shared))
    outputs = [finish(node) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert from_json(outputs[0][0]).scores == alone[0].scores
    assert outputs[1][0] == ""
    assert [path.name for path in places[0].iterdir()] == ["runs"]
    assert list(places[1].iterdir()) == []


def children(pid):
    """Ids of a process's children, by Linux."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == pid:
            found.append(int(stat.parent.name))
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("victim", "sent", "code", "sentence"),
    [
        ("driver", signal.SIGINT, 130, "Interrupted; what was finished is kept, and `run` "),
        ("driver", signal.SIGTERM, -signal.SIGTERM, "Scoring tiny "),
        ("worker", signal.SIGKILL, 1, "ladder-eval: rank 1 was killed by signal 9"),
    ],
)
def test_an_ended_run_leaves_no_process_and_keeps_its_answers(
    ask, tmp_path, victim, sent, code, sentence
):
    slow = copy_of(Path(ask.model[0]), tmp_path / "tiny")
    options = {"tp": 2, "limit": 20, "batch_size": 1, "model": slow}
    process = start(["ladder_eval", *command(ask, tmp_path / "runs", **options)], tmp_path)
    log = Path("nowhere")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.stat().st_size):
        log = next(iter((tmp_path / "runs").glob("*/requests/*.jsonl")), log)
        time.sleep(0.005)
    workers = children(process.pid)
    assert len(workers) == 1
    os.kill(process.pid if victim == "driver" else workers[0], sent)
    _, err = finish(process, seconds=15)
    assert process.returncode == code, err
    assert err.splitlines()[-1].startswith(sentence)
    assert "Traceback" not in err
    time.sleep(0.1)
    assert not is_alive(workers[0])

    whole = replace(ask, model=(str(slow),), limit=20, output_dir=tmp_path / "runs", tp=2)
    result, folder = run(whole, Quiet())
    assert folder == log.parents[1]
    assert result.models[0].reused_requests > 0
