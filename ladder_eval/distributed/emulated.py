"""One rank of many on one device: what it would send is a delay, and what comes back is its own.

The rank computes its exact share of the model. Its messages are never sent: each counts as arrived
when the slowest of the ranks has sent it and the wire has carried it, and until then who waits for
it waits. How late the slowest rank is has to be told (`EmulatedParallel.use`); what arrives is the
rank's own partial sum. So the times mean something, the values nothing, and they are never scored.
Times taken so are labelled *emulated*.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from ladder_eval.distributed.team import Team
from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.distributed.threads import threads_of_one_in
from ladder_eval.distributed.wire import Timetable, Wire

NAME = "emulated link"

# A ladder has at most three messages on their way, and each needs a stream to be late on.
_STREAMS = 4
# About ten milliseconds of a GPU: long beside the start of a kernel.
_CALIBRATION_CYCLES = 20_000_000


class Arrival(Protocol):
    """A message on its way."""

    def wait(self) -> None:
        """Go on only after it has arrived; on a GPU the stream waits and the host goes on."""


class Delays(Protocol):
    """What takes the place of a link."""

    def use(self, wire: Wire) -> None:
        """Let what follows take as long as on another wire."""

    def send(self, size: int, lateness: float) -> Arrival:
        """Let a message start.

        Args:
            size: Its bytes.
            lateness: Seconds by which the slowest rank sends it after this one.
        """


class HostDelays:
    """Delays on a CPU, where who waits polls the clock, as over the virtual link.

    Args:
        clock: Seconds from any start.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self.use(Wire(latency=0.0, bandwidth=float("inf")))

    def use(self, wire: Wire) -> None:
        """As `Delays.use`."""
        self._timetable = Timetable(wire)

    def send(self, size: int, lateness: float) -> Arrival:
        """As `Delays.send`."""
        return _Moment(self._clock, self._timetable.arrival(self._clock() + lateness, size))


class _Moment:
    def __init__(self, clock: Callable[[], float], arrival: float) -> None:
        self._clock, self._arrival = clock, arrival

    def wait(self) -> None:
        while self._clock() < self._arrival:
            pass


class DeviceDelays:
    """Delays on a GPU: kernels that only spin, on streams beside the one that computes.

    A message passes three of them, each in the order of sending: how late the slowest rank is, as
    long as the wire is busy with it, and what is left of the latency where the wire is free before
    the message has arrived. The last runs beside that of other messages.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._late, self._busy = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._left = cycle([torch.cuda.Stream(device) for _ in range(_STREAMS)])
        self.use(Wire(latency=0.0, bandwidth=float("inf")))

    def use(self, wire: Wire) -> None:
        """As `Delays.use`; measures anew how fast the GPU's clock is."""
        self._wire = wire
        self._cycles_per_second = _cycles_per_second(self._device)

    def send(self, size: int, lateness: float) -> Arrival:
        """As `Delays.send`."""
        transfer, latency = size / self._wire.bandwidth, self._wire.latency
        serial = self._wire.mode == "serial"
        moment = torch.cuda.current_stream(self._device).record_event()
        for stream, seconds in (
            (self._late, lateness),
            (self._busy, transfer + latency if serial else transfer),
            (next(self._left), 0.0 if serial else latency),
        ):
            moment = self._after(moment, stream, seconds)
        return _Mark(moment, self._device)

    def _after(
        self, moment: torch.cuda.Event, stream: torch.cuda.Stream, seconds: float
    ) -> torch.cuda.Event:
        """So long after a moment, and after all that the stream has been given before."""
        cycles = round(seconds * self._cycles_per_second)
        if not cycles:
            return moment  # each stream that is passed costs some microseconds of its own
        stream.wait_event(moment)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(cycles)
        done: torch.cuda.Event = stream.record_event()
        return done


class _Mark:
    def __init__(self, moment: torch.cuda.Event, device: torch.device) -> None:
        self._moment, self._device = moment, device

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._moment)


def _cycles_per_second(device: torch.device) -> float:
    """How many cycles of the GPU's clock, in which `torch.cuda._sleep` counts, a second has."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(device):
        start.record()
        torch.cuda._sleep(_CALIBRATION_CYCLES)
        end.record()
        end.synchronize()
    seconds: float = 1e-3 * start.elapsed_time(end)
    return _CALIBRATION_CYCLES / seconds


class EmulatedParallel(TensorParallel):
    """One rank of a group whose other ranks exist only as lateness.

    Args:
        rank: tp_rank.
        size: tp_size.
        delays: What takes the place of the link.
    """

    def __init__(self, rank: int, size: int, delays: Delays) -> None:
        super().__init__(rank, size)
        self._delays = delays
        self._lateness: Iterator[float] = iter(())

    def use(self, wire: Wire, lateness: Iterable[float] = ()) -> None:
        """Send what follows over another wire.

        Args:
            wire: It.
            lateness: Of each message in order, the seconds by which the slowest rank sends it
                after this one; 0 for those that follow.
        """
        self._delays.use(wire)
        self._lateness = iter(lateness)

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """Start a delay in place of the sum; what arrives is the argument itself."""
        return PendingReduce(partial, self._send(partial))

    def all_gather(self, part: Tensor) -> Tensor:
        """This rank's tensor in place of every rank's, [tp_size, ...], after a delay."""
        self._send(part).wait()
        return part.expand(self.size, *part.shape)

    def from_first(self, tensor: Tensor) -> Tensor:
        """The tensor itself, in place of rank 0's."""
        return tensor

    def _send(self, tensor: Tensor) -> Arrival:
        return self._delays.send(tensor.nbytes, next(self._lateness, 0.0))


@contextmanager
def one_of(tp_size: int, rank: int, device: torch.device) -> Iterator[Team]:
    """A team that consists of one of its ranks.

    On CPUs the rank has the threads that it would have beside all others on this machine.
    """
    on_gpu = device.type == "cuda"
    with (
        torch.cuda.device(device) if on_gpu else nullcontext(),
        threads_of_one_in(tp_size, device),
    ):
        delays = DeviceDelays(device) if on_gpu else HostDelays()
        yield Team(tp=EmulatedParallel(rank, tp_size, delays), device=device, backend=NAME)
