"""The time that a residual's dependencies alone ask for: the bound on what it can hide.

The topologies' own code is run, once for all ranks, on blocks that compute nothing: a block moves
each rank's clock on by the time that it was measured to take, a message moves it to its arrival.
So the simulated graph is the model's own, and there is no second description of it.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.distributed.wire import Timetable, Wire
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.residual import ResidualStream
from ladder_eval.models.transformer import block_class

LayerSeconds = Sequence[tuple[float, float]]
"""Seconds of attention and MLP of each layer, on one rank."""


def simulate(
    config: ModelConfig, seconds: Sequence[LayerSeconds], wire: Wire, message_bytes: int
) -> float:
    """Seconds that all layers take, until the slowest rank has done the last.

    Args:
        config: The model; its residual decides what waits for what.
        seconds: Of each rank, what its blocks take without communication.
        wire: What carries the messages.
        message_bytes: Size of one.
    """
    clock, _ = _run(config, seconds, wire, message_bytes)
    return max(clock.now)


def lateness(
    config: ModelConfig,
    seconds: Sequence[LayerSeconds],
    wire: Wire,
    message_bytes: int,
    rank: int,
) -> tuple[float, ...]:
    """Seconds by which the slowest rank sends each message of a forward's layers after one rank.

    The last entry is by how much it ends its layers after that rank.

    Args:
        config: The model; its residual decides what waits for what.
        seconds: Of each rank, what its blocks take without communication.
        wire: What carries the messages.
        message_bytes: Size of one.
        rank: The rank.
    """
    clock, tp = _run(config, seconds, wire, message_bytes)
    return tuple(max(moments) - moments[rank] for moments in (*tp.sent, clock.now))


def _run(
    config: ModelConfig, seconds: Sequence[LayerSeconds], wire: Wire, message_bytes: int
) -> tuple["Clock", "SimulatedParallel"]:
    clock = Clock(len(seconds))
    tp = SimulatedParallel(clock, wire, message_bytes)
    run_layers(config, seconds, clock, tp)
    return clock, tp


def run_layers(
    config: ModelConfig, seconds: Sequence[LayerSeconds], clock: "Clock", tp: "SimulatedParallel"
) -> None:
    """Move a clock on by what `simulate` simulates.

    Args:
        config: As of `simulate`.
        seconds: As of `simulate`.
        clock: At 0 on every rank.
        tp: The group, on that clock.
    """
    stream = ResidualStream(_NOTHING, tp)
    for index in range(config.num_hidden_layers):
        attention, mlp = ([rank[index][block] for rank in seconds] for block in (0, 1))
        layer = SimpleNamespace(
            input_layernorm=lambda x: x,
            attention=clock.block(attention),
            self_attn=clock.block(attention),
            feed_forward=clock.block(mlp),
            mlp=clock.block(mlp),
        )
        block_class(config, index).forward(cast("Any", layer), stream, cast("Any", None))
    stream.read()


# Every value is this: only the times of values are simulated.
_NOTHING = torch.zeros(())


class Clock:
    """The time on each rank, in seconds from the start of the first layer."""

    def __init__(self, ranks: int) -> None:
        self.now = [0.0] * ranks

    def block(self, seconds: Sequence[float]) -> Any:
        """A block that takes each rank so many seconds."""

        def compute(x: Tensor, context: None = None) -> Tensor:
            self.now = [now + own for now, own in zip(self.now, seconds, strict=True)]
            return x

        return compute

    def wait_until(self, moment: float) -> None:
        """Let every rank wait for a moment, unless it has passed."""
        self.now = [max(now, moment) for now in self.now]


class SimulatedParallel(TensorParallel):
    """All ranks at once: a sum arrives when the last of them has sent and the wire has carried.

    Attributes:
        sent: When each rank has sent each message.
    """

    def __init__(self, clock: Clock, wire: Wire, message_bytes: int) -> None:
        super().__init__(0, len(clock.now))
        self._clock, self._bytes = clock, message_bytes
        self._timetable = Timetable(wire)
        self.sent: list[list[float]] = []

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """Note when the message will arrive."""
        self.sent.append(self._clock.now)
        arrival = self._timetable.arrival(max(self._clock.now), self._bytes)
        wait = SimpleNamespace(wait=lambda: self._clock.wait_until(arrival))
        return PendingReduce(partial, wait)
