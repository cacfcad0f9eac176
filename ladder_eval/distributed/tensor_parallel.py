"""The tensor-parallel group as a model sees it: a rank, a size, and an all-reduce."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(slots=True)
class PendingReduce:
    """An all-reduce that has been started.

    Attributes:
        result: The tensor that holds the sum once `wait` has returned.
        work: torch's handle; None where there was nothing to send.
    """

    result: Tensor
    work: Any = None

    def wait(self) -> Tensor:
        """The sum over all ranks; on a GPU, the stream waits and the host goes on."""
        if self.work is not None:
            self.work.wait()
            self.work = None
        return self.result


class TensorParallel:
    """This process's place in a tensor-parallel group.

    Attributes:
        rank: tp_rank, from 0.
        size: tp_size.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, group: dist.ProcessGroup | None = None
    ) -> None:
        self.rank = rank
        self.size = size
        self._group = group

    def all_reduce(self, partial: Tensor) -> Tensor:
        """Sum a tensor over all ranks; the argument is used up."""
        return self.all_reduce_async(partial).wait()

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """Start to sum a tensor over all ranks; the argument is used up."""
        if self.size == 1:
            return PendingReduce(partial)
        partial = partial.contiguous()
        return PendingReduce(partial, dist.all_reduce(partial, group=self._group, async_op=True))

    def all_gather(self, part: Tensor) -> Tensor:
        """Every rank's tensor of the same shape, [tp_size, ...]."""
        if self.size == 1:
            return part[None]
        parts = [torch.empty_like(part) for _ in range(self.size)]
        dist.all_gather(parts, part.contiguous(), group=self._group)
        return torch.stack(parts)

    def from_first(self, tensor: Tensor) -> Tensor:
        """Rank 0's tensor, on every rank; the others' argument is overwritten."""
        if self.size > 1:
            dist.broadcast(tensor, group=self._group, group_src=0)
        return tensor


ALONE = TensorParallel()
"""The group of one: nothing is sent."""
