"""The desynchronised residual: ranks keep streams of their own, and sum them now and then.

    x_i^r = x_{i-1}^r + h_i^r(x_{i-1}^r)              on rank r, between two synchronisations
    x_i   = AR(h_i^r(x_{i-1}^r) + x_{i-1}^r / T)      at a synchronisation; T is tp_size

h_i^r is rank r's part of block i, with its own norm. Desync-2x synchronises after each MLP,
desync-4x after every second layer's and after the last. With one rank it is the standard residual.
Source: Ladder Residual, arXiv 2501.06589, section on desynchronised residuals.
"""

from ladder_eval.models.layers import AttentionContext, PreNormBlock
from ladder_eval.models.residual import ResidualStream


class DesyncBlock(PreNormBlock):
    """A layer that leaves the ranks' streams apart."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the streams by one layer."""
        stream.keep(self.attention(stream.read(), context))
        stream.keep(self.feed_forward(stream.read()))


class SyncBlock(PreNormBlock):
    """A layer whose MLP brings the ranks' streams together."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the streams by one layer, and make them one."""
        stream.keep(self.attention(stream.read(), context))
        stream.synchronise(self.feed_forward(stream.read()))
