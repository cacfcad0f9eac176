"""Rank 0 of a group: names each operation to all ranks, and does its own part."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ladder_eval.distributed.replicas import stretches
from ladder_eval.distributed.team import Team
from ladder_eval.distributed.virtual_link import NAME as VIRTUAL
from ladder_eval.distributed.virtual_link import LinkMemory
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.batching import Batch, divided, row_tokens
from ladder_eval.engine.budget import best_tokens, made_up_batch, remembered
from ladder_eval.engine.generation import GenerationRequest, Stop
from ladder_eval.engine.ranks import BatchTooLargeError, PlacedBatch, Rank, Text
from ladder_eval.engine.scoring import LogLikelihood, TooLargeError
from ladder_eval.engine.timing import Timing
from ladder_eval.fetch import cache_folder
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.trace_records import RankTrace


class Driver:
    """Rank 0: the same methods as `Rank`, done by all ranks at once."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self._own = Rank(team)
        self._batch_tokens: int | None = None
        self._most_tokens = sys.maxsize

    def load(self, folder: Path, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """As `Rank.load`."""
        self._batch_tokens, self._most_tokens = None, sys.maxsize
        sizes: list[int] = self._everywhere("load", folder, config, dtype)
        return sizes

    def load_random(self, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """As `Rank.load_random`."""
        self._batch_tokens, self._most_tokens = None, sys.maxsize
        sizes: list[int] = self._everywhere("load_random", config, dtype)
        return sizes

    def unload(self) -> None:
        """As `Rank.unload`."""
        self._everywhere("unload")

    def arrange(self, arms: Mapping[str, ModelConfig], carrier: str | None, capacity: int) -> None:
        """As `Rank.arrange`.

        Args:
            arms: The residuals.
            carrier: VIRTUAL for a virtual link, one-shot or two-shot for kernels on symmetric
                memory, or None for the group's own backend.
            capacity: Bytes of the largest message.
        """
        if carrier != VIRTUAL:
            kernel = None if carrier is None else (carrier, capacity)
            self._everywhere("arrange", arms, None, kernel)
            return
        memory = LinkMemory(self.team.tp.size, capacity)
        try:
            self._everywhere("arrange", arms, (memory.path, memory.capacity))
        finally:
            memory.close()

    def time(
        self,
        arm: str,
        workload: Workload,
        wire: Wire | None,
        *,
        cached: int = 0,
        watched: bool = False,
        lateness: Sequence[float] = (),
    ) -> Timing:
        """As `Rank.time`, with what it took beside the generation."""
        start = perf_counter()
        timing: Timing = self._everywhere(
            "time", arm, workload, wire, cached=cached, watched=watched, lateness=lateness
        )
        return replace(timing, driver_seconds=perf_counter() - start - timing.seconds[-1])

    def trace(self, arm: str, workload: Workload, wire: Wire | None) -> list[RankTrace]:
        """As `Rank.trace`."""
        found: list[RankTrace] = self._everywhere("trace", arm, workload, wire)
        return found

    def write(
        self, arm: str, prompt_lens: Sequence[int], output_lens: Sequence[int], wire: Wire | None
    ) -> tuple[float, ...]:
        """As `Rank.write`."""
        moments: tuple[float, ...] = self._everywhere("write", arm, prompt_lens, output_lens, wire)
        return moments

    def score_as(self, arm: str, batch: Batch, wire: Wire | None) -> float:
        """As `Rank.score_as`."""
        moment: float = self._everywhere("score_as", arm, batch, wire)
        return moment

    def copied_bytes_per_second(self) -> float:
        """As `Rank.copied_bytes_per_second`."""
        speed: float = self._everywhere("copied_bytes_per_second")
        return speed

    def matmul_flops_per_second(self) -> float:
        """As `Rank.matmul_flops_per_second`."""
        speed: float = self._everywhere("matmul_flops_per_second")
        return speed

    def score(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """Batches and their answers, as soon as they are there; replicas share the batches.

        Nothing else can be asked for before the last answer is taken.

        Where a rank's memory doesn't suffice, a batch comes in parts, and so do those after it.

        Raises:
            NotFiniteError: if the model gives NaN or infinity.
            TooLargeError: if memory doesn't suffice for one row.
        """
        left = list(batches)
        while left:
            parts = list(chain(*(divided(batch, self._most_tokens) for batch in left)))
            waiting, too_large = dict(enumerate(parts)), None
            try:
                for place, answers in self._everywhere("score", self._shares(parts)):
                    yield waiting.pop(place), answers
            except BatchTooLargeError as error:
                too_large = parts[error.place]
            if too_large is not None:
                self._most_tokens = _half(too_large)
            left = list(waiting.values())

    def _shares(self, batches: Sequence[Batch]) -> list[list[PlacedBatch]]:
        placed = list(enumerate(batches))
        places = stretches([batch.tokens for batch in batches], self.team.replicas)
        return [placed[own.start : own.stop] for own in places]

    def batch_tokens(self) -> int:
        """Tokens that a batch should have with the loaded model; tried once on each machine."""
        if self._batch_tokens is None:
            self._batch_tokens = remembered(
                cache_folder() / "batch_tokens.json",
                self._own.kind(),
                lambda: best_tokens(self._seconds_of),
            )
        return self._batch_tokens

    def _seconds_of(self, tokens: int) -> float:
        """Seconds of a forward of so many tokens, the better of two."""
        batch, seconds = made_up_batch(tokens), list[float]()
        for _ in range(2):
            start = perf_counter()
            list(self.score([batch]))
            seconds.append(perf_counter() - start)
        return min(seconds)

    def generate(
        self, requests: Sequence[GenerationRequest], stops: Sequence[Stop], *, batch_size: int
    ) -> Iterator[Text]:
        """As `Rank.generate`; nothing else can be asked for before the last text is taken.

        Replicas share the prompts.
        """
        if self.team.replicas == 1:
            self.team.send(("generate", (requests,), {"batch_size": batch_size}))
            yield from self._own.generate(requests, stops, batch_size=batch_size)
            return
        prompts = list(zip(range(len(requests)), requests, stops, strict=True))
        costs = [len(request.prompt) + request.max_gen_toks for request in requests]
        own = stretches(costs, self.team.replicas)
        shares = [prompts[places.start : places.stop] for places in own]
        yield from self._everywhere("generate_shares", shares, batch_size=batch_size)

    def peak_memory(self) -> list[int]:
        """As `Rank.peak_memory`."""
        sizes: list[int] = self._everywhere("peak_memory")
        return sizes

    def peak_device_memory(self) -> list[int]:
        """As `Rank.peak_device_memory`."""
        sizes: list[int] = self._everywhere("peak_device_memory")
        return sizes

    def _everywhere(self, operation: str, *arguments: Any, **options: Any) -> Any:
        self.team.send((operation, arguments, options))
        return getattr(self._own, operation)(*arguments, **options)


def _half(batch: Batch) -> int:
    """Half the tokens of a batch that was too large.

    Raises:
        TooLargeError: if it has but one row.
    """
    if len(batch.rows) == 1:
        raise TooLargeError(min(batch.requests))
    return row_tokens(batch) // 2
