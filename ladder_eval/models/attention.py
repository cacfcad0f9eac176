"""Attention itself: queries to the keys and values that they may look at."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor
from torch.nn import functional


class Attending(Protocol):
    """One layer's memory of earlier tokens."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Keep the keys and values of new tokens, and attend to them and to those kept before.

        Arguments and result are those of `attend`, but that the mask may cover what was kept.
        """


class Memory(Protocol):
    """All layers' memory of earlier tokens."""

    @property
    def layers(self) -> Sequence[Attending]:
        """One a layer."""

    @property
    def length(self) -> int:
        """Number of columns before the tokens that come next."""


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of query heads to fewer key-value heads, each of which several of them share.

    The result is shaped as the queries.

    Args:
        query: [batch, heads/tp, seq, head_dim].
        key: [batch, kv_heads/tp, keys, head_dim].
        value: The same.
        mask: Which keys each query may look at; None for all up to its own.
    """
    if query.shape[2] == 1:  # it stands last, and may look at everything
        return attend_in_groups(query, key, value, mask)
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=key.shape[1] != query.shape[1],
    )


def attend_in_groups(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """As `attend`, but without a mask every query looks at all keys.

    The heads of a group are given as queries of one head: on a CPU, torch would copy all keys and
    values for each of them instead, which at 2,000 cached tokens and three heads a group takes ten
    times as long.

    Args:
        query: [batch, heads/tp, seq, head_dim].
        key: [batch, kv_heads/tp, keys, head_dim].
        value: The same.
        mask: What may be looked at, or what is added to scores, by queries as `in_groups` has them:
            [batch or 1, 1, group · seq or 1, keys].
    """
    grouped = in_groups(query, key.shape[1])
    mixed = functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask)
    return mixed.view_as(query)


def in_groups(query: Tensor, kv_heads: int) -> Tensor:
    """The queries of heads that share a key-value head, one head's after another's, as of one head.

    [batch, heads/tp, seq, head_dim] → [batch, kv_heads/tp, group · seq, head_dim].
    """
    return query.reshape(query.shape[0], kv_heads, -1, query.shape[3])
