"""What a generation asks of its ranks, as counts: floating-point operations and bytes.

Model FLOP utilisation is the operations that the model needs by those that the hardware could have
done meanwhile, whatever it did beside them (PaLM, arXiv 2204.02311, section 4.1 and appendix B);
model bandwidth utilisation is the same of the bytes of weights and cache (Databricks, "LLM
Inference Performance Engineering: Best Practices", 2023). Both are here by what a plain matrix
product and a plain copy reach on all ranks at the same time, not by a data sheet.
"""

from collections.abc import Sequence

from ladder_eval.distributed.shares import Share
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Work, Workload


def work_of(
    config: ModelConfig,
    workload: Workload,
    parts: Sequence[Share],
    weight_bytes: int,
    dtype_bytes: int,
    *,
    ranks: int,
    layers: int | None = None,
) -> Work:
    """What one generation asks of the ranks that hold these parts.

    Args:
        config: The model as it is timed.
        workload: The generation's shape.
        parts: What each of these ranks holds.
        weight_bytes: Of all these ranks.
        dtype_bytes: Size of a number.
        ranks: Ranks of the group, which are more than these where one is emulated.
        layers: Layers that times are extrapolated to; None where all are timed.
    """
    more = 1.0 if layers is None else layers / config.num_hidden_layers
    return Work(
        ranks=ranks,
        prefill_flops=prefill_flops(config, workload, parts, more),
        step_bytes=step_bytes(config, workload, parts, weight_bytes / dtype_bytes, more)
        * dtype_bytes,
    )


def prefill_flops(
    config: ModelConfig, workload: Workload, parts: Sequence[Share], more: float = 1.0
) -> float:
    """Operations of reading the prompts: matrix products and causal attention, as `read_flops`.

    The queries of a prompt of n tokens look at n·(n + 1) / 2 keys. The head is needed at each
    prompt's last token alone.

    Args:
        config: The model.
        workload: The generation's shape.
        parts: What each rank holds.
        more: How many times the layers of the model count.
    """
    tokens = workload.batch_size * workload.prompt_len
    pairs = workload.batch_size * workload.prompt_len * (workload.prompt_len + 1) / 2
    return read_flops(
        config, parts, tokens=tokens, pairs=pairs, predicted=workload.batch_size, more=more
    )


def read_flops(
    config: ModelConfig,
    parts: Sequence[Share],
    *,
    tokens: float,
    pairs: float,
    predicted: float,
    more: float = 1.0,
) -> float:
    """Operations of reading tokens: linear layers, attention, and logits where they are needed.

    A product of [m, k] and [k, n] is 2·m·k·n operations. Scores and their sum over values are each
    2·head_dim a query head, query and key that it may look at.

    Args:
        config: The model.
        parts: What each rank holds.
        tokens: Tokens that are read.
        pairs: Queries and keys that they may look at, themselves included.
        predicted: Tokens after which logits are needed.
        more: How many times the layers of the model count.
    """
    hidden, dim = config.hidden_size, config.head_dim
    heads = sum(len(part.query_heads) for part in parts)
    kv_heads = sum(len(part.kv_heads) for part in parts)
    channels = sum(len(part.intermediate) for part in parts)
    # Query and output, key and value; gate, up and down.
    linears = hidden * (dim * (2 * heads + 2 * kv_heads) + 3 * channels)
    layer = 2 * tokens * linears + 4 * dim * heads * pairs
    head = 2 * predicted * hidden * sum(len(part.vocabulary) for part in parts)
    return more * config.num_hidden_layers * layer + head


def step_bytes(
    config: ModelConfig,
    workload: Workload,
    parts: Sequence[Share],
    weights: float,
    more: float = 1.0,
) -> float:
    """Numbers that a decode step reads: weights, and keys and values with half of the answer there.

    Args:
        config: The model.
        workload: The generation's shape.
        parts: What each rank holds.
        weights: How many weights these ranks have.
        more: How many times the layers of the model count.
    """
    cached = workload.batch_size * (workload.prompt_len + workload.output_len / 2)
    kv_heads = sum(len(part.kv_heads) for part in parts)
    cache = 2 * config.num_hidden_layers * kv_heads * config.head_dim * cached
    embedding = sum(len(part.vocabulary) for part in parts) * config.hidden_size
    head = embedding + len(parts) * config.hidden_size  # with the last norm
    # Of an embedding that isn't the head as well, a step reads a few rows.
    unread = 0 if config.tie_word_embeddings else embedding
    return head + more * (weights - unread - head + cache)
