"""Models that don't fit in memory: timed on fewer layers, and said so."""

from dataclasses import replace

from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload

# What may be filled of the memory that is free: the estimate below is rough.
_USABLE = 0.85
# A rank's interpreter, torch, and the buffers of a plain copy.
_RANK_BYTES = 700 * 2**20
# With fewer, a ladder's first layer, both blocks of which read the embedding, would be all.
_LEAST_LAYERS = 2
_LEAST_VOCABULARY = 4096


def fitted(
    config: ModelConfig, workload: Workload, tp_size: int, dtype_bytes: int, free_bytes: int
) -> ModelConfig:
    """The model itself, or with as many layers as fit; with few tokens if not even two would.

    Layers are left out evenly, so that a hybrid keeps its share of ladder layers.

    Raises:
        UsageError: if two layers don't fit.
    """

    def fits(candidate: ModelConfig) -> bool:
        needed = needed_bytes(candidate, workload, tp_size, dtype_bytes)
        return needed <= _USABLE * free_bytes

    if fits(config):
        return config
    for vocabulary in (config.vocab_size, min(config.vocab_size, _LEAST_VOCABULARY)):
        cut = replace(config, vocab_size=vocabulary)
        for count in range(config.num_hidden_layers, _LEAST_LAYERS - 1, -1):
            if fits(candidate := with_layers(cut, count)):
                return candidate
    least = needed_bytes(with_layers(cut, _LEAST_LAYERS), workload, tp_size, dtype_bytes)
    raise UsageError(
        f"Two layers of this model take {least / _USABLE / 2**30:.0f} GiB to be timed, and "
        f"{free_bytes / 2**30:.0f} GiB are free; use a larger machine, or --dtype bfloat16."
    )


def with_layers(config: ModelConfig, count: int) -> ModelConfig:
    """The model with fewer layers, each with the residual of the one that it stands for."""
    # Each new layer stands for the one in the middle of its part of the stack.
    kept = [(2 * index + 1) * config.num_hidden_layers // (2 * count) for index in range(count)]
    ladder = tuple(new for new, old in enumerate(kept) if old in config.ladder_layers)
    if config.ladder_layers and not ladder:
        ladder = (count - 1,)  # what is timed as a hybrid has to be one
    return replace(config, num_hidden_layers=count, ladder_layers=ladder)


def needed_bytes(config: ModelConfig, workload: Workload, tp_size: int, dtype_bytes: int) -> int:
    """About what all ranks together need: weights, caches, the prompt's activations, logits."""
    tokens = workload.batch_size * workload.prompt_len
    # A key-value head that several ranks read is held by each.
    kv_heads = max(config.num_key_value_heads, tp_size)
    cached = workload.batch_size * (workload.prompt_len + workload.output_len)
    cache = 2 * config.num_hidden_layers * cached * kv_heads * config.head_dim * dtype_bytes
    wide = 8 * tp_size * config.hidden_size + 3 * config.intermediate_size
    logits = 4 * workload.batch_size * config.vocab_size
    weights = config.parameters * dtype_bytes
    return weights + cache + tokens * wide * dtype_bytes + logits + tp_size * _RANK_BYTES
