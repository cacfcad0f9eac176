"""What a rank computes, sends and waits for, moment by moment: the clocks of `bench --trace`.

A group that notes what goes through it stands between a model and its own: all-reduces start in
`TensorParallel.all_reduce_async` alone, and are awaited in `PendingReduce.wait` alone. So what is
traced is the model's own order, of any residual. Blocks are noted where they are called, outside
of anything that may be compiled.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.engine.timing import time_generation
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.parallel import ParallelBlock
from ladder_eval.models.random_weights import sharing
from ladder_eval.models.transformer import Transformer
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.trace_records import ATTENTION, MLP, ComputeSpan, Message, RankTrace

Moment = Any
"""Seconds, or an event that a GPU will reach."""


class HostClock:
    """Moments of `perf_counter`."""

    def now(self) -> Moment:
        """This moment."""
        return perf_counter()

    def seconds(self, moment: Moment) -> float:
        """A moment in seconds of `perf_counter`."""
        return float(moment)


class DeviceClock:
    """Moments at which a GPU's stream gets to where the host is now; nobody waits for them.

    The device is synchronised once before the first moment, and when moments are read.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        torch.cuda.synchronize(device)
        self._first = self.now()
        torch.cuda.synchronize(device)
        self._origin = perf_counter()

    def now(self) -> Moment:
        """An event at the end of what the current stream was given."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def seconds(self, moment: Moment) -> float:
        """As of `HostClock`, but for what it takes to notice the end of a synchronisation."""
        moment.synchronize()
        return self._origin + 1e-3 * float(self._first.elapsed_time(moment))


@dataclass(slots=True)
class _Sent:
    """A collective that is under way, with its moments so far."""

    of: str
    layer: int | None
    forward: int
    start: Moment
    started: Moment = None
    wait: Moment = None
    waited: Moment = None
    sent: float | None = None
    arrival: float | None = None


@dataclass(slots=True)
class Recorder:
    """Notes what one rank does.

    Attributes:
        now: Gives moments.
        forward: Of what happens next; -1 before the first.
        spans: Kind, layer, forward, begin and end of each block.
        messages: The collectives.
    """

    now: Callable[[], Moment]
    forward: int = -1
    spans: list[tuple[str, int, int, Moment, Moment]] = field(default_factory=list)
    messages: list[_Sent] = field(default_factory=list)
    _unsent: list[tuple[str, int]] = field(default_factory=list)

    def watch(self, model: Transformer) -> None:
        """Note every block of a model from now on, and which forward it belongs to."""
        model.register_forward_pre_hook(self._next_forward)
        for index, layer in enumerate(model.layers):
            for kind, owner, name in _parts(layer):
                setattr(owner, name, self._noted(getattr(owner, name), kind, index))

    def start(self, of: str | None = None) -> _Sent:
        """Note that a message is started: a named one, or what was computed since the last."""
        kinds = dict.fromkeys(kind for kind, _ in self._unsent)
        layer = self._unsent[-1][1] if self._unsent and of is None else None
        name = of or " + ".join(kinds) or "embedding"
        if of is None:
            self._unsent.clear()
        sent = _Sent(name, layer, self.forward, self.now())
        self.messages.append(sent)
        return sent

    def trace(self, rank: int, seconds: Callable[[Moment], float]) -> RankTrace:
        """What was noted since the first forward began, in seconds."""
        spans = tuple(
            ComputeSpan(
                kind=kind, layer=layer, forward=forward, begin=seconds(begin), end=seconds(end)
            )
            for kind, layer, forward, begin, end in self.spans
        )
        within = (sent for sent in self.messages if sent.forward >= 0)
        messages = tuple(_message(sent, seconds) for sent in within)
        return RankTrace(rank=rank, spans=spans, messages=messages)

    def _next_forward(self, *_: object) -> None:
        self.forward += 1
        self._unsent.clear()

    def _noted(self, block: Callable[..., Tensor], kind: str, layer: int) -> Callable[..., Tensor]:
        def noted(*arguments: Any) -> Tensor:
            begin = self.now()
            output = block(*arguments)
            self.spans.append((kind, layer, self.forward, begin, self.now()))
            self._unsent.append((kind, layer))
            return output

        return noted


def _parts(layer: nn.Module) -> Iterator[tuple[str, Any, str]]:
    """The functions that a layer calls: what each is, whose it is, and its name there."""
    if isinstance(layer, ParallelBlock):
        yield ATTENTION, layer.input_layernorm, "forward"
        yield ATTENTION, layer.self_attn, "forward"
        yield MLP, layer.mlp, "forward"
    else:
        yield ATTENTION, layer, "attention"
        yield MLP, layer, "feed_forward"


def _message(sent: _Sent, seconds: Callable[[Moment], float]) -> Message:
    return Message(
        of=sent.of,
        layer=sent.layer,
        forward=sent.forward,
        start=seconds(sent.start),
        started=seconds(sent.started),
        wait=seconds(sent.wait),
        waited=seconds(sent.waited),
        sent=sent.sent,
        arrival=sent.arrival,
    )


@dataclass(slots=True)
class _NotedWork:
    """Stands for torch's handle, and notes when it is awaited."""

    pending: PendingReduce
    sent: _Sent
    recorder: Recorder

    def wait(self) -> None:
        work, self.sent.wait = self.pending.work, self.recorder.now()
        self.pending.wait()
        self.sent.waited = self.recorder.now()
        # Only a virtual link knows when all have sent, and when the sum arrived.
        self.sent.sent = getattr(work, "sent", None)
        self.sent.arrival = getattr(work, "arrival", None)


class TracedParallel(TensorParallel):
    """A group that notes when its collectives are started and awaited.

    Args:
        tp: The group that does the work.
        recorder: Where it is noted.
    """

    def __init__(self, tp: TensorParallel, recorder: Recorder) -> None:
        super().__init__(tp.rank, tp.size)
        self._tp, self._recorder = tp, recorder

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """As of the group that does the work."""
        if self.size == 1:
            return self._tp.all_reduce_async(partial)
        sent = self._recorder.start()
        pending = self._tp.all_reduce_async(partial)
        sent.started = self._recorder.now()
        return PendingReduce(pending.result, _NotedWork(pending, sent, self._recorder))

    def all_gather(self, part: Tensor) -> Tensor:
        """As of the group that does the work; noted as sent and awaited at once."""
        if self.size == 1:
            return self._tp.all_gather(part)
        sent = self._recorder.start("token")
        sent.started = sent.wait = sent.start
        gathered = self._tp.all_gather(part)
        sent.waited = self._recorder.now()
        return gathered

    def from_first(self, tensor: Tensor) -> Tensor:
        """As of the group that does the work."""
        return self._tp.from_first(tensor)


def trace_generation(
    model: Transformer, config: ModelConfig, tp: TensorParallel, workload: Workload
) -> RankTrace:
    """Trace one generation; all ranks call this together.

    Args:
        model: One rank's part of a model, for its weights.
        config: The same shape with the residual to trace.
        tp: What carries its messages.
        workload: The generation's shape.
    """
    device = model.embed_tokens.weight.device
    clock = DeviceClock(device) if device.type == "cuda" else HostClock()
    recorder = Recorder(clock.now)
    traced = sharing(model, config, TracedParallel(tp, recorder))
    recorder.watch(traced)
    time_generation(traced, workload)
    return recorder.trace(tp.rank, clock.seconds)
