"""Memory that doesn't suffice: found out by all ranks together, so that they go on alike."""

from collections.abc import Callable
from typing import TypeVar

import torch

from ladder_eval.distributed.tensor_parallel import TensorParallel

Found = TypeVar("Found")

# What torch says where it has no class for it: its CPU allocator.
_SIGNS = ("not enough memory", "can't allocate memory", "out of memory")


class OutOfMemoryError(RuntimeError):
    """What was tried takes more memory than a rank has."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device, or the host, has no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError | OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def together(tp: TensorParallel, device: torch.device, attempt: Callable[[], Found]) -> Found:
    """Do what takes memory on all ranks; if it is too much for one, all of them learn it.

    Args:
        tp: The group, all ranks of which call this together.
        device: The device of what is sent.
        attempt: What to do. There must be no collective in it, in which others would wait for a
            rank that has given up; alone, it may be anything.

    Raises:
        OutOfMemoryError: on all ranks alike, if any of them has run out of memory.
    """
    found: list[Found] = []
    try:
        found.append(attempt())
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Outside of the handler, which would keep alive what the attempt had allocated.
    full = torch.tensor([float(not found)], device=device)
    if tp.all_gather(full).any():
        raise OutOfMemoryError("a rank has run out of memory")
    return found[0]
