"""What ranks on the CPUs of this computer reach, all at once, as the description of a machine."""

import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import torch

from ladder_eval.errors import UsageError
from ladder_eval.results.provenance import hardware
from ladder_eval.speed.constants import NVLINK_NCCL_HOP, Calibration, Constants
from ladder_eval.speed.hardware import Link, Machine

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

_SQUARE = 1024  # of a matrix product: its operands fill no cache
_READ_BYTES = 256 * 2**20  # of a matrix-vector product: far more than any cache holds
_ELEMENTS = 64  # of a kernel that has next to nothing to do
_SECONDS = 1.0  # of each measurement
_START_SECONDS = 120.0  # until all processes have started
_AT_ONCE = 200  # calls of the small kernel between two looks at the clock


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """What one rank reaches while all others do the same.

    Attributes:
        flops: Operations a second of a matrix product.
        bandwidth: Bytes a second that a matrix-vector product reads, as decoding does.
        kernel: Seconds of a kernel that has next to nothing to do.
    """

    flops: float
    bandwidth: float
    kernel: float


def measured_machine(ranks: int, threads: int, dtype: str) -> tuple[Machine, Calibration]:
    """Measure ranks processes with so many threads each, at the same time.

    Raises:
        UsageError: if a number isn't positive or the dtype unknown.
    """
    if ranks < 1 or threads < 1:
        raise UsageError("--ranks and --threads take whole numbers from 1.")
    if dtype not in DTYPES:
        raise UsageError(f"Unknown dtype {dtype!r}; known are {', '.join(DTYPES)}.")
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(ranks, mp_context=context) as pool:
        barrier = manager.Barrier(ranks, timeout=_START_SECONDS)
        found = list(pool.map(_measure, [barrier.wait] * ranks, [threads] * ranks, [dtype] * ranks))
    return description(found, ranks, threads, dtype)


def _measure(meet: Callable[[], object], threads: int, dtype: str) -> Reached:
    torch.set_num_threads(threads)
    return reached(DTYPES[dtype], meet=meet)


def reached(
    dtype: torch.dtype, seconds: float = _SECONDS, meet: Callable[[], object] = lambda: None
) -> Reached:
    """What this process reaches.

    Args:
        dtype: Number format.
        seconds: How long each of three measurements takes.
        meet: Called before each, so that several processes begin together.
    """
    square = torch.randn(_SQUARE, _SQUARE, dtype=dtype)
    size = square.element_size()
    tall = torch.randn(_READ_BYTES // size // _SQUARE, _SQUARE, dtype=dtype)
    vector, small = square[0].clone(), torch.zeros(_ELEMENTS, dtype=dtype)

    def many_small() -> None:
        for _ in range(_AT_ONCE):
            torch.add(small, small)

    with torch.inference_mode():
        times = []
        for call in (lambda: square @ square, lambda: tall @ vector, many_small):
            meet()
            times.append(_median_seconds(call, seconds))
    return Reached(
        flops=2 * _SQUARE**3 / times[0],
        bandwidth=tall.numel() * size / times[1],
        kernel=times[2] / _AT_ONCE,
    )


def _median_seconds(call: Callable[[], object], seconds: float) -> float:
    call()
    taken: list[float] = []
    end = perf_counter() + seconds
    while not taken or perf_counter() < end:
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    return statistics.median(taken)


def description(
    found: list[Reached], ranks: int, threads: int, dtype: str
) -> tuple[Machine, Calibration]:
    """The slowest of the ranks as a machine whose peaks are what it reaches.

    Its link is the one that `bench` models, and gets its latency and bandwidth from there.
    """
    about = hardware()
    name = f"{ranks}-ranks-of-{threads}-threads"
    machine = Machine(
        name=name,
        title=f"{about['processor']}, {ranks} ranks of {threads} threads",
        flops={dtype: min(each.flops for each in found)},
        memory_bandwidth=min(each.bandwidth for each in found),
        memory_bytes=float(str(about["memory_bytes"])) / ranks,
        ranks_per_node=ranks,
        links={"p2p": virtual_link(bandwidth=1e11)},
        sources=("measured here",),
    )
    constants = Constants(
        memory_efficiency=1.0,
        matmul_efficiency=1.0,
        kernel_seconds=max(each.kernel for each in found),
        p2p_hop=0.0,
        host_hop=0.0,
        p2p_efficiency=1.0,
        host_efficiency=1.0,
        contention=0.0,
    )
    calibration = Calibration(
        machine=name,
        source="matrix products, a matrix-vector product and small kernels, measured on it",
        command=f"ladder-eval predict measure --ranks {ranks} --threads {threads} --dtype {dtype}",
        constants=constants,
    )
    return machine, calibration


def virtual_link(bandwidth: float) -> Link:
    """The link of `bench` between processes, whose wire is modelled."""
    return Link(title="virtual link", bandwidth=bandwidth, nccl_hop=NVLINK_NCCL_HOP, reduces=False)
