"""No communication: every block's all-reduce is left out.

    x_i^r = x_{i-1}^r + h_i^r(x_{i-1}^r)

A bound on speed. What it computes means nothing and is never scored.
"""

from ladder_eval.models.layers import AttentionContext, PreNormBlock
from ladder_eval.models.residual import ResidualStream


class NoCommBlock(PreNormBlock):
    """A layer in which each rank keeps its own partial sums."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the streams by one layer."""
        stream.keep(self.attention(stream.read(), context))
        stream.keep(self.feed_forward(stream.read()))
