"""What a rank computes in a layer, kernel by kernel, and the seconds that a roofline gives it.

A kernel takes max(operations / reached peak, bytes / reached bandwidth) + what it takes anyway
(Williams, Waterman and Patterson, "Roofline", CACM 52, 2009, with a constant added). Operations of
a matrix product are 2·rows·inputs·outputs; its bytes are those of weights, inputs and outputs.
Elementwise kernels read and write their tensor once.

How many kernels a layer has depends on who runs it; `EXECUTIONS` counts them.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ladder_eval.distributed.shares import shares
from ladder_eval.models.config import ModelConfig
from ladder_eval.speed.constants import Calibrated

Number: TypeAlias = float | NDArray[np.float64]

_DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
_SCORE_BYTES = 4  # unfused attention keeps its scores in float32


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """How a program runs a layer: kernels by purpose, and what it does beside the least.

    The counts are of a Llama layer written in PyTorch operations, not fitted.

    Attributes:
        projections: Kernels of query, key and value together.
        gates: Kernels of gate and up together.
        norm: Kernels of a norm.
        addition: Kernels of adding an output to the stream; 0 where the next norm does it.
        rotary: Kernels of rotating queries and keys and of writing the cache.
        prefill_attention: Kernels of attention over a prompt.
        decode_attention: Kernels of attention of one token.
        activation: Kernels of silu(gate)·up.
        score_passes: How often attention over a prompt writes or reads the whole score matrix; 0
            for one that never writes it (FlashAttention).
        padded_cache: Whether attention runs over the cache's full length.
        expanded_heads: Whether keys and values are read once a query head, not once a group.
        all_logits: Whether logits of all prompt positions are computed.
        whole_head: Whether each rank computes all of the vocabulary.
    """

    projections: int
    gates: int
    norm: int
    addition: int
    rotary: int
    prefill_attention: int
    decode_attention: int
    activation: int
    score_passes: int
    padded_cache: bool
    expanded_heads: bool
    all_logits: bool
    whole_head: bool


EXECUTIONS = {
    # torch.compile: norms, rotary and silu are fused, and an addition becomes part of the norm
    # after it. Attention is a product, a masked softmax and a product; its scores are written by
    # the first, read and written by mask and softmax, read by the last.
    "compile": Execution(
        projections=1,
        gates=1,
        norm=1,
        addition=0,
        rotary=1,
        prefill_attention=3,
        decode_attention=3,
        activation=1,
        score_passes=6,
        padded_cache=True,
        expanded_heads=True,
        all_logits=True,
        whole_head=True,
    ),
    # Eager kernels in a CUDA graph, with FlashAttention: negate, concatenate, two products and a
    # sum to rotate each of query and key, two writes into the cache; attention of one token is
    # split over the keys and combined.
    "cuda_graph+flash": Execution(
        projections=1,
        gates=1,
        norm=1,
        addition=1,
        rotary=12,
        prefill_attention=1,
        decode_attention=2,
        activation=2,
        score_passes=0,
        padded_cache=False,
        expanded_heads=False,
        all_logits=True,
        whole_head=True,
    ),
    # This package's own forward.
    "eager": Execution(
        projections=3,
        gates=2,
        norm=6,
        addition=1,
        rotary=12,
        prefill_attention=1,
        decode_attention=1,
        activation=2,
        score_passes=0,
        padded_cache=False,
        expanded_heads=False,
        all_logits=False,
        whole_head=False,
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """What one forward works on.

    Attributes:
        rows: Rows of the batch.
        seq: New tokens a row.
        cached: Tokens before them, one number a forward, [...].
        capacity: Tokens that the cache has room for.
    """

    rows: int
    seq: int
    cached: Number
    capacity: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What the kernels of a rank reach.

    Attributes:
        flops: Operations a second of matrix products.
        bandwidth: Bytes a second of the memory.
        kernel: Seconds of a kernel beside its work.
        dtype_bytes: Size of a number.
    """

    flops: float
    bandwidth: float
    kernel: float
    dtype_bytes: int

    def matmul(self, rows: Number, inputs: float, outputs: float, kernels: int = 1) -> Number:
        """[rows, inputs] times [inputs, outputs], cut into so many kernels."""
        moved = self.dtype_bytes * (inputs * outputs + rows * (inputs + outputs))
        work = np.maximum(2 * rows * inputs * outputs / self.flops, moved / self.bandwidth)
        return work + kernels * self.kernel

    def elementwise(self, elements: Number, kernels: int = 1) -> Number:
        """So many kernels that each read and write this many elements."""
        return kernels * (2 * self.dtype_bytes * elements / self.bandwidth + self.kernel)


