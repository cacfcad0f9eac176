"""The speed-ups that the Ladder-Residual paper prints. Needs neither torch nor the models.

Source: arXiv 2501.06589 (ICML 2025), the tables of inference speed: fp16, 1024 tokens in, 512 out.
`p2p` is with NVLink; `host` is without it (NCCL_P2P_DISABLE=1).
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["PUBLISHED_SPEEDUPS", "PublishedSpeedup"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedSpeedup:
    """A speed-up over standard in tokens/s.

    Attributes:
        size: What the paper calls the model.
        model: The named model that has its shape.
        residual: What is compared with standard.
        link: p2p or host.
        tp_size: Ranks.
        nodes: Nodes that they are on.
        batch_size: Rows.
        speedup: As printed.
        heads: Attention heads where they were timed with others than the model has.
        kv_heads: The same of key-value heads.
    """

    size: str
    model: str
    residual: str
    link: str
    tp_size: int
    nodes: int
    batch_size: int
    speedup: float
    heads: int | None = None
    kv_heads: int | None = None


def _sizes(
    size: str,
    model: str,
    p2p: float,
    host: float,
    *,
    nodes: int = 1,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> tuple[PublishedSpeedup, ...]:
    """Ladder with batch size 4 on eight ranks a node, with NVLink and without."""
    return tuple(
        PublishedSpeedup(
            size=size,
            model=model,
            residual="ladder",
            link=link,
            tp_size=8 * nodes,
            nodes=nodes,
            batch_size=4,
            speedup=speedup,
            heads=heads,
            kv_heads=kv_heads,
        )
        for link, speedup in (("p2p", p2p), ("host", host))
    )


def _70b(residual: str, link: str, percent: float) -> PublishedSpeedup:
    """The table of batch size 1 prints how many percent more tokens/s there are."""
    return PublishedSpeedup(
        size="70B",
        model="standard_70b",
        residual=residual,
        link=link,
        tp_size=8,
        nodes=1,
        batch_size=1,
        speedup=1 + percent / 100,
    )


# 3B was timed with 32 heads and 405B with 16 key-value heads, so that the ranks divide them.
PUBLISHED_SPEEDUPS: Final = (
    *_sizes("1B", "standard_1b", 1.56, 1.39),
    *_sizes("3B", "standard_3b", 1.57, 1.50, heads=32, kv_heads=32),
    *_sizes("8B", "standard_8b", 1.46, 1.40),
    *_sizes("34B", "standard_34b", 1.44, 1.47),
    *_sizes("70B", "standard_70b", 1.29, 1.59),
    *_sizes("176B", "standard_176b", 1.35, 1.54),
    *_sizes("405B", "standard_405b", 1.31, 1.57, nodes=2, kv_heads=16),
    _70b("ladder", "p2p", 30.79),
    _70b("ladder", "host", 59.87),
    _70b("parallel", "p2p", 21.75),
)
