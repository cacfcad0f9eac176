"""The ladder residual: every block reads the stream one block late.

    x_i = x_{i-1} + AR(h_i(x_{i-2})),  x_{-1} = x_0 = the embedding

h_i is block i with its own norm, AR the all-reduce of tensor parallelism. Nothing is left out of
the stream; only a block's input is one output short, so that the all-reduce of block i-1 runs
while block i computes. Source: Ladder Residual, arXiv 2501.06589.
"""

from ladder_eval.models.layers import AttentionContext, PreNormBlock
from ladder_eval.models.residual import ResidualStream


class LadderBlock(PreNormBlock):
    """Attention and MLP, each doing without the output of the block before it."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the stream by one layer."""
        stream.add(self.attention(stream.read(without_newest=1), context))
        stream.add(self.feed_forward(stream.read(without_newest=1)))
