"""What replicas find reaches rank 0 while they go on, and so does what they can't do."""

import math
import pickle
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from ladder_eval.distributed.mailbox import Mailbox
from ladder_eval.distributed.replicas import collected, post
from ladder_eval.distributed.team import Team
from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.engine.ranks import MET_BY_ALL, BatchTooLargeError
from ladder_eval.engine.scoring import NotFiniteError
from ladder_eval.errors import ScoringError, WorkerError

SECRET = "of this run"


@pytest.fixture
def store():
    return dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)


@pytest.fixture
def teams(store):
    """Rank 0 of three replicas of two ranks each, and the first ranks of the other two."""

    def team(rank):
        return Team(
            tp=TensorParallel(0, 2, None),
            device=None,
            backend="gloo",
            replica=rank // 2,
            replicas=3,
            _mailbox=Mailbox(store.clone(), rank, SECRET),
        )

    return [team(rank) for rank in (0, 2, 4)]


def test_messages_arrive_once_and_in_order(store):
    sender, reader = (Mailbox(store.clone(), rank, SECRET) for rank in (1, 0))
    assert reader.new(1) == []
    sender.post({"first": bytes(range(256))})
    sender.post([2.5])
    assert reader.new(1) == [{"first": bytes(range(256))}, [2.5]]
    sender.post("third")
    assert reader.new(2) == []
    assert reader.new(1) == ["third"]
    assert reader.new(1) == []


def test_a_message_under_another_secret_is_never_opened(store):
    Mailbox(store.clone(), 1, "a stranger's").post(print)
    with pytest.raises(WorkerError, match="without this run's secret"):
        Mailbox(store.clone(), 0, SECRET).new(1)


def test_rank_0_has_what_others_found_before_its_own_next_piece(teams):
    first, second, third = teams
    order = []

    def own():
        for piece in ("a", "b"):
            order.append(f"computes {piece}")
            yield piece
            if piece == "a":
                post(third, ["x"], MET_BY_ALL)

    post(second, ["s", "t"], MET_BY_ALL)
    for found in collected(first, own(), MET_BY_ALL):
        order.append(found)
    assert order == ["computes a", "a", "s", "t", "computes b", "b", "x"]


ERRORS = [ScoringError("too long"), NotFiniteError(7, math.inf), BatchTooLargeError(3)]


@pytest.mark.parametrize("error", ERRORS, ids=str)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_one_replica_cannot_do_is_raised_when_all_have_ended(teams, error, place):
    """Else its ranks would wait for the next operation, and the others for its answers."""

    def own(piece):
        yield piece
        if piece == place:
            raise error

    for piece in (1, 2):
        post(teams[piece], own(piece), MET_BY_ALL)
    found = []
    with pytest.raises(type(error), match=str(error)) as caught:
        found.extend(collected(teams[0], own(0), MET_BY_ALL))
    assert found == [0, 1, 2]
    assert vars(caught.value) == vars(error)


def test_of_several_the_first_replicas_error_is_raised(teams):
    for piece in (2, 1):
        post(teams[piece], _fails(BatchTooLargeError(piece)), MET_BY_ALL)
    with pytest.raises(BatchTooLargeError, match="batch 1 "):
        list(collected(teams[0], [], MET_BY_ALL))


def test_another_error_ends_the_rank(teams):
    with pytest.raises(ZeroDivisionError):
        post(teams[1], _fails(ZeroDivisionError()), MET_BY_ALL)


def test_rank_0_does_not_wait_for_a_dead_rank(store):
    watch = SimpleNamespace(failure=lambda: "rank 1: ArithmeticError: too much")
    team = Team(
        tp=TensorParallel(0, 1, None),
        device=None,
        backend="gloo",
        replicas=2,
        _watch=watch,
        _mailbox=Mailbox(store.clone(), 0, SECRET),
    )
    with pytest.raises(WorkerError, match="rank 1: ArithmeticError: too much"):
        list(collected(team, [], MET_BY_ALL))


def test_errors_survive_their_way():
    for error in ERRORS:
        sent = pickle.loads(pickle.dumps(error))
        assert (type(sent), vars(sent), str(sent)) == (type(error), vars(error), str(error))


def _fails(error):
    raise error
    yield
