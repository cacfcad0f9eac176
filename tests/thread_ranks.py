"""A tensor-parallel group whose ranks are threads of this process, stricter than a real one."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any

import torch
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel


class Arrival:
    """The moment at which the sum of an all-reduce becomes readable."""

    def __init__(self, result: Tensor, total: Tensor) -> None:
        self._result, self._total = result, total

    def wait(self) -> None:
        self._result.copy_(self._total)


class ThreadParallel(TensorParallel):
    """One thread's place; until its all-reduce is awaited, what was sent reads as NaN."""

    def __init__(self, rank: int, size: int, barrier: Barrier, slots: list[Any]) -> None:
        super().__init__(rank, size)
        self._barrier, self._slots = barrier, slots
        self.reduces = 0

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        total = torch.stack(self._exchange(partial)).sum(0)
        self.reduces += 1
        partial.fill_(math.nan)
        return PendingReduce(partial, Arrival(partial, total))

    def all_gather(self, part: Tensor) -> Tensor:
        return torch.stack(self._exchange(part))

    def from_first(self, tensor: Tensor) -> Tensor:
        return self._exchange(tensor)[0]

    def _exchange(self, tensor: Tensor) -> list[Tensor]:
        self._slots[self.rank] = tensor.clone()
        self._barrier.wait(timeout=30)
        everyone = list(self._slots)
        self._barrier.wait(timeout=30)
        return everyone


def on_ranks(size: int, work: Callable[[TensorParallel], Any]) -> list[Any]:
    """What each rank's thread returns, in order; the first error of one of them is raised."""
    barrier, slots = Barrier(size), [None] * size

    def one(rank: int) -> Any:
        try:
            with torch.inference_mode():
                return work(ThreadParallel(rank, size, barrier, slots))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, BrokenBarrierError):
            raise error
    return [future.result() for future in futures]
