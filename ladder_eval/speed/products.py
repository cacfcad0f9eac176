"""What a model's matrix products reach alone: the limit that everything around them is held to."""

from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional

# Rows of logits at once; those of a long text and a large vocabulary would fill the memory.
_HEAD_ROWS = 256
_PASSES = 3


@torch.inference_mode()
def products_flops_per_second(
    linears: Sequence[Tensor], head: Tensor, *, rows: int, head_rows: int
) -> float:
    """Operations a second of one batch's linear layers and logits alone; the best of three.

    Every layer's own weights are read, in the model's order, as in a forward.

    Args:
        linears: The layers' weights, each [out, in].
        head: The head's, [vocabulary, hidden].
        rows: Tokens of the batch.
        head_rows: How many of them need logits.
    """
    inputs = {w.shape[1]: _ones(rows, w) for w in linears}
    states = _ones(head_rows, head).split(_HEAD_ROWS)
    best = min(_seconds(linears, inputs, head, states) for _ in range(_PASSES))
    operations = 2 * (rows * sum(w.numel() for w in linears) + head_rows * head.numel())
    return operations / best


def _seconds(
    linears: Sequence[Tensor], inputs: dict[int, Tensor], head: Tensor, states: Sequence[Tensor]
) -> float:
    start = _now(head.device)
    for weight in linears:
        functional.linear(inputs[weight.shape[1]], weight)
    for piece in states:
        functional.linear(piece, head)
    return _now(head.device) - start


def _ones(rows: int, like: Tensor) -> Tensor:
    return torch.ones(rows, like.shape[1], dtype=like.dtype, device=like.device)


def _now(device: torch.device) -> float:
    """Seconds, after the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()
