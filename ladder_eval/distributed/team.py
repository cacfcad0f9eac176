"""The processes that compute together, and what they say to each other.

Rank 0 is the driver: it alone knows about text, tasks and files. It sends the others operations
over a control group on the CPU, on which they may wait as long as it takes.
"""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ladder_eval.distributed import sealing
from ladder_eval.distributed.children import ended, killed
from ladder_eval.distributed.mailbox import Mailbox
from ladder_eval.distributed.tensor_parallel import ALONE, TensorParallel
from ladder_eval.distributed.watch import GRACE_SECONDS, Watch
from ladder_eval.errors import WorkerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """The processes that compute together, seen from one of them.

    They are one tensor-parallel group, or several of the same size: its *replicas*, of which each
    holds the whole model. Ranks r·tp_size and following are replica r.

    Attributes:
        tp: This rank's place in its tensor-parallel group.
        device: This rank's device.
        backend: What carries the collectives: none, gloo or nccl.
        replica: Which of the groups this rank is in, from 0.
        replicas: How many groups there are: dp_size.
    """

    tp: TensorParallel
    device: torch.device
    backend: str
    replica: int = 0
    replicas: int = 1
    _control: dist.ProcessGroup | None = None
    _watch: Watch | None = None
    _mailbox: Mailbox | None = None
    _children: Sequence[subprocess.Popen[bytes]] = ()
    _secret: str = ""

    @property
    def rank(self) -> int:
        """This rank's place among those of all replicas."""
        return self.replica * self.tp.size + self.tp.rank

    def send(self, message: object) -> None:
        """Rank 0: give all others a message."""
        if self._control is not None:
            sealing.broadcast(message, self._secret, self._control)

    def receive(self) -> Any:
        """Other ranks: wait for rank 0's next message.

        Raises:
            WorkerError: if rank 0 has ended without a last message, or another sent it.
        """
        if self._control is None:
            raise WorkerError("there is no rank 0")
        try:
            return sealing.receive(self._secret, self._control)
        except RuntimeError as error:
            raise WorkerError("rank 0 has ended") from error

    def gather(self, value: object) -> list[Any]:
        """All ranks of all replicas: every rank's value, on every rank."""
        if self._control is None:
            return [value]
        return sealing.gather(value, self._secret, self._control)

    def post(self, message: object) -> None:
        """Leave a message for rank 0, which reads it when it likes."""
        if self._mailbox is not None:
            self._mailbox.post(message)

    def posted(self, rank: int) -> list[Any]:
        """Rank 0: what another rank has posted since this was last asked.

        Raises:
            WorkerError: if that is nothing, and a rank has died, so that nothing may ever come.
        """
        found = [] if self._mailbox is None else self._mailbox.new(rank)
        if not found and (message := self._cause() or ended(self._children)):
            raise WorkerError(message)
        return found

    def fail(self, error: BaseException) -> None:
        """Tell all ranks why this one can't go on."""
        if self._watch is not None:
            self._watch.fail(f"{type(error).__name__}: {error}")

    def failure(self) -> str | None:
        """What another rank has died of, if one has; waits a moment for its message."""
        # Less than the grace that the watch gives before it ends the process without this answer.
        deadline = time.monotonic() + GRACE_SECONDS / 2
        while self._watch is not None and time.monotonic() < deadline:
            if message := self._cause():
                return message
            time.sleep(0.05)
        return ended(self._children)

    def _cause(self) -> str | None:
        """What a rank is known to have died of."""
        return killed(self._children) or (self._watch.failure() if self._watch else None)


@contextmanager
def alone(device: torch.device) -> Iterator[Team]:
    """A team of one, which sends nothing."""
    yield Team(tp=ALONE, device=device, backend="none")
