"""What an all-reduce costs: alpha-beta models, a step's latency and a byte's time.

n is the size of the message in bytes (one rank's tensor), p the number of ranks, a the seconds of
a step between two ranks, B the bytes a second that a rank sends. Arithmetic is left out: sums are
far faster than links. Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective
Communication Operations in MPICH" (IJHPCA 19, 2005); for protocols, NCCL's own model
(src/graph/tuning.cc).
"""

from collections.abc import Callable
from dataclasses import dataclass

from ladder_eval.errors import UsageError

# NCCL's base latency of a ring with protocol LL (src/graph/tuning.cc, v2.19 and later), in seconds.
NCCL_BASE = 6.6e-6

# A message of protocol LL is half flags (same file: LL has half of the ring's bandwidth).
_LL_SHARE = 0.5

# A step that keeps data and flags apart waits for two of them, one after the other.
_APART = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """What carries messages between ranks.

    Attributes:
        hop: Seconds of a step between two ranks.
        bandwidth: Bytes a second that a rank sends.
        switch_bandwidth: The same where switches sum messages on their way; None if they can't.
    """

    hop: float
    bandwidth: float
    switch_bandwidth: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """One all-reduce.

    Attributes:
        seconds: From the last rank's start to the sum on all.
        crowds: Whether it is bound by bandwidth, and takes cores and memory from computing.
    """

    seconds: float
    crowds: bool


def ring(n: float, p: int, fabric: Fabric) -> Cost:
    """2(p-1)·a + 2(p-1)/p · n/B: reduce-scatter and all-gather in a ring (Thakur et al. 2005)."""
    return _cost(2 * (p - 1) * fabric.hop, 2 * (p - 1) / p * n / fabric.bandwidth)


def one_shot(n: float, p: int, fabric: Fabric) -> Cost:
    """A + (p-1)·n/B: each rank sends its tensor to all others, each sums what it gets."""
    return _cost(fabric.hop, (p - 1) * n / fabric.bandwidth)


def two_shot(n: float, p: int, fabric: Fabric) -> Cost:
    """2a + 2(p-1)/p · n/B: each rank sums a p-th of the tensor and sends the sum to all."""
    return _cost(2 * fabric.hop, 2 * (p - 1) / p * n / fabric.bandwidth)


def nccl(n: float, p: int, fabric: Fabric) -> Cost:
    """The fastest of what NCCL has on one node, as its own model (src/graph/tuning.cc) has it.

    * ring, LL: flags travel with the data: base + 2(p-1)·a + 2(p-1)/p · n/(B/2);
    * ring, Simple: base + 2·2(p-1)·a + 2(p-1)/p · n/B;
    * NVLS, sums in the switches, of more than two ranks: base + 2·2(p-1)·a + n/B.

    NCCL's own choice is made by its constants, not by the clock; the fastest is taken here.
    """
    steps, share = 2 * (p - 1), 2 * (p - 1) / p
    apart = NCCL_BASE + _APART * steps * fabric.hop
    low = NCCL_BASE + steps * fabric.hop + share * n / (_LL_SHARE * fabric.bandwidth)
    high = apart + share * n / fabric.bandwidth
    if fabric.switch_bandwidth and p > 2:
        high = min(high, apart + n / fabric.switch_bandwidth)
    return Cost(seconds=min(low, high), crowds=high < low)


def custom(n: float, p: int, fabric: Fabric) -> Cost:
    """The fastest of one-shot, two-shot and NCCL, as engines with kernels of their own choose."""
    costs = [algorithm(n, p, fabric) for algorithm in (one_shot, two_shot, nccl)]
    return min(costs, key=lambda cost: cost.seconds)


def message(n: float, p: int, fabric: Fabric) -> Cost:
    """A + n/B whatever the number of ranks: the virtual link of `bench`."""
    return _cost(fabric.hop, n / fabric.bandwidth)


ALGORITHMS: dict[str, Callable[[float, int, Fabric], Cost]] = {
    "nccl": nccl,
    "ring": ring,
    "one-shot": one_shot,
    "two-shot": two_shot,
    "custom": custom,
    "message": message,
}


def two_level(
    n: float, p: int, nodes: int, fabric: Fabric, network: Fabric, within: str = "nccl"
) -> Cost:
    """Over several nodes: within each, between them, within each.

    An all-reduce within the node of p / nodes ranks has two halves, reduce-scatter and all-gather;
    between them each rank sums its part of the tensor with its like on other nodes in a ring.
    """
    local = p // nodes
    inner = all_reduce(within, n, local, fabric)
    outer = ring(n / local, nodes, network)
    return Cost(seconds=inner.seconds + outer.seconds, crowds=inner.crowds or outer.crowds)


def all_reduce(algorithm: str, n: float, p: int, fabric: Fabric) -> Cost:
    """One all-reduce on one node by a name of ALGORITHMS, or a measured time such as `5us`.

    Raises:
        UsageError: if it is neither.
    """
    if p == 1:
        return Cost(seconds=0.0, crowds=False)
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm](n, p, fabric)
    return Cost(seconds=measured_seconds(algorithm), crowds=False)


def measured_seconds(text: str) -> float:
    """The seconds of a time such as `5us`.

    Raises:
        UsageError: if it isn't one.
    """
    try:
        seconds = float(text.removesuffix("us")) * 1e-6 if text.endswith("us") else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1:
        known = ", ".join(ALGORITHMS)
        raise UsageError(f"Unknown all-reduce {text!r}; known are {known}, or a time such as 5us.")
    return seconds


def _cost(latency: float, transfer: float) -> Cost:
    return Cost(seconds=latency + transfer, crowds=transfer > latency)
