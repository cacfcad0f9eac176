"""The residual stream: the one place where topologies differ."""

from collections import deque

from torch import Tensor

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel


class ResidualStream:
    """A residual stream that some block outputs have not reached yet.

    Blocks hand their outputs to `add`, in order, and choose with `read` how many of the newest
    they can do without. An output is on its way for as long as its all-reduce runs, so what a
    block can do without is what communication can hide behind its computing.

    The stream x_i is [batch, seq, hidden]; an output h_i is a partial sum of the same shape.
    """

    def __init__(self, embedding: Tensor, tp: TensorParallel) -> None:
        self._value = embedding
        self._tp = tp
        self._pending: deque[PendingReduce] = deque()

    def add(self, output: Tensor) -> None:
        """Send a block's output to the stream: its all-reduce starts here."""
        self._pending.append(self._tp.all_reduce_async(output))

    def read(self, *, without_newest: int = 0) -> Tensor:
        """The stream after all but the newest outputs have arrived.

        With fewer outputs on their way than `without_newest`, none is waited for, so that the
        first blocks of a ladder both read the embedding.
        """
        while len(self._pending) > without_newest:
            self._value = self._value + self._pending.popleft().wait()
        return self._value

    def keep(self, output: Tensor) -> None:
        """Add a block's output to this rank's stream alone."""
        self._value = self.read() + output

    def synchronise(self, output: Tensor) -> None:
        """Sum the ranks' outputs, and the mean of their streams, into one stream."""
        self._value = self._tp.all_reduce(output + self.read() / self._tp.size)
