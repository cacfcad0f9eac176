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
) -> Work:
    """What one generation asks of the ranks that hold these parts.

    Args:
        config: The model.
        workload: The generation's shape.
        parts: What each rank holds.
        weight_bytes: Of all these ranks.
        dtype_bytes: Size of a number.
    """
    return Work(
        ranks=len(parts),
        prefill_flops=prefill_flops(config, workload),
        step_bytes=step_bytes(config, workload, parts, weight_bytes, dtype_bytes),
    )


def prefill_flops(config: ModelConfig, workload: Workload) -> float:
    """Operations of reading the prompts: matrix products and causal attention, of the whole model.

    A product of [m, k] and [k, n] is 2·m·k·n operations. Scores and their sum over values are each
    2·head_dim a query head, query and key that it may look at, of which a prompt of n tokens has
    n·(n + 1) / 2. The head is needed at each prompt's last token alone.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    tokens = workload.batch_size * workload.prompt_len
    widths = 2 * heads + 2 * config.num_key_value_heads  # query and output, key and value
    linears = hidden * (config.head_dim * widths + 3 * config.intermediate_size)
    pairs = workload.batch_size * workload.prompt_len * (workload.prompt_len + 1) / 2
    layer = 2 * tokens * linears + 4 * config.head_dim * heads * pairs
    head = 2 * workload.batch_size * hidden * config.vocab_size
    return config.num_hidden_layers * layer + head


def step_bytes(
    config: ModelConfig,
    workload: Workload,
    parts: Sequence[Share],
    weight_bytes: int,
    dtype_bytes: int,
) -> float:
    """Weights, and keys and values with half of the answer in place, that a decode step reads.

    Arguments as of `work_of`.
    """
    cached = workload.batch_size * (workload.prompt_len + workload.output_len / 2)
    kv_heads = sum(len(part.kv_heads) for part in parts)
    cache = 2 * config.num_hidden_layers * kv_heads * config.head_dim * cached
    # Of an embedding that isn't the head as well, a step reads a few rows.
    unread = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    return weight_bytes + (cache - unread) * dtype_bytes