def rates(machine: Calibrated, dtype: str) -> Rates:
    """What a machine's kernels reach.

    Raises:
        UsageError: if the machine's speed with this dtype isn't known.
    """
    constants = machine.constants
    return Rates(
        flops=constants.matmul_efficiency * machine.machine.peak(dtype),
        bandwidth=constants.memory_efficiency * machine.machine.memory_bandwidth,
        kernel=constants.kernel_seconds,
        dtype_bytes=_DTYPE_BYTES[dtype],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardTimes:
    """Seconds of one rank in a forward; arrays are one entry a forward.

    Attributes:
        attention: Of a layer, with the norm before and the addition after it.
        mlp: The same of the MLP.
        head: After the layers: the last norm and the logits.
        addition_and_norm: What a parallel layer does only once.
        division: Dividing a stream by tp_size, of a desync model.
    """

    attention: Number
    mlp: Number
    head: Number
    addition_and_norm: Number
    division: Number


def forward_times(
    config: ModelConfig, tp_size: int, tokens: Tokens, rate: Rates, execution: Execution
) -> ForwardTimes:
    """Seconds of the rank that has most to do.

    Raises:
        UsageError: if the model can't be divided by tp_size.
    """
    held = shares(config.shape, tp_size)
    heads = max(len(share.query_heads) for share in held)
    kv_heads = max(len(share.kv_heads) for share in held)
    vocabulary = config.vocab_size if execution.whole_head else max(len(s.vocabulary) for s in held)
    hidden, inner = config.hidden_size, config.intermediate_size // tp_size
    count = tokens.rows * tokens.seq
    norm = rate.elementwise(count * hidden, execution.norm)
    around = norm + rate.elementwise(count * hidden, execution.addition)
    width = (heads + 2 * kv_heads) * config.head_dim
    return ForwardTimes(
        attention=around
        + rate.matmul(count, hidden, width, execution.projections)
        + rate.elementwise(count * width, execution.rotary)
        + _mixing(heads, kv_heads, config.head_dim, tokens, rate, execution)
        + rate.matmul(count, heads * config.head_dim, hidden),
        mlp=around
        + rate.matmul(count, hidden, 2 * inner, execution.gates)
        + rate.elementwise(count * inner, execution.activation)
        + rate.matmul(count, inner, hidden),
        head=norm + rate.matmul(count if execution.all_logits else tokens.rows, hidden, vocabulary),
        addition_and_norm=around,
        division=rate.elementwise(count * hidden),
    )


def _mixing(
    heads: int, kv_heads: int, head_dim: int, tokens: Tokens, rate: Rates, execution: Execution
) -> Number:
    """Attention proper: 2·2·keys·head_dim operations a query and head, half of them if causal."""
    prompt = tokens.seq > 1
    keys = tokens.capacity if execution.padded_cache else tokens.cached + tokens.seq
    masked = 0.5 if prompt and not execution.padded_cache else 1.0
    operations = masked * 4 * tokens.rows * tokens.seq * keys * heads * head_dim
    read_heads = heads if execution.expanded_heads else kv_heads
    moved = 2 * rate.dtype_bytes * tokens.rows * keys * read_heads * head_dim
    if prompt:
        kernels, passes = execution.prefill_attention, execution.score_passes
    else:
        # One token's products are too thin for matrix units, and its scores stay in the cache.
        kernels, operations, passes = execution.decode_attention, 0.0, 0
    scores = passes * _SCORE_BYTES * tokens.rows * tokens.seq * keys * heads
    work = np.maximum(operations / rate.flops, moved / rate.bandwidth) + scores / rate.bandwidth
    seconds: Number = work + kernels * rate.kernel
    return seconds
