"""The standard residual: every block reads all that came before it.

    x_i = x_{i-1} + AR(h_i(x_{i-1}))

h_i is block i with its own norm, AR the all-reduce of tensor parallelism.
"""

from ladder_eval.models.layers import AttentionContext, PreNormBlock
from ladder_eval.models.residual import ResidualStream


class StandardBlock(PreNormBlock):
    """Attention and MLP, each waiting for the output of the block before it."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the stream by one layer."""
        stream.add(self.attention(stream.read(), context))
        stream.add(self.feed_forward(stream.read()))
