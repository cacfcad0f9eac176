"""How much a program may use, and evalplus' rule for how long it may take."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from evalplus.config import DEFAULT_GT_TIME_LIMIT_FACTOR, DEFAULT_MIN_TIME_LIMIT

_GIB: Final = 2**30
_WALL_FACTOR: Final = 3.0
_WALL_GRACE: Final = 3.0  # seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a program may use.

    Attributes:
        memory: Bytes of address space; evalplus' 4 GiB, or all that the machine has.
        output: Bytes of one result, as JSON.
        disk: Bytes of its scratch folder, and of each file.
        files: Open files.
        load_seconds: CPU time until its function is defined.
        total_seconds: CPU time of all tests together; evalplus' 60.
    """

    memory: int = min(4 * _GIB, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    output: int = 128 * 2**20
    disk: int = 64 * 2**20
    files: int = 64
    load_seconds: float = 10.0
    total_seconds: float = 60.0


def time_limits(seconds: Sequence[float]) -> list[float]:
    """CPU seconds that a test may take, given those of the canonical solution on this machine.

    evalplus' rule, max(1, 4 t), with its own constants; evalplus counts wall-clock time, which
    grows where other processes compute.
    """
    return [max(DEFAULT_MIN_TIME_LIMIT, DEFAULT_GT_TIME_LIMIT_FACTOR * t) for t in seconds]


def total_limit(seconds: Sequence[float], limits: Limits) -> float:
    """CPU seconds of all tests together: enough for four times the canonical solution."""
    return max(limits.total_seconds, float(DEFAULT_GT_TIME_LIMIT_FACTOR) * sum(seconds))


def wall_limit(seconds: float) -> float:
    """Wall-clock seconds after which something that may take so much CPU time hangs."""
    return _WALL_FACTOR * seconds + _WALL_GRACE
