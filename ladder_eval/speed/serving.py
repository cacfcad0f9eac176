"""Open-loop load: requests come when they come, and are served in turn.

The server is a simple one, first come first served in *static* batches: when it is free, it takes
what has arrived, up to batch_size requests, and computes them until the longest is done. Nothing
joins a batch that has begun. A server with continuous batching would let it, and give shorter times
to first tokens.

The loop knows an engine and a clock and nothing else, so that both can be replaced.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from ladder_eval.results.load_records import Served

POLICY: Final = (
    "first come first served, in static batches of what has arrived when the last one is done"
)
"""How requests are served, in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request that will come.

    Attributes:
        arrival: When, in seconds from the start.
        prompt_len: Tokens in.
        output_len: Tokens out.
    """

    arrival: float
    prompt_len: int
    output_len: int


class Clock(Protocol):
    """What moments are read from."""

    def now(self) -> float:
        """Seconds from any fixed moment."""

    def wait_until(self, moment: float) -> None:
        """Return when it is as late, at once if it is later."""


class Server(Protocol):
    """What computes batches."""

    def write(self, requests: Sequence[Asked]) -> Sequence[float]:
        """Compute a batch, and return the moments at which its rows had a token more, [steps]."""


class WallClock:
    """The machine's own."""

    def now(self) -> float:
        """As `Clock.now`, by `perf_counter`."""
        return time.perf_counter()

    def wait_until(self, moment: float) -> None:
        """As `Clock.wait_until`; it sleeps, which nobody computes beside."""
        while (left := moment - self.now()) > 0:
            time.sleep(left)


def poisson_arrivals(rate: float, count: int, seed: int) -> list[float]:
    """Moments of a Poisson process, whose gaps are independent and exponential with mean 1 / rate.

    With the same seed, those of another rate are the same but for the scale.

    Args:
        rate: Arrivals a second, more than 0.
        count: How many.
        seed: Of the generator.
    """
    generator, moments = Random(seed), [0.0]
    for _ in range(count):
        moments.append(moments[-1] + generator.expovariate(1.0) / rate)
    return moments[1:]


def serve(
    requests: Sequence[Asked], server: Server, clock: Clock, batch_size: int
) -> tuple[Served, ...]:
    """Serve all requests, and say when each was, in their order.

    Args:
        requests: In the order of their arrival.
        server: What computes.
        clock: The clock, which the server's moments are read from as well.
        batch_size: Most requests in a batch.
    """
    start, served = clock.now(), list[Served]()
    while len(served) < len(requests):
        waiting = requests[len(served) : len(served) + batch_size]
        clock.wait_until(start + waiting[0].arrival)
        began = max(clock.now() - start, waiting[0].arrival)  # a sum of floats may come out less
        batch = [each for each in waiting if each.arrival <= began]
        moments = [moment - start for moment in server.write(batch)]
        served += [_served(each, began, moments) for each in batch]
    return tuple(served)


def _served(request: Asked, began: float, moments: Sequence[float]) -> Served:
    return Served(
        arrival=request.arrival,
        start=began,
        first=moments[0],
        last=moments[request.output_len - 1],
        prompt_len=request.prompt_len,
        output_len=request.output_len,
    )
