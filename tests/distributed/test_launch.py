"""A process's place by torchrun's variables, and groups that can't come together."""

import pytest
import torch

from ladder_eval.distributed.launch import Place, join, place_from_environment
from ladder_eval.distributed.team import alone
from ladder_eval.errors import UsageError

NUMBERS = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
TORCHRUN = NUMBERS | {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}


def test_without_torchrun_there_is_no_place():
    assert place_from_environment({"PATH": "/bin", "LOCAL_RANK": "0"}) is None


def test_a_place_on_the_second_of_two_nodes():
    place = place_from_environment(TORCHRUN)
    assert place == Place(rank=5, world_size=8, local_rank=1, local_world_size=4)


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_half_of_the_variables_is_a_sentence(missing):
    rest = {name: value for name, value in TORCHRUN.items() if name != missing}
    with pytest.raises(UsageError, match=rf"RANK is set, but .*{missing}.* or unset RANK\."):
        place_from_environment(rest)


@pytest.mark.parametrize("name", [*NUMBERS, "MASTER_PORT"])
def test_a_variable_that_is_no_number_is_a_sentence(name):
    with pytest.raises(UsageError, match=r"RANK is set, but .*'two'.* or unset RANK\."):
        place_from_environment(TORCHRUN | {name: "two"})


@pytest.mark.parametrize("variables", [{}, TORCHRUN | {"RANK": "0"}], ids=["none", "rank 0"])
def test_a_worker_started_by_hand_is_a_sentence(monkeypatch, variables):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with (
        pytest.raises(UsageError, match="started by `ladder-eval run --tp` or torchrun"),
        join(torch.device("cpu")),
    ):
        pass


def test_a_team_of_one_sends_nothing():
    with alone(torch.device("cpu")) as team:
        team.send("nobody hears it")
        assert team.gather(7) == [7]
        assert (team.tp.rank, team.tp.size, team.backend) == (0, 1, "none")
        assert team.failure() is None
