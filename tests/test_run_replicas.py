"""Whole runs whose requests replicas share: started by the command itself, and as by torchrun."""

from dataclasses import replace

import pytest
from running import (
    TORCHRUN,
    Quiet,
    command,
    files,
    finish,
    free_port,
    logprobs,
    recorded,
    start,
)
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.options import RunOptions
from ladder_eval.results.records import from_json
from ladder_eval.results.store import read_samples
from ladder_eval.run import run


@pytest.fixture(scope="module", autouse=True)
def not_under_torchrun():
    with pytest.MonkeyPatch.context() as patch:
        for name in (*TORCHRUN, "GLOO_SOCKET_IFNAME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def ask(tiny_checkpoint, tiny_data, tmp_path_factory):
    """Options of a run of the tiny model and its hybrid on three documents, in three batches."""
    return RunOptions(
        model=(str(tiny_checkpoint),),
        residual=ResidualChoice(ladder_layers=2),
        tasks=("piqa",),
        limit=3,
        batch_size=1,
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
    """The same with two replicas, in another place."""
    return run(replace(ask, dp=2, output_dir=tmp_path_factory.mktemp("together")), Quiet())


def test_two_replicas_give_the_answers_and_files_of_one_process(alone, together):
    (one, here), (two, there) = alone, together
    assert two.scores == one.scores
    assert two.comparisons == one.comparisons
    assert two.tasks == one.tasks  # and so the same documents and prompts
    assert files(there) == files(here)
    assert logprobs(there) == pytest.approx(logprobs(here), abs=1e-5)
    columns = ["prompt_hash", "doc_hash", "value"]
    assert read_samples(there)[columns].equals(read_samples(here)[columns])


def test_neither_the_folder_nor_a_request_depends_on_replicas(alone, together):
    """What one has answered, the other goes on from."""
    assert alone[1].name == together[1].name
    one, two = recorded(alone[1]), recorded(together[1])
    assert {name: sorted(keys) for name, keys in two.items()} == {
        name: sorted(keys) for name, keys in one.items()
    }


def test_what_replicas_held_is_told(together):
    result, folder = together
    for model in result.models:
        assert (model.dp_size, model.tp_size, model.tp_backend) == (2, 1, "gloo")
        assert model.weight_bytes_per_rank == (4 * model.parameters,) * 2
        assert model.tp_check is None  # each is the whole model already
        assert (model.scored_requests, model.reused_requests) == (6, 0)
    assert len(result.provenance.peak_memory_bytes) == 2
    conditions = "on cpu, dp_size 2, tp_size 1, batch_size 1 (up to 512 tokens a batch);"
    assert conditions in (folder / "report.md").read_text()


def test_of_two_nodes_only_rank_0_writes(ask, alone, tmp_path):
    """Two replicas, each the first process of its node."""
    shared = {"WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": free_port(), "GLOO_SOCKET_IFNAME": "lo"}
    places = [tmp_path / "node0", tmp_path / "node1"]
    nodes = []
    for rank, place in enumerate(places):
        place.mkdir()
        options = {"dp": 2, "batch_size": 1}
        arguments = ["ladder_eval", *command(ask, place / "runs", **options), "--json"]
        nodes.append(start(arguments, place, RANK=rank, **shared))
    outputs = [finish(node) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    result = from_json(outputs[0][0])
    assert result.scores == alone[0].scores
    assert {(model.dp_size, model.tp_size) for model in result.models} == {(2, 1)}
    assert outputs[1][0] == ""
    assert [path.name for path in places[0].iterdir()] == ["runs"]
    assert list(places[1].iterdir()) == []
    assert "Not timed: torchrun started several replicas" in outputs[0][1]


@pytest.mark.parametrize(
    ("world_size", "options", "sentence"),
    [
        (3, {"dp": 2}, "torchrun started 3 processes, not a multiple of --dp 2."),
        (2, {"dp": 4}, "torchrun started 2 processes, not a multiple of --dp 4."),
        (4, {"dp": 2, "tp": 4}, "torchrun started 4 processes, not --tp 4 for each of --dp 2."),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_another_number_of_processes_is_refused(
    ask, tmp_path, monkeypatch, rank, world_size, options, sentence
):
    place = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
    for name, value in (place | {"WORLD_SIZE": world_size}).items():
        monkeypatch.setenv(name, str(value))
    done = CliRunner().invoke(app, command(ask, tmp_path / "runs", **options))
    assert (done.exit_code, done.stderr) == (2, f"ladder-eval: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_number_of_replicas_below_one_is_refused(ask, tmp_path):
    done = CliRunner().invoke(app, command(ask, tmp_path, dp=0))
    assert (done.exit_code, done.stderr) == (2, "ladder-eval: --dp 0 must be 1 or more.\n")
