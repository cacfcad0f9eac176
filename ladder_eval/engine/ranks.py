"""A model on all ranks of a group, driven from rank 0.

What a rank can be asked to do are the public methods of `Rank`. The driver names one and its
arguments to the workers, then does the same itself, so that all take part in every collective.
"""

import platform
from pathlib import Path
from typing import Any

import torch

from ladder_eval.distributed.launch import Team
from ladder_eval.engine.batching import Batch
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError, score_batch
from ladder_eval.errors import LadderEvalError
from ladder_eval.models.checkpoint import load_model
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.transformer import Transformer
from ladder_eval.results.provenance import peak_memory_bytes


class Rank:
    """One rank's part of a model, and what it does when the driver says so."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._model: Transformer | None = None

    def load(self, folder: Path, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """Read this rank's part of a checkpoint, in place of an earlier one.

        Returns:
            The size of each rank's weights, in bytes.

        Raises:
            LadderEvalError: on all ranks, if it doesn't fit or one of them can't read it.
        """
        self._model = None  # make room first
        team, problem = self._team, None
        try:
            self._model = load_model(folder, config, dtype=dtype, device=team.device, tp=team.tp)
        except LadderEvalError as error:
            where = f"rank {team.tp.rank} on {platform.node()}: " if team.tp.rank else ""
            problem = type(error)(f"{where}{error}")
        for found in team.gather(problem):
            if found is not None:
                raise found
        return team.gather(_weight_bytes(self._model))

    def unload(self) -> None:
        """Give the model's memory back."""
        self._model = None

    def score(self, batch: Batch) -> dict[int, LogLikelihood]:
        """Score a batch with the loaded model.

        Raises:
            NotFiniteError: if the model gives NaN or infinity.
        """
        if self._model is None:
            raise RuntimeError("no model is loaded")
        return score_batch(self._model, batch)

    def peak_memory(self) -> list[int]:
        """Largest resident size of each rank so far, in bytes."""
        return self._team.gather(peak_memory_bytes())


class Driver:
    """Rank 0: the same methods as `Rank`, done by all ranks at once."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self._own = Rank(team)

    def load(self, folder: Path, config: ModelConfig, dtype: torch.dtype) -> list[int]:
        """As `Rank.load`."""
        sizes: list[int] = self._everywhere("load", folder, config, dtype)
        return sizes

    def unload(self) -> None:
        """As `Rank.unload`."""
        self._everywhere("unload")

    def score(self, batch: Batch) -> dict[int, LogLikelihood]:
        """As `Rank.score`."""
        answers: dict[int, LogLikelihood] = self._everywhere("score", batch)
        return answers

    def peak_memory(self) -> list[int]:
        """As `Rank.peak_memory`."""
        sizes: list[int] = self._everywhere("peak_memory")
        return sizes

    def _everywhere(self, operation: str, *arguments: Any) -> Any:
        self.team.send((operation, arguments))
        return getattr(self._own, operation)(*arguments)


def serve(team: Team) -> None:
    """Be a worker: do what the driver says until it says that all is done.

    A checkpoint that doesn't fit and a NaN are met by all ranks alike; the driver reports them.
    """
    own = Rank(team)
    while (message := team.receive()) is not None:
        operation, arguments = message
        try:
            getattr(own, operation)(*arguments)
        except (LadderEvalError, NotFiniteError):
            continue


def _weight_bytes(model: Transformer | None) -> int:
    weights = () if model is None else model.parameters()
    return sum(weight.numel() * weight.element_size() for weight in weights)
