"""How long scoring should take, from a moment's work on the device itself."""

import time

import torch
from torch import nn

from ladder_eval.models.config import ModelConfig

_TOKENS = 256
_REPEATS = 3


@torch.inference_mode()
def seconds_per_token(config: ModelConfig, *, dtype: torch.dtype, device: torch.device) -> float:
    """Seconds that all linear layers of a model take for a token of a batch.

    Times one layer's matrix products with random values, best of three. Attention, norms and
    the head come on top, so the true time is somewhat longer.
    """
    query = config.num_attention_heads * config.head_dim
    rows = 2 * query + 2 * config.num_key_value_heads * config.head_dim
    rows += 3 * config.intermediate_size
    # One matrix with as many rows as all of a layer's together: the same number of products.
    layer = nn.Linear(config.hidden_size, rows, bias=False, dtype=dtype, device=device)
    tokens = torch.randn(_TOKENS, config.hidden_size, dtype=dtype, device=device)
    times = [_timed(layer, tokens) for _ in range(1 + _REPEATS)][1:]
    return config.num_hidden_layers * min(times) / _TOKENS


def _timed(layer: nn.Module, tokens: torch.Tensor) -> float:
    start = time.perf_counter()
    # Copying a number to the CPU waits until the device has computed it.
    float(layer(tokens)[0, 0])
    return time.perf_counter() - start
