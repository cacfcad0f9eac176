"""What is run: models, the hashes that tell their answers apart, and where they compute."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.shares import shares
from ladder_eval.errors import CheckpointError, UsageError
from ladder_eval.models.checkpoint import tokenizer_sha256, weights_sha256
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.selection import SelectedModel, WeightSources, dense_baseline, peek, select
from ladder_eval.options import RunOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Where and how the models compute."""

    device: torch.device
    dtype: str
    batch_size: int
    tp_size: int
    tp_check: bool

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch knows it."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One model of a run, its tokenizer, and the hashes that tell its answers from others'."""

    model: SelectedModel
    tokenizer: PreTrainedTokenizerBase
    weights_sha256: str
    tokenizer_sha256: str
    tp_size: int

    @property
    def fingerprint(self) -> str:
        """Hash of all that determines the model's answers but the dtype."""
        config = self.model.config
        parts = [json.dumps(config.to_dict(), sort_keys=True)]
        parts += [self.weights_sha256, self.tokenizer_sha256]
        if config.depends_on_tp_size:
            parts.append(repr(shares(config.shape, self.tp_size)))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def identity(self, execution: Execution) -> tuple[str, ...]:
        """All that an answer depends on beside its request, as part of the request's key."""
        return (
            self.fingerprint,
            execution.dtype,
            execution.device.type,
            f"torch {torch.__version__}",
        )


def execution_of(options: RunOptions) -> Execution:
    """What the options mean on this machine.

    Raises:
        UsageError: if there is no such device, or torchrun started another number of processes.
    """
    cuda = torch.cuda.is_available()
    name = options.device or ("cuda" if cuda else "cpu")
    device = _device(name)
    if device.type == "cuda" and (not cuda or (device.index or 0) >= torch.cuda.device_count()):
        raise UsageError(f"There is no device {name} here; use --device cpu.")
    return Execution(
        device=device,
        dtype=options.dtype or ("bfloat16" if device.type == "cuda" else "float32"),
        batch_size=options.batch_size,
        tp_size=_tp_size(options),
        tp_check=not options.no_tp_check,
    )


def _tp_size(options: RunOptions) -> int:
    place = place_from_environment(os.environ)
    if place is None:
        return options.tp or 1
    if options.tp not in (None, place.world_size):
        raise UsageError(f"torchrun started {place.world_size} processes, not --tp {options.tp}.")
    return place.world_size


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UsageError(f"Unknown device {name!r}; give cpu, cuda or cuda:N.")
    return device


def select_arms(
    options: RunOptions, tp_size: int, notify: Callable[[str], None]
) -> tuple[list[Arm], str | None]:
    """The baseline, if any, then the candidates; and the baseline's name.

    Raises:
        LadderEvalError: if a model can't be had, read, divided or compared.
    """
    # Refuse before anything is fetched or read.
    if options.residual.residual == "no-comm":
        raise UsageError("no-comm is a bound on speed; its outputs mean nothing to be scored.")
    for name in filter(None, (*options.model, options.baseline)):
        if config := peek(name):
            shares(config.shape, tp_size)
    sources = WeightSources(
        model_dir=options.model_dir, prefer_hub=options.prefer_hub, notify=notify
    )
    candidates = [select(name, choice=options.residual, sources=sources) for name in options.model]
    wanted = options.baseline
    if wanted is None and not options.no_baseline:
        wanted = dense_baseline(candidates)
    if wanted is None:
        return _arms(candidates, tp_size), None
    baseline = select(wanted, choice=ResidualChoice(), sources=sources)
    others = [model for model in candidates if not _same(model, baseline)]
    if not others:
        raise UsageError(f"{baseline.name} can't be compared with itself; give another --model.")
    return _arms([baseline, *others], tp_size), baseline.name


def _same(model: SelectedModel, other: SelectedModel) -> bool:
    return (model.folder, model.config) == (other.folder, other.config)


def _arms(models: Sequence[SelectedModel], tp_size: int) -> list[Arm]:
    names = [model.name for model in models]
    if len(set(names)) != len(names):
        raise UsageError(
            f"Two models have the name {max(names, key=names.count)}; rename one's folder."
        )
    for model in models:
        shares(model.config.shape, tp_size)
    return [_arm(model, tp_size) for model in models]


def _arm(model: SelectedModel, tp_size: int) -> Arm:
    return Arm(
        model=model,
        tokenizer=_tokenizer(model.folder),
        weights_sha256=weights_sha256(model.folder),
        tokenizer_sha256=tokenizer_sha256(model.folder),
        tp_size=tp_size,
    )


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # a damaged file surfaces as anything
        raise CheckpointError(f"The tokenizer in {folder} can't be read: {error!r}.") from None
    return tokenizer
