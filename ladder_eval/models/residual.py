"""The residual stream: the one place where topologies differ."""

from collections import deque

from torch import Tensor


class ResidualStream:
    """A residual stream that some block outputs have not reached yet.

    Blocks hand their outputs to `add`, in order, and choose with `read` how many of the newest
    they can do without. Under tensor parallelism an output is on its way for as long as its
    all-reduce runs, so what a block can do without is what communication can hide behind it.

    The stream x_i and the outputs h_i are [batch, seq, hidden].
    """

    def __init__(self, embedding: Tensor) -> None:
        self._value = embedding
        self._pending: deque[Tensor] = deque()

    def add(self, output: Tensor) -> None:
        """Send a block's output to the stream."""
        self._pending.append(output)

    def read(self, *, without_newest: int = 0) -> Tensor:
        """The stream after all but the newest outputs have been added.

        With fewer outputs pending than `without_newest`, none is waited for, so that the first
        blocks of a ladder both read the embedding.
        """
        while len(self._pending) > without_newest:
            self._value = self._value + self._pending.popleft()
        return self._value
