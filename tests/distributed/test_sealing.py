"""Messages under a run's secret: opened by those who know it, and by nobody else unpickled."""

import hashlib
import hmac
import pickle

import pytest

from ladder_eval.distributed.sealing import new_secret, seal, secret_from_environment, unseal
from ladder_eval.errors import WorkerError

opened = []


class Spy:
    """What a stranger sends: being unpickled is enough for it to act."""

    def __reduce__(self):
        return opened.append, ("acted",)


def test_a_message_comes_back_with_the_secret_alone():
    message = {"op": "score", "ids": (1, 2), "none": None}
    sealed = seal(message, "secret")
    assert unseal(sealed, "secret") == message
    content = pickle.dumps(message)
    assert sealed == hmac.new(b"secret", content, hashlib.sha256).digest() + content


@pytest.mark.parametrize("secret", ["", "other", "secret "])
def test_a_message_under_another_secret_is_not_unpickled(secret):
    with pytest.raises(WorkerError, match="without this run's secret"):
        unseal(seal(Spy(), secret), "secret")
    assert not opened


@pytest.mark.parametrize("place", [0, 31, 32, -1])
def test_a_changed_message_is_not_unpickled(place):
    sealed = bytearray(seal(Spy(), "secret"))
    sealed[place] ^= 1
    with pytest.raises(WorkerError, match="without this run's secret"):
        unseal(bytes(sealed), "secret")
    assert not opened


@pytest.mark.parametrize("size", [0, 31, 32])
def test_what_is_too_short_is_refused(size):
    with pytest.raises(WorkerError, match="without this run's secret"):
        unseal(seal("message", "secret")[:size], "secret")


def test_each_run_has_a_secret_of_its_own():
    assert len({new_secret() for _ in range(100)}) == 100
    assert len(bytes.fromhex(new_secret())) == 32
    assert secret_from_environment({"LADDER_EVAL_SECRET": "told"}) == "told"
    assert secret_from_environment({}) == ""
