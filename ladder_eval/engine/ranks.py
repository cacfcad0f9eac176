"""A model on all ranks of a team, driven from rank 0.

What a rank can be asked to do are the public methods of `Rank`. The driver names one and its
arguments to the workers, then does the same itself, so that all take part in every collective.
"""

import platform
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TypeVar, cast

import torch
import torch.distributed as dist

from ladder_eval.distributed.emulated import EmulatedParallel
from ladder_eval.distributed.replicas import collected, post
from ladder_eval.distributed.symmetric_memory import SymmetricParallel
from ladder_eval.distributed.team import Team
from ladder_eval.distributed.virtual_link import VirtualLink
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.batching import Batch
from ladder_eval.engine.energy import EnergyCounter, total
from ladder_eval.engine.generation import Generated, GenerationRequest, Stop, generate
from ladder_eval.engine.memory import OutOfMemoryError
from ladder_eval.engine.scoring import BatchScorer, LogLikelihood, NotFiniteError
from ladder_eval.engine.timing import (
    Timing,
    copied_bytes_per_second,
    forget_peak_memory,
    keep_freed_memory,
    matmul_flops_per_second,
    time_generation,
    time_texts,
    watched_blocks,
    watched_layers,
)
from ladder_eval.engine.tracing import trace_generation
from ladder_eval.errors import LadderEvalError
from ladder_eval.models.checkpoint import load_model
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.random_weights import random_model, sharing
from ladder_eval.models.transformer import Transformer
from ladder_eval.results.provenance import peak_memory_bytes
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.trace_records import RankTrace

Prompt = tuple[int, GenerationRequest, Stop]
"""A prompt to be continued: its index, what is asked, and what else ends its text."""

Text = tuple[int, Generated]
"""What follows a prompt, after its index."""

PlacedBatch = tuple[int, Batch]
"""A batch after its place among others."""

Scored = tuple[int, dict[int, LogLikelihood]]
"""The answers to a batch, after its place."""

_T = TypeVar("_T")


class BatchTooLargeError(OutOfMemoryError):
    """A batch takes more memory than there is.

    Attributes:
        place: Its place.
    """

    def __init__(self, place: int) -> None:
        super().__init__(f"batch {place} takes more memory than there is")
        self.place = place

    def __reduce__(self) -> tuple[type["BatchTooLargeError"], tuple[int]]:
        """What pickle makes it of again, on another rank."""
        return type(self), (self.place,)


MET_BY_ALL = (LadderEvalError, NotFiniteError, OutOfMemoryError)
"""Errors that all ranks meet alike, after which they can go on."""


