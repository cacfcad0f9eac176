"""Where a command computes: device, dtype, ranks; and what its result says about that."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

import torch

from ladder_eval.distributed.launch import drive, join, place_from_environment
from ladder_eval.distributed.team import Team, alone
from ladder_eval.engine.ranks import serve
from ladder_eval.errors import UsageError
from ladder_eval.results import provenance
from ladder_eval.results.records import Provenance

_WORKER = "ladder_eval.engine.worker"


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Where and how models compute.

    Attributes:
        device: That of all ranks.
        dtype: Number format.
        tp_size: Ranks of a tensor-parallel group.
        dp_size: Such groups; each answers requests of its own.
    """

    device: torch.device
    dtype: str
    tp_size: int
    dp_size: int = 1

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch knows it."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def team(self) -> AbstractContextManager[Team]:
        """Rank 0 of a team of this size; it ends when the block is left."""
        if self.tp_size * self.dp_size == 1:
            return alone(self.device)
        return drive(self.tp_size, self.device, worker=_WORKER, replicas=self.dp_size)


def execution_of(
    device: str | None, dtype: str | None, tp_size: int | None, dp_size: int | None = None
) -> Execution:
    """What these options mean on this machine.

    Args:
        device: cpu, cuda or cuda:N; by default cuda where there is one.
        dtype: By default bfloat16 on CUDA, float32 elsewhere.
        tp_size: By default 1, or as many as torchrun started for each group.
        dp_size: By default 1.

    Raises:
        UsageError: if there is no such device, or torchrun didn't start dp_size times tp_size
            processes.
    """
    found = _device(device)
    return Execution(
        device=found,
        dtype=dtype or ("bfloat16" if found.type == "cuda" else "float32"),
        tp_size=_tp_size(tp_size, dp_size),
        dp_size=dp_size or 1,
    )


def is_worker() -> bool:
    """Whether torchrun started this process as another than rank 0."""
    place = place_from_environment(os.environ)
    return place is not None and place.rank > 0


def work(
    device: str | None, dtype: str | None, tp_size: int | None, dp_size: int | None = None
) -> None:
    """Serve rank 0 until it is done: what torchrun's other processes do instead of a command.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    with join(execution_of(device, dtype, tp_size, dp_size).device) as team:
        serve(team)


def _tp_size(asked: int | None, dp_size: int | None) -> int:
    place = place_from_environment(os.environ)
    if place is None:
        return asked or 1
    started = f"torchrun started {place.world_size} processes"
    found, left = divmod(place.world_size, dp_size or 1)
    if left:
        raise UsageError(f"{started}, not a multiple of --dp {dp_size}.")
    if asked not in (None, found):
        replicas = f" for each of --dp {dp_size}" if dp_size else ""
        raise UsageError(f"{started}, not --tp {asked}{replicas}.")
    return found


def _device(name: str | None) -> torch.device:
    cuda = torch.cuda.is_available()
    name = name or ("cuda" if cuda else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UsageError(f"Unknown device {name!r}; give cpu, cuda or cuda:N.")
    if device.type == "cuda" and (not cuda or (device.index or 0) >= torch.cuda.device_count()):
        raise UsageError(f"There is no device {name} here; use --device cpu.")
    return device


class Stopwatch:
    """The start of a command, for its result."""

    def __init__(self) -> None:
        self._started, self._clock = datetime.now(UTC), time.perf_counter()

    @property
    def stamp(self) -> str:
        """The start as part of a file's name."""
        return self._started.strftime("%Y%m%d-%H%M%S")

    def provenance(self, device: torch.device, peak_memory_bytes: Sequence[int]) -> Provenance:
        """Where, when and with what the command has run until now."""
        on_gpu = device.type == "cuda"
        accelerators = [torch.cuda.get_device_name(device)] if on_gpu else []
        return Provenance(
            versions=provenance.versions(),
            commit=provenance.commit(),
            hardware=provenance.hardware(accelerators),
            command=tuple(sys.argv),
            started_at=self._started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - self._clock,
            peak_memory_bytes=tuple(peak_memory_bytes),
        )
