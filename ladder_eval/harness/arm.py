"""A model that can answer requests: its tokenizer, and what tells its answers from others'."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from ladder_eval.distributed.shares import shares
from ladder_eval.errors import CheckpointError
from ladder_eval.execution import Execution
from ladder_eval.models.checkpoint import tokenizer_sha256, weights_sha256
from ladder_eval.models.config_values import printable, shown
from ladder_eval.models.selection import SelectedModel
from ladder_eval.models.stored import read_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One model to be scored.

    Attributes:
        model: What it is.
        folder: Its checkpoint.
        tokenizer: Its tokenizer.
        eos: The tokens that end a text that it generates.
        weights_sha256: Hash of its weights.
        tokenizer_sha256: Hash of its tokenizer.
        tp_size: Number of its ranks.
    """

    model: SelectedModel
    folder: Path
    tokenizer: PreTrainedTokenizerBase
    eos: tuple[int, ...]
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


def arm_of(model: SelectedModel, folder: Path, tp_size: int) -> Arm:
    """A model whose checkpoint lies in a folder, on so many ranks.

    Raises:
        CheckpointError: if its tokenizer is missing or damaged.
    """
    tokenizer = read_tokenizer(folder)
    return Arm(
        model=model,
        folder=folder,
        tokenizer=tokenizer,
        eos=_end_tokens(folder, tokenizer),
        weights_sha256=weights_sha256(folder),
        tokenizer_sha256=tokenizer_sha256(folder),
        tp_size=tp_size,
    )


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint folder.

    Raises:
        CheckpointError: if it is missing or damaged.
    """
    # A config.json of a format that transformers doesn't know is no use to it, and it would warn.
    known = read_json(folder / "config.json").get("model_type") in CONFIG_MAPPING
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder,
            config=None if known else PretrainedConfig(),
            local_files_only=True,
            trust_remote_code=False,
        )
        tokenizer.encode("text")  # a setting that makes no sense shows only here
    except Exception as error:  # a damaged file surfaces as anything
        reason = printable(repr(error))
        raise CheckpointError(f"The tokenizer in {folder} can't be read: {reason}.") from None
    return tokenizer


def _end_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """What ends a generated text: the first of two files that says so, and the tokenizer's EOS."""
    for name in ("generation_config.json", "config.json"):
        found = _eos(folder / name)
        if found:
            break
    own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    return tuple(sorted({*found, *own}))


def _eos(file: Path) -> list[int]:
    found = read_json(file).get("eos_token_id") if file.is_file() else None
    tokens = found if isinstance(found, list) else [] if found is None else [found]
    if wrong := [token for token in tokens if type(token) is not int]:
        raise CheckpointError(f"{file} has the eos_token_id {shown(wrong[0])}; give token ids.")
    return tokens
