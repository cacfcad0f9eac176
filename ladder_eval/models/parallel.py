"""The parallel residual: attention and MLP read the same norm and share one all-reduce.

    x_{l+1} = x_l + AR(attention(norm x_l) + mlp(norm x_l))

for layer l. Source: PaLM, arXiv 2204.02311, section 2.
"""

from ladder_eval.models.layers import AttentionContext, PreNormBlock
from ladder_eval.models.residual import ResidualStream


class ParallelBlock(PreNormBlock):
    """Attention and MLP side by side; the layer's second norm isn't used."""

    def forward(self, stream: ResidualStream, context: AttentionContext) -> None:
        """Advance the stream by one layer."""
        x = self.input_layernorm(stream.read())
        stream.add(self.self_attn(x, context) + self.mlp(x))
