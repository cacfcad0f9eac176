"""Messages among ranks under a secret of the run: what a stranger sends is never unpickled.

The store and Gloo take whoever connects, and on a shared machine other users can connect to
loopback, too. So each message carries an HMAC of its content under a secret that the driver gives
its workers through their environment, which nobody else may read. It is checked first.
"""

import hashlib
import hmac
import pickle
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ladder_eval.errors import WorkerError

SECRET = "LADDER_EVAL_SECRET"
"""The variable that has the secret: the driver's own, or under torchrun the user's."""

_MOST_BYTES = 2**31
_DIGEST_BYTES = hashlib.sha256().digest_size


def new_secret() -> str:
    """A secret for one run."""
    return token_hex(32)


def secret_from_environment(environment: Mapping[str, str]) -> str:
    """The secret that whoever started this process gave it; empty, and none at all, without."""
    return environment.get(SECRET, "")


def seal(message: object, secret: str) -> bytes:
    """A message as bytes that `unseal` opens."""
    content = pickle.dumps(message)
    return _digest(content, secret) + content


def unseal(sealed: bytes, secret: str) -> Any:
    """The message in sealed bytes.

    Raises:
        WorkerError: if they were sealed with another secret, or changed since.
    """
    digest, content = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:]
    if not hmac.compare_digest(digest, _digest(content, secret)):
        raise WorkerError(
            "a process without this run's secret has taken a rank's place; if it is your own, set "
            f"{SECRET} to the same text for all ranks."
        )
    return pickle.loads(content)


def broadcast(message: object, secret: str, group: dist.ProcessGroup) -> None:
    """Rank 0: give all others a message."""
    sealed = _as_tensor(seal(message, secret))
    dist.broadcast(torch.tensor([len(sealed)]), src=0, group=group)
    dist.broadcast(sealed, src=0, group=group)


def receive(secret: str, group: dist.ProcessGroup) -> Any:
    """Other ranks: rank 0's next message.

    Raises:
        WorkerError: as `unseal`.
    """
    size = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(size, src=0, group=group)
    sealed = torch.empty(_bounded(size), dtype=torch.uint8)
    dist.broadcast(sealed, src=0, group=group)
    return unseal(sealed.numpy().tobytes(), secret)


def gather(value: object, secret: str, group: dist.ProcessGroup) -> list[Any]:
    """All ranks: every rank's value, on every rank.

    Raises:
        WorkerError: as `unseal`.
    """
    sealed = _as_tensor(seal(value, secret))
    lengths = _all(torch.tensor([len(sealed)]), group)
    longest = max(map(_bounded, lengths))
    parts = _all(torch.nn.functional.pad(sealed, (0, longest - len(sealed))), group)
    return [
        unseal(part[: int(length)].numpy().tobytes(), secret)
        for part, length in zip(parts, lengths, strict=True)
    ]


def _digest(content: bytes, secret: str) -> bytes:
    return hmac.digest(secret.encode(), content, "sha256")


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _all(own: Tensor, group: dist.ProcessGroup) -> list[Tensor]:
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return parts


def _bounded(size: Tensor) -> int:
    if not _DIGEST_BYTES <= (length := int(size)) <= _MOST_BYTES:
        raise WorkerError(f"a rank announced a message of {length} bytes, which none has.")
    return length
