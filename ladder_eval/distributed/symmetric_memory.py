"""All-reduces by one kernel on memory that all GPUs of a node see, in place of NCCL's.

In *one-shot* each rank reads every other's whole tensor and sums it itself; in *two-shot* each sums
its part, and the others read that. The kernels are torch's (`torch.ops.symm_mem`). For the
messages of a decode step they take a few microseconds, several times less than NCCL, and so decide
how much communication there is to hide.
"""

from itertools import cycle
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel

# A ladder has at most three messages on their way, and each needs memory of its own.
_SLOTS: Final = 4
# The kernels move 16 bytes at a time, in two-shot of each rank's part.
_ALIGNED_BYTES: Final = 16


def why_unavailable(device: torch.device) -> str | None:
    """Why there are no such kernels here; None where there are some."""
    if device.type != "cuda":
        return "kernels on symmetric memory need GPUs"
    if not hasattr(torch.ops.symm_mem, "two_shot_all_reduce_out"):
        return "this torch has no kernels on symmetric memory"
    return None


class SymmetricParallel(TensorParallel):
    """A group whose sums of up to so many bytes are one kernel each; others are the group's own.

    A sum runs on a stream beside the one that computes, as NCCL's do, and whoever waits for it lets
    the computing stream wait. Memory of a message is used again when four others have followed: by
    then its sum has been taken up, on every rank, since the kernels end together.

    Args:
        group: The group.
        algorithm: one-shot or two-shot.
        capacity: Bytes of the largest message.
        like: A tensor of the messages' dtype, on this rank's GPU.
    """

    def __init__(
        self, group: dist.ProcessGroup, algorithm: str, capacity: int, like: Tensor
    ) -> None:
        super().__init__(dist.get_rank(group), dist.get_world_size(group), group)
        import torch.distributed._symmetric_memory as memory  # noqa: PLC0415 - of torch with CUDA

        self._name = group.group_name
        self._one_shot = algorithm == "one-shot"
        self._dtype, self._device = like.dtype, like.device
        self._step = max(1, self.size * _ALIGNED_BYTES // like.element_size())
        self._length = _rounded_up(capacity // like.element_size(), self._step)
        slots = [
            memory.empty(self._length, dtype=like.dtype, device=like.device) for _ in range(_SLOTS)
        ]
        for slot in slots:
            memory.rendezvous(slot, group)
        self._slots = cycle(slots)
        self._stream: Any = torch.cuda.Stream(like.device)

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """As `TensorParallel.all_reduce_async`."""
        if partial.dtype != self._dtype or partial.numel() > self._length:
            return super().all_reduce_async(partial)
        slot = next(self._slots)[: _rounded_up(partial.numel(), self._step)]
        slot[: partial.numel()].copy_(partial.reshape(-1))
        result = torch.empty_like(slot)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            kernel = "one_shot_all_reduce_out" if self._one_shot else "two_shot_all_reduce_out"
            getattr(torch.ops.symm_mem, kernel)(slot, "sum", self._name, result)
        result.record_stream(self._stream)
        done = _Done(self._stream.record_event(), self._device)
        return PendingReduce(result[: partial.numel()].view_as(partial), done)


class _Done:
    def __init__(self, moment: Any, device: torch.device) -> None:
        self._moment, self._device = moment, device

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._moment)


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step