class Rank:
    """One rank's part of a model, and what it does when the driver says so."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._model: Transformer | None = None
        self._scorers: dict[str, BatchScorer] = {}
        self._arms: dict[str, Transformer] = {}
        self._link = team.tp
        self._energy = EnergyCounter(team.device)

    def load(self, folder: Path, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """Read this rank's part of a checkpoint, in place of an earlier one.

        Returns:
            The size of each rank's weights, in bytes.

        Raises:
            LadderEvalError: on all ranks, if it doesn't fit or one of them can't read it.
        """
        self.unload()  # make room first
        team, problem = self._team, None
        try:
            self._model = load_model(folder, config, dtype=dtype, device=team.device, tp=team.tp)
        except LadderEvalError as error:
            where = f"rank {team.rank} on {platform.node()}: " if team.rank else ""
            problem = type(error)(f"{where}{error}")
        for found in team.gather(problem):
            if found is not None:
                raise found
        return team.gather(_weight_bytes(self._model))

    def load_random(self, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """Make up this rank's part of a model, in place of an earlier one; returns as `load`."""
        self.unload()
        team = self._team
        self._model = random_model(config, dtype=dtype, device=team.device, tp=team.tp)
        return team.gather(_weight_bytes(self._model))

    def unload(self) -> None:
        """Give the model's memory back."""
        self._model, self._arms, self._scorers = None, {}, {}
        if self._team.device.type == "cuda":
            torch.cuda.empty_cache()  # or others would find it taken

    def score(self, shares: Sequence[Sequence[PlacedBatch]]) -> Iterator[Scored]:
        """Score batches with the loaded model.

        Args:
            shares: Those of each replica, with their places.

        Yields:
            On rank 0 the places of batches and their answers, as they come.

        Raises:
            NotFiniteError: on a replica's ranks and rank 0, if the model gives NaN or infinity.
            BatchTooLargeError: on the same, if one of them hasn't enough memory for a batch.
        """
        return self._of_all_replicas(self._scored(shares[self._team.replica]))

    def _scored(self, own: Sequence[PlacedBatch]) -> Iterator[Scored]:
        scorer = self._scorer("", self._loaded())
        for place, batch in own:
            try:
                answers = scorer.score(batch)
            except OutOfMemoryError:
                raise BatchTooLargeError(place) from None
            yield place, answers

    def kind(self) -> str:
        """What the pace of the loaded model depends on, in words."""
        weight, config, device = self._loaded().embed_tokens.weight, self._loaded().config, ""
        if self._team.device.type == "cuda":
            device = torch.cuda.get_device_name(self._team.device)
        return (
            f"{config.shape}, {config.residual}, {weight.dtype} on {device or platform.processor()}"
            f" ({torch.get_num_threads()} threads), tp_size {self._team.tp.size}"
        )

    def generate(
        self,
        requests: Sequence[GenerationRequest],
        stops: Sequence[Stop] = (),
        *,
        batch_size: int,
    ) -> Iterator[Text]:
        """Continue prompts with the loaded model, as `generation.generate`.

        The first rank alone knows the stops and the texts, and computes on when the next text is
        asked for; the others go along.
        """
        return generate(self._loaded(), requests, stops, batch_size=batch_size)

    def generate_shares(
        self, shares: Sequence[Sequence[Prompt]], *, batch_size: int
    ) -> Iterator[Text]:
        """Continue prompts, of which each replica has its share.

        Args:
            shares: For each replica indexes, prompts, and what else ends their texts.
            batch_size: Texts that a replica writes at a time.

        Yields:
            Indexes and texts, on rank 0, as they come.

        Raises:
            NotFiniteError: on a replica's ranks and rank 0, if the model gives NaN or infinity.
        """
        return self._of_all_replicas(self._written(shares[self._team.replica], batch_size))

    def _written(self, own: Sequence[Prompt], batch_size: int) -> Iterator[Text]:
        if not own:
            return
        places, requests, stops = zip(*own, strict=True)
        ends = stops if self._team.tp.rank == 0 else ()
        try:
            for index, text in self.generate(requests, ends, batch_size=batch_size):
                yield places[index], text
        except NotFiniteError as error:
            raise NotFiniteError(places[error.request], error.value) from None

    def arrange(
        self,
        arms: Mapping[str, ModelConfig],
        memory: tuple[str, int] | None,
        kernel: tuple[str, int] | None = None,
    ) -> None:
        """Prepare to time residuals, by name, on the loaded model's weights.

        Args:
            arms: The residuals; their shape is the loaded model's.
            memory: Path and capacity of the `LinkMemory` that carries their messages, or None for
                real messages.
            kernel: Of real messages, the algorithm and capacity of a `SymmetricParallel`, or None
                for the group's own backend.
        """
        tp, model = self._team.tp, self._loaded()
        if memory is not None:
            self._link = VirtualLink(tp.rank, tp.size, *memory)
        elif kernel is not None:
            self._link = SymmetricParallel(
                cast("dist.ProcessGroup", dist.group.WORLD), *kernel, next(model.parameters())
            )
        else:
            self._link = tp
        self._arms = {name: sharing(model, config, self._link) for name, config in arms.items()}
        self._scorers = {}
        keep_freed_memory()
        forget_peak_memory(self._team.device)
        self._team.gather(None)  # nobody goes on before all have opened the memory

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
        """Time one generation, as `time_generation`, and its blocks too if they are watched.

        On a GPU only an emulated rank's are, in a generation for that alone: what the host notes
        of each would slow down one whose time counts.

        Args:
            arm: The residual's name.
            workload: The generation's shape.
            wire: The modelled wire; None for real messages.
            cached: As of `time_generation`.
            watched: Whether to time blocks.
            lateness: Of an emulated rank, as of `EmulatedParallel.use`.
        """
        model, link = self._arms[arm], self._link
        if isinstance(link, EmulatedParallel):
            if wire is not None:
                link.use(wire, lateness)
            return self._time_emulated(model, workload, watched=watched)
        if wire is not None and isinstance(link, VirtualLink):
            link.use(wire)
        if self._team.device.type == "cuda":
            before = self._energy.joules()
            seconds = time_generation(model, workload, cached)
            return Timing(seconds=seconds, joules=self._joules_since(before))
        if not watched:
            return Timing(seconds=time_generation(model, workload, cached))
        with watched_blocks(model) as blocks:
            seconds = time_generation(model, workload, cached)
        return Timing(seconds=seconds, blocks=tuple(self._team.gather(blocks)))

    def write(
        self, arm: str, prompt_lens: Sequence[int], output_lens: Sequence[int], wire: Wire | None
    ) -> tuple[float, ...]:
        """As `time_texts` with an arranged residual, over a modelled wire or by real messages."""
        return time_texts(self._arm(arm, wire), prompt_lens, output_lens)

    def score_as(self, arm: str, batch: Batch, wire: Wire | None) -> float:
        """The moment, by `perf_counter`, at which an arranged residual has scored a batch."""
        self._scorer(arm, self._arm(arm, wire)).score(batch)  # its answers are numbers on the host
        return perf_counter()

    def _scorer(self, name: str, model: Transformer) -> BatchScorer:
        return self._scorers.setdefault(name, BatchScorer(model, sets_aside=not name))

    def _arm(self, name: str, wire: Wire | None) -> Transformer:
        if wire is not None and isinstance(self._link, VirtualLink):
            self._link.use(wire)
        return self._arms[name]

    def _time_emulated(self, model: Transformer, workload: Workload, *, watched: bool) -> Timing:
        if watched:
            with watched_blocks(model) as blocks:
                seconds = time_generation(model, workload)
            return Timing(seconds=seconds, blocks=(blocks,))
        with watched_layers(model) as layers:
            seconds = time_generation(model, workload)
        return Timing(seconds=seconds, layers=layers)

    def trace(self, arm: str, workload: Workload, wire: Wire | None) -> list[RankTrace]:
        """Trace one generation of an arm on every rank."""
        if wire is not None and isinstance(self._link, VirtualLink):
            self._link.use(wire)
        config = self._arms[arm].config
        found = trace_generation(self._loaded(), config, self._link, workload)
        return self._team.gather(found)

    def copied_bytes_per_second(self) -> float:
        """Bytes that plain copies read and write a second, of all ranks together."""
        speeds = self._team.gather(copied_bytes_per_second(self._link, self._team.device))
        return float(sum(speeds))

    def matmul_flops_per_second(self) -> float:
        """Operations that plain matrix products do a second, of all ranks together."""
        like = self._loaded().embed_tokens.weight
        speeds = self._team.gather(matmul_flops_per_second(self._link, like))
        return float(sum(speeds))

    def peak_memory(self) -> list[int]:
        """Largest resident size of each rank so far, in bytes."""
        return self._team.gather(peak_memory_bytes())

    def peak_device_memory(self) -> list[int]:
        """As `peak_memory` since the last `arrange`; on a GPU what was allocated there."""
        device = self._team.device
        if device.type == "cuda":
            return self._team.gather(torch.cuda.max_memory_allocated(device))
        return self.peak_memory()

    def _joules_since(self, before: float | None) -> float | None:
        """What all GPUs have consumed since each rank's counter said so much."""
        now = self._energy.joules()
        own = None if before is None or now is None else now - before
        return total(self._team.gather((self._energy.gpu, own)))

    def _of_all_replicas(self, own: Iterator[_T]) -> Iterator[_T]:
        """On rank 0 what all replicas find; on the others only what is left to compute."""
        team = self._team
        if team.replicas == 1:
            return own
        if team.rank == 0:
            return collected(team, own, MET_BY_ALL)
        if team.tp.rank == 0:
            post(team, own, MET_BY_ALL)
        return own

    def _loaded(self) -> Transformer:
        if self._model is None:
            raise RuntimeError("no model is loaded")
        return self._model


def serve(team: Team) -> None:
    """Be a worker: do what the driver says until it says that all is done.

    A checkpoint that doesn't fit, a NaN and a batch that is too large are met by all ranks alike;
    the driver says what becomes of them.
    """
    own = Rank(team)
    while (message := team.receive()) is not None:
        operation, arguments, options = message
        try:
            found = getattr(own, operation)(*arguments, **options)
            if isinstance(found, Iterator):
                deque(found, maxlen=0)  # compute all of it: rank 0 asks for one after the other
        except MET_BY_ALL:
            continue


def _weight_bytes(model: Transformer | None) -> int:
    weights = () if model is None else model.parameters()
    return sum(weight.numel() * weight.element_size() for weight in weights)
