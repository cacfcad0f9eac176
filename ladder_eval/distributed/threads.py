"""CPU threads of one rank among those that share a machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads_of_one_in(ranks: int, device: torch.device) -> Iterator[None]:
    """Give torch the threads that one of so many ranks on this machine's CPU has.

    More threads than cores would make every operation wait for the slowest. What the user has set
    stays, and so does what a rank on a GPU has.
    """
    threads = torch.get_num_threads()
    if device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, _cores() // ranks))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
