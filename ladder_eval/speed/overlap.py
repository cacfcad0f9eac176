"""What a residual's dependencies make of block and all-reduce times, many settings at once.

The topologies' own code runs once, as in `simulation`, but each clock is an array: one entry a
setting (batch size, link, decode step, ...). Two costs are here that the bound of `simulation`
leaves out on purpose:

* *join*: after an all-reduce, the computing stream takes up the result; nothing hides that;
* *contention*: beside an all-reduce, computing goes on at the rate 1 - contention, and beside
  computing an all-reduce goes on at the rate 1 - slowing.

With all of them 0 it is `simulation.simulate` over a serial wire for ranks that are alike.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.residual import ResidualStream
from ladder_eval.models.transformer import block_class

Seconds: TypeAlias = NDArray[np.float64]
"""Seconds of each setting, [...]."""

_NOTHING = torch.zeros(())  # every value is this: only the times of values are computed


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTimes:
    """What one layer's parts take; the arrays are broadcast against each other.

    Attributes:
        attention: Seconds of attention with its norm and the addition of its result.
        mlp: Seconds of the MLP, likewise.
        all_reduce: Seconds of one all-reduce on a link that carries one at a time.
        join: Seconds of the computing stream for taking up a result.
        saved: Seconds that a parallel layer saves: a norm and an addition.
        division: Seconds that a synchronisation of a desync model takes for dividing its stream.
        contention: Share of computing speed that a running all-reduce takes.
        slowing: Share of the all-reduce's speed that computing beside it takes.
    """

    attention: Seconds
    mlp: Seconds
    all_reduce: Seconds
    join: Seconds | float = 0.0
    saved: Seconds | float = 0.0
    division: Seconds | float = 0.0
    contention: Seconds | float = 0.0
    slowing: Seconds | float = 0.0


def stack_seconds(config: ModelConfig, times: LayerTimes) -> Seconds:
    """Seconds from the first layer's start until all outputs are in the stream, [...]."""
    clock = _Clock(times)
    stream = ResidualStream(_NOTHING, clock)
    saved = times.saved if config.topology == "parallel" else 0.0
    layer = SimpleNamespace(
        input_layernorm=lambda x: x,
        attention=clock.block(times.attention),
        self_attn=clock.block(times.attention),
        feed_forward=clock.block(times.mlp),
        mlp=clock.block(times.mlp - saved),
    )
    for index in range(config.num_hidden_layers):
        block_class(config, index).forward(cast("Any", layer), stream, cast("Any", None))
    stream.read()
    return clock.now


class _Clock(TensorParallel):
    """Ranks that are alike, and their serial link.

    Between events both computing and the link go on at constant rates, so that it is enough to
    know how much of each message in flight is left, in seconds of an undisturbed link.
    """

    def __init__(self, times: LayerTimes) -> None:
        super().__init__(0, 2)
        shape = np.broadcast_shapes(
            *(np.shape(part) for part in (times.attention, times.mlp, times.all_reduce))
        )
        self.now: Seconds = np.zeros(shape)
        self._times = times
        self._flying: list[Seconds] = []  # what is left of each message, oldest first

    def block(self, seconds: Seconds) -> Any:
        """A block that takes so many seconds where no all-reduce runs beside it."""
        taken, link = self._times.contention, 1 - self._times.slowing

        def compute(x: Tensor, context: None = None) -> Tensor:
            beside = sum(self._flying, np.zeros(())) / link
            spent = np.minimum(seconds / (1 - taken), seconds + taken * beside)
            self.now = self.now + spent
            self._carry(spent * link)
            return x

        return compute

    def _carry(self, seconds: Seconds) -> None:
        """Let the link work for so long on what is in flight."""
        for index, left in enumerate(self._flying):
            done = np.minimum(left, seconds)
            self._flying[index] = left - done
            seconds = seconds - done

    def all_reduce_async(self, partial: Tensor) -> PendingReduce:
        """Send a message; `wait` lets the clock run on until it is there."""
        message = self._times.all_reduce + np.zeros(self.now.shape)
        self._flying.append(message)

        def wait() -> None:
            left = self._flying.pop(0)  # sums are waited for in the order in which they were sent
            self.now = self.now + left + self._times.join
            self._carry(self._times.join + np.zeros(self.now.shape))

        return PendingReduce(partial, SimpleNamespace(wait=wait))

    def all_reduce(self, partial: Tensor) -> Tensor:
        """A synchronisation: only desync models ask for the sum at once."""
        self.now = self.now + self._times.division
        return self.all_reduce_async(partial).wait()
