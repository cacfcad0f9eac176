"""What each rank of a tensor-parallel group holds of a model."""

from dataclasses import dataclass
from itertools import pairwise

from ladder_eval.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shape:
    """The whole-model sizes that are divided among ranks, in Hugging Face's names."""

    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class Share:
    """One rank's part of a model.

    Attributes:
        query_heads: Its query heads.
        kv_heads: The key-value heads that they read; held by several ranks where a group is split.
        intermediate: Its channels of the MLP.
        vocabulary: Its rows of embedding and head.
    """

    query_heads: range
    kv_heads: range
    intermediate: range
    vocabulary: range


def shares(shape: Shape, tp_size: int) -> tuple[Share, ...]:
    """Divide a model among the ranks of a tensor-parallel group.

    Query heads are dealt in whole key-value groups, as evenly as possible, and stay contiguous.
    Only where there are fewer groups than ranks is a group split; its key-value head is copied.

    Raises:
        UsageError: if the model can't be divided by tp_size.
    """
    _require_divisible(shape, tp_size)
    heads = _deal_heads(shape, tp_size)
    channels = _parts(shape.intermediate_size, tp_size)
    vocabulary = _parts(shape.vocab_size, tp_size)
    return tuple(
        Share(query, kv, *rest)
        for (query, kv), *rest in zip(heads, channels, vocabulary, strict=True)
    )


def busiest_rank(shape: Shape, tp_size: int) -> int:
    """The rank with the most heads and, of equal ones, tokens: the one that others wait for.

    Raises:
        UsageError: if the model can't be divided by tp_size.
    """
    parts = shares(shape, tp_size)
    work = [(len(part.query_heads) + len(part.kv_heads), len(part.vocabulary)) for part in parts]
    return work.index(max(work))


def possible_sizes(shape: Shape) -> list[int]:
    """Every tp_size that the model can be divided by."""
    sizes = range(1, shape.num_attention_heads + 1)
    return [size for size in sizes if shape.intermediate_size % size == 0]


def _require_divisible(shape: Shape, tp_size: int) -> None:
    if tp_size in possible_sizes(shape):
        return
    if tp_size > shape.num_attention_heads:
        reason = f"exceeds num_attention_heads={shape.num_attention_heads}"
    else:
        reason = f"does not divide intermediate_size={shape.intermediate_size}"
    works = ", ".join(map(str, possible_sizes(shape)))
    raise UsageError(f"tp_size={tp_size} {reason}; this model works with {works}.")


def _deal_heads(shape: Shape, tp_size: int) -> list[tuple[range, range]]:
    groups = shape.num_key_value_heads
    width = shape.num_attention_heads // groups  # query heads in a group
    if tp_size <= groups:
        held = _parts(groups, tp_size)
        return [(range(kv.start * width, kv.stop * width), kv) for kv in held]
    # The last groups are split among one rank more, where they can't all be split alike.
    ranks = sorted(len(part) for part in _parts(tp_size, groups))
    return [
        (range(group * width + part.start, group * width + part.stop), range(group, group + 1))
        for group in range(groups)
        for part in _parts(width, ranks[group])
    ]


def _parts(size: int, count: int) -> list[range]:
    """Cut range(size) into contiguous parts of nearly equal length, the longer ones first."""
    least, longer = divmod(size, count)
    starts = [part * least + min(part, longer) for part in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(starts)]
