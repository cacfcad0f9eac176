"""Where a traced forward's time goes, beside what its dependencies alone ask for.

On each rank the layers' time is the sum of its blocks, its waits, and what lies between. A wait is
for ranks that send later (skew), then for the link, then for noticing the arrival and summing
(wake-up). The simulation has the same parts but for the last two, so that

    measured - simulated = skew + wake-up + link + compute + between

holds exactly, each part being the measured one less the simulated one. Parts are means over ranks.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce
from ladder_eval.distributed.wire import Wire
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import GapRecord
from ladder_eval.results.trace_records import ATTENTION, MLP, ArmTrace, RankTrace
from ladder_eval.speed.simulation import Clock, LayerSeconds, SimulatedParallel, run_layers


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Seconds of the layers of one forward, of one rank or as a mean over ranks.

    Attributes:
        total: From the first block's begin to the last output in the stream.
        compute: In blocks.
        skew: Waiting for the last rank to send.
        link: Then waiting for the arrival.
        wake_up: Then until the wait ended.
    """

    total: float
    compute: float
    skew: float
    link: float
    wake_up: float


def gap(
    trace: ArmTrace, bound: ArmTrace, config: ModelConfig, wire: Wire, sizes: tuple[int, int]
) -> GapRecord | None:
    """The gap of one traced arm, in the decode step whose gap is the median.

    With one token only it is that of the prompt's forward. None where nobody knows when the
    messages arrived.

    Args:
        trace: The arm.
        bound: The arm without communication, traced in the same way.
        config: The arm's residual.
        wire: What carried the messages.
        sizes: Bytes of a message of the prompt, and of one of a decode step.
    """
    count = trace.ranks[0].forwards()
    forwards = range(1, count) if count > 1 else range(1)
    simulated = simulated_parts(config, block_seconds(bound, forwards), wire, sizes[count > 1])
    measured = [parts for each in forwards if (parts := measured_parts(trace, each)) is not None]
    if not measured:
        return None
    middle = statistics.median_low([parts.total for parts in measured])
    return _difference(next(p for p in measured if p.total == middle), simulated)


def block_seconds(trace: ArmTrace, forwards: Iterable[int]) -> list[LayerSeconds]:
    """Of each rank and layer, the median seconds of attention and of MLP over some forwards."""
    chosen = set(forwards)
    return [_rank_blocks(rank, chosen) for rank in trace.ranks]


def _rank_blocks(rank: RankTrace, forwards: set[int]) -> LayerSeconds:
    found: dict[tuple[int, str], list[float]] = {}
    for span in rank.spans:
        if span.forward in forwards:
            found.setdefault((span.layer, span.kind), []).append(span.end - span.begin)
    layers = range(1 + max(layer for layer, _ in found))
    medians = {key: statistics.median(values) for key, values in found.items()}
    return [(medians[layer, ATTENTION], medians[layer, MLP]) for layer in layers]


def measured_parts(trace: ArmTrace, forward: int) -> Parts | None:
    """Means over ranks of one forward's layers; None where it isn't known when messages arrived."""
    ranks = [_rank_parts(rank, forward) for rank in trace.ranks]
    known = [parts for parts in ranks if parts is not None]
    return _mean(known) if len(known) == len(ranks) else None


def _rank_parts(rank: RankTrace, forward: int) -> Parts | None:
    spans = [span for span in rank.spans if span.forward == forward]
    within = [m for m in rank.messages if m.forward == forward and m.layer is not None]
    waits = [message.parts() for message in within]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        return None
    ends = [span.end for span in spans] + [message.waited for message in within]
    return Parts(
        total=max(ends) - min(span.begin for span in spans),
        compute=sum(span.end - span.begin for span in spans),
        skew=sum(wait.skew for wait in known),
        link=sum(wait.link for wait in known),
        wake_up=sum(wait.wake_up for wait in known),
    )


def simulated_parts(
    config: ModelConfig, seconds: Sequence[LayerSeconds], wire: Wire, message_bytes: int
) -> Parts:
    """The same of a simulation, which notices arrivals at once; arguments as of `simulate`."""
    clock = Clock(len(seconds))
    tp = _NotingParallel(clock, wire, message_bytes)
    run_layers(config, seconds, clock, tp)
    return _mean(
        [
            Parts(
                total=clock.now[rank],
                compute=sum(sum(layer) for layer in layers),
                skew=tp.skew[rank],
                link=tp.link[rank],
                wake_up=0.0,
            )
            for rank, layers in enumerate(seconds)
        ]
    )


class _NotingParallel(SimulatedParallel):
    """Notes for what each rank waits, in seconds."""

    def __init__(self, clock: Clock, wire: Wire, message_bytes: int) -> None:
        super().__init__(clock, wire, message_bytes)
        self.skew, self.link = ([0.0] * self.size for _ in range(2))

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        sent = max(self._clock.now)
        return PendingReduce(partial, _NotedWait(self, sent, super().all_reduce_async(partial)))

    def wait_for(self, pending: PendingReduce, sent: float) -> None:
        """Await a message that the last rank sent at a moment."""
        before = self._clock.now
        pending.wait()
        for rank, (begin, end) in enumerate(zip(before, self._clock.now, strict=True)):
            skew = max(0.0, sent - begin)
            self.skew[rank] += skew
            self.link[rank] += end - begin - skew


@dataclass(slots=True)
class _NotedWait:
    tp: _NotingParallel
    sent: float
    pending: PendingReduce

    def wait(self) -> None:
        self.tp.wait_for(self.pending, self.sent)


def _mean(ranks: Sequence[Parts]) -> Parts:
    return Parts(
        total=statistics.fmean(parts.total for parts in ranks),
        compute=statistics.fmean(parts.compute for parts in ranks),
        skew=statistics.fmean(parts.skew for parts in ranks),
        link=statistics.fmean(parts.link for parts in ranks),
        wake_up=statistics.fmean(parts.wake_up for parts in ranks),
    )


def _difference(measured: Parts, simulated: Parts) -> GapRecord:
    blocks_and_waits = measured.compute + measured.skew + measured.link + measured.wake_up
    return GapRecord(
        measured=measured.total,
        simulated=simulated.total,
        skew=measured.skew - simulated.skew,
        wake_up=measured.wake_up,
        link=measured.link - simulated.link,
        compute=measured.compute - simulated.compute,
        between=measured.total - blocks_and_waits,
    )
