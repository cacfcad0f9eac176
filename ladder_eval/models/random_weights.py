"""Models without a checkpoint, and models that share another's weights: for timing."""

import torch

from ladder_eval.distributed.tensor_parallel import ALONE, TensorParallel
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.transformer import Transformer

# As Llama-family models are initialised: small enough that nothing overflows in any residual.
_STANDARD_DEVIATION = 0.02


def random_model(
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    tp: TensorParallel = ALONE,
    seed: int = 0,
) -> Transformer:
    """One rank's part of a model with random weights, all of them written to memory.

    Memory that is only reserved would be read faster than any weights.
    """
    model = _empty(config, tp)
    generator = torch.Generator(device).manual_seed(seed + tp.rank)
    state = {}
    for name, weight in model.named_parameters():  # a tied head isn't named again
        state[name] = torch.ones(weight.shape, dtype=dtype, device=device)
        if weight.dim() > 1 or name.endswith(".bias"):  # the norms' weights stay 1
            state[name].normal_(0, _STANDARD_DEVIATION, generator=generator)
    model.load_state_dict(state, assign=True, strict=not config.tie_word_embeddings)
    if config.tie_word_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    return model.eval().requires_grad_(False)


def sharing(model: Transformer, config: ModelConfig, tp: TensorParallel) -> Transformer:
    """A model with another residual, or another way between ranks, on the same weights in memory.

    Raises:
        ValueError: if the shapes differ.
    """
    if config.as_standard() != model.config.as_standard():
        raise ValueError("models of different shapes can't share their weights")
    twin = _empty(config, tp)
    twin.load_state_dict(model.state_dict(), assign=True)
    return twin.eval().requires_grad_(False)


def _empty(config: ModelConfig, tp: TensorParallel) -> Transformer:
    with torch.device("meta"):
        return Transformer(config, tp)
