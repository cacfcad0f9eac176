"""What one generation takes on a rank, and what the rank's memory gives: the clocks of `bench`.

Rank 0's clock is enough: a token exists only when all ranks have sent their part of its choice.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.engine.decoding import decode, most_likely
from ladder_eval.models.transformer import Transformer
from ladder_eval.results.speed_records import Workload

_COPIED_BYTES = 128 * 2**20
_COPIES = 5
# Rows and columns of a plain matrix product: enough to keep a core, or a GPU, busy.
_CPU_MATMUL_SIZE, _GPU_MATMUL_SIZE = 1024, 8192
_MATMULS = 3
_SEED = 0
# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4

BlockSeconds = list[list[tuple[float, float]]]
"""Seconds of attention and MLP, of each layer, of each forward."""

LayerSeconds = list[list[float]]
"""Seconds of each layer, of each forward."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """One generation.

    Attributes:
        seconds: From the start, at which all ranks are ready, to each token, [output_len].
        blocks: Of each rank, the seconds of its blocks; empty unless they were watched.
        driver_seconds: What the driver took beside it, to tell the ranks and to hear from them.
        layers: Of an emulated rank, the seconds of its layers; empty if blocks were watched.
        joules: What the GPUs of all ranks consumed; None where they don't say.
    """

    seconds: tuple[float, ...]
    blocks: tuple[BlockSeconds, ...] = ()
    driver_seconds: float = 0.0
    layers: LayerSeconds = field(default_factory=list)
    joules: float | None = None


def time_generation(model: Transformer, workload: Workload, cached: int = 0) -> tuple[float, ...]:
    """Seconds from a common start to each token; all ranks call this together.

    Args:
        model: One rank's part of a model.
        workload: The generation's shape; its prompt is made up, the same on all ranks.
        cached: Tokens that the cache pretends to hold already, to time decoding alone.
    """
    device = model.embed_tokens.weight.device
    shape = (workload.batch_size, workload.prompt_len)
    generator = torch.Generator().manual_seed(_SEED)
    prompt = torch.randint(model.config.vocab_size, shape, generator=generator).to(device)
    cache = model.new_cache(
        workload.batch_size, cached + workload.prompt_len + workload.output_len - 1
    )
    cache.length = cached
    with _undisturbed():
        _meet(model.tp, device)
        start = _now(device)
        tokens = decode(model, prompt, cache, partial(most_likely, model))
        return tuple(_now(device) - start for _ in islice(tokens, workload.output_len))


@contextmanager
def watched_blocks(model: Transformer) -> Iterator[BlockSeconds]:
    """Time every block of every forward within.

    On a GPU the host doesn't wait for them, but notes more than it would without.
    """
    forwards: BlockSeconds = []
    marks: list[_Mark] = []
    mark = _marker(model)
    for layer in model.layers:
        for name in ("attention", "feed_forward"):
            setattr(layer, name, _marked(getattr(layer, name), mark, marks, end=True))
    try:
        yield forwards
    finally:
        for layer in model.layers:
            del layer.attention, layer.feed_forward  # the class's own appear again
        # Not strict: an error may have come between the two, and is what should be told.
        seconds = [a.until(b) for a, b in zip(marks[::2], marks[1::2], strict=False)]
        pairs = list(zip(seconds[::2], seconds[1::2], strict=False))
        count = len(model.layers)
        forwards += [pairs[start : start + count] for start in range(0, len(pairs), count)]


@contextmanager
def watched_layers(model: Transformer) -> Iterator[LayerSeconds]:
    """Time every layer of every forward within, from its start to that of the next.

    What a layer waits for counts with it. The last ends when it has handed on its outputs.
    """
    forwards: LayerSeconds = []
    marks: list[_Mark] = []
    mark, last = _marker(model), len(model.layers) - 1
    for index, layer in enumerate(model.layers):
        layer.forward = _marked(layer.forward, mark, marks, end=index == last)
    try:
        yield forwards
    finally:
        for layer in model.layers:
            del layer.forward
        count = len(model.layers) + 1
        for start in range(0, len(marks), count):
            forward = marks[start : start + count]
            forwards.append([a.until(b) for a, b in pairwise(forward)])


def copied_bytes_per_second(tp: TensorParallel, device: torch.device) -> float:
    """Bytes read and written a second by a plain copy, while all ranks copy; the best of five."""
    source = torch.ones(_COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    best = float("inf")
    for _ in range(_COPIES):
        _meet(tp, device)
        start = _now(device)
        target.copy_(source)
        best = min(best, _now(device) - start)
    return 2 * _COPIED_BYTES / best


def matmul_flops_per_second(tp: TensorParallel, like: Tensor) -> float:
    """Operations a second of a plain matrix product, while all ranks do one; the best of three.

    Args:
        tp: The group.
        like: A tensor whose dtype and device the matrices take.
    """
    size = _GPU_MATMUL_SIZE if like.is_cuda else _CPU_MATMUL_SIZE
    # Ones, since denormal products of uninitialised numbers would take longer.
    left, right = (torch.ones(size, size, dtype=like.dtype, device=like.device) for _ in "ab")
    product = left @ right
    best = float("inf")
    for _ in range(_MATMULS):
        _meet(tp, like.device)
        start = _now(like.device)
        torch.matmul(left, right, out=product)
        best = min(best, _now(like.device) - start)
    return 2 * size**3 / best


def keep_freed_memory() -> None:
    """Let what is freed stay with the process, so that no time goes into getting it again.

    glibc gives large pieces back at once, and new ones arrive page by page: by turns that costs a
    trial nothing or a twentieth of its time. Other C libraries stay as they are.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def forget_peak_memory(device: torch.device) -> None:
    """Let the largest size that the process has had, or has allocated on its GPU, count anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # Linux has a switch for it; elsewhere the earlier peak stays
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


class _HostMark:
    """A moment of a CPU."""

    def __init__(self) -> None:
        self._at = perf_counter()

    def until(self, later: "_HostMark") -> float:
        return later._at - self._at


class _DeviceMark:
    """The moment at which a GPU's stream has done what it was given before."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def until(self, later: "_DeviceMark") -> float:
        later._event.synchronize()
        seconds: float = 1e-3 * self._event.elapsed_time(later._event)
        return seconds


_Mark = Any  # one of both kinds, and all of a generation of the same


def _marker(model: Transformer) -> Callable[[], _Mark]:
    return _DeviceMark if model.embed_tokens.weight.is_cuda else _HostMark


def _marked(
    function: Callable[..., Any], mark: Callable[[], _Mark], marks: list[_Mark], *, end: bool
) -> Callable[..., Any]:
    """The function, which marks its start and, if so asked, its end."""

    def marked(*arguments: Any) -> Any:
        marks.append(mark())
        result = function(*arguments)
        if end:
            marks.append(mark())
        return result

    return marked


def _now(device: torch.device) -> float:
    """Seconds, after the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()


def _meet(tp: TensorParallel, device: torch.device) -> None:
    """Wait until all ranks are here."""
    tp.all_gather(torch.zeros(1, device=device))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep Python from collecting garbage in the middle of a measurement."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
