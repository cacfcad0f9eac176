"""The virtual link: real ranks, real data and real sums in shared memory, over a modelled wire.

Each rank writes its tensor and the time into memory that all ranks share. The sum counts as
arrived when the wire's timetable says so; until then, who waits for it polls. No thread and no
privilege is needed, and a rank computes nothing while its messages are on their way but what the
model gives it to compute. So the computing, the waiting and the skew between ranks are measured,
and the wire alone is a model: speeds over it are labelled *virtual link*.

Messages complete in the order in which they were sent, as on one NCCL stream.
"""

import mmap
import os
import platform
import sys
from collections import deque
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.distributed.wire import Timetable, Wire

# A rank writes into a slot again only when all have read what it held; a ladder has three
# messages between those that the fastest rank sends and those that the slowest has read.
_SLOTS = 4
_LINE = 64  # bytes of a cache line: no two ranks write to the same one
_SENT, _READ, _STAMPS = 0, 1, 2  # 8-byte fields of a rank's line

NAME = "virtual link"


def why_unavailable(tp_size: int, threads: int = 1) -> str | None:
    """Why ranks of so many threads can't be timed over a virtual link on this machine, or None."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        # Elsewhere a rank might see a message's number before its content.
        return "the virtual link needs Linux on x86"
    cores = len(os.sched_getaffinity(0))
    if tp_size * threads > cores:
        each = "a core each" if threads == 1 else f"{threads} cores each (OMP_NUM_THREADS)"
        return f"{tp_size} ranks need {each}, and this process may use {cores}"
    return None


class LinkMemory:
    """Memory that the ranks of one machine share; it is freed when the last of them has gone.

    Args:
        tp_size: Number of ranks.
        capacity: Bytes of the largest message.
    """

    def __init__(self, tp_size: int, capacity: int) -> None:
        self.capacity = -(-capacity // _LINE) * _LINE
        self._file = os.memfd_create("ladder-eval link")
        os.ftruncate(self._file, _LINE * tp_size + _SLOTS * tp_size * self.capacity)
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def close(self) -> None:
        """Let go of it; ranks that have opened it keep it."""
        os.close(self._file)


@dataclass(slots=True)
class _Message:
    link: "VirtualLink"
    number: int
    tensor: Tensor
    summed: bool
    parts: list[Tensor]
    done: bool = False
    sent: float | None = None  # by the last rank, known once it is done
    arrival: float | None = None

    def wait(self) -> None:
        self.link.complete(self)


class VirtualLink(TensorParallel):
    """One rank's end of a virtual link.

    Args:
        rank: tp_rank.
        size: tp_size.
        path: That of the group's `LinkMemory`.
        capacity: Its capacity.
    """

    def __init__(self, rank: int, size: int, path: str, capacity: int) -> None:
        super().__init__(rank, size)
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        header, words = _LINE * size, _LINE // 8
        fields = memoryview(memory)[:header]
        counters, stamps = fields.cast("q"), fields.cast("d")
        self._counters = [counters[r * words : (r + 1) * words] for r in range(size)]
        self._stamps = [stamps[r * words + _STAMPS : (r + 1) * words] for r in range(size)]
        self._payload = torch.frombuffer(memory, dtype=torch.uint8, offset=header)
        self._payload = self._payload.view(_SLOTS, size, capacity)
        self._pending: deque[_Message] = deque()
        self._sent = 0
        self._parts: dict[tuple[int, torch.Size, torch.dtype], list[Tensor]] = {}
        self.use(Wire(latency=0.0, bandwidth=float("inf")))

    def use(self, wire: Wire) -> None:
        """Send what follows over another wire; all ranks do so at the same message."""
        self._timetable = Timetable(wire)

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """Start to sum a tensor over all ranks; the argument is used up."""
        if self.size == 1:
            return PendingReduce(partial)
        partial = partial.contiguous()
        return PendingReduce(partial, self._send(partial, summed=True))

    def all_gather(self, part: Tensor) -> Tensor:
        """Every rank's tensor of the same shape, [tp_size, ...]."""
        if self.size == 1:
            return part[None]
        gathered = part.new_empty((self.size, *part.shape))
        message = self._send(part.contiguous(), summed=False)
        message.tensor = gathered
        message.wait()
        return gathered

    def complete(self, message: _Message) -> None:
        """Wait until a message, and all before it, have arrived."""
        while not message.done:
            self._receive(self._pending.popleft())

    def _send(self, tensor: Tensor, *, summed: bool) -> _Message:
        if len(self._pending) == _SLOTS:
            raise RuntimeError(f"more than {_SLOTS} messages are on their way")
        number = self._sent = self._sent + 1
        for counters in self._counters:
            while counters[_READ] < number - _SLOTS:
                pass
        slot = number % _SLOTS
        parts = self._views(slot, tensor)
        parts[self.rank].copy_(tensor)
        self._stamps[self.rank][slot] = perf_counter()
        self._counters[self.rank][_SENT] = number  # the last thing written: now it may be read
        message = _Message(self, number, tensor, summed, parts)
        self._pending.append(message)
        return message

    def _receive(self, message: _Message) -> None:
        for counters in self._counters:
            while counters[_SENT] < message.number:
                pass
        slot = message.number % _SLOTS
        sent = max(stamps[slot] for stamps in self._stamps)
        arrival = self._timetable.arrival(sent, message.parts[0].nbytes)
        while perf_counter() < arrival:
            pass
        if message.summed:
            _sum(message.parts, out=message.tensor)
        else:
            torch.stack(message.parts, out=message.tensor)
        self._counters[self.rank][_READ] = message.number
        message.sent, message.arrival, message.done = sent, arrival, True

    def _views(self, slot: int, tensor: Tensor) -> list[Tensor]:
        """Every rank's place in a slot as a tensor of this shape; made once for each shape."""
        key = (slot, tensor.shape, tensor.dtype)
        if key not in self._parts:
            self._parts[key] = [
                self._payload[slot, rank, : tensor.nbytes].view(tensor.dtype).view(tensor.shape)
                for rank in range(self.size)
            ]
        return self._parts[key]


def _sum(parts: list[Tensor], out: Tensor) -> None:
    """Sum in the order of ranks, so that every rank has the same bits."""
    torch.add(parts[0], parts[1], out=out)
    for part in parts[2:]:
        out.add_(part)
