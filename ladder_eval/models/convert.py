"""A dense checkpoint written as the ladder authors publish theirs, tensor by tensor."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ladder_eval.errors import UsageError
from ladder_eval.models import families
from ladder_eval.models.checkpoint import TOKENIZER_FILES, tensor_layout, whole_tensors
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import ModelConfig, config_to_hf
from ladder_eval.models.hub_id import find_place
from ladder_eval.models.label import LABEL, Label, config_values
from ladder_eval.models.named import CONVERTED
from ladder_eval.models.new_folder import new_folder
from ladder_eval.models.registry import MODELS
from ladder_eval.models.safetensors_writer import SHARD_BYTES, Layout, bytes_of, write_safetensors
from ladder_eval.models.selection import SelectedModel, peek, select
from ladder_eval.models.stored import read_json
from ladder_eval.models.weight_sources import WeightSources

_COPIED = (*TOKENIZER_FILES, "generation_config.json")

# Of the source alone: where it was loaded from, and code that is never run.
_DROPPED = ("_name_or_path", "auto_map")

_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A converted checkpoint; as text, one line about it.

    Attributes:
        folder: Where it is.
        config: Its shape and ladder layers.
        tensors: How many it has.
        size_bytes: What they take.
    """

    folder: Path
    config: ModelConfig
    tensors: int
    size_bytes: int

    def __str__(self) -> str:
        layers = _published(self.config)
        which = f"the last {layers}" if isinstance(layers, int) else ", ".join(map(str, layers))
        return (
            f"Written to {self.folder}: {self.tensors} tensors, {_readable(self.size_bytes)}, "
            f"ladder layers: {which} of {self.config.num_hidden_layers}; {CONVERTED}."
        )


def convert(
    source: str,
    out: Path,
    *,
    choice: ResidualChoice,
    sources: WeightSources,
    shard_bytes: int = SHARD_BYTES,
) -> Written:
    """Write a dense model as a checkpoint folder with ladder layers, of the same tensors.

    The folder appears complete or not at all. One tensor is in memory at a time.

    Args:
        source: The dense model, as `select` takes it.
        out: The folder to make: absent, or empty.
        choice: The residual `ladder`, and the ladder layers; by default all.
        sources: Where weights of named models are taken from.
        shard_bytes: Bytes of tensors in a file at most.

    Raises:
        UsageError: if there is no such model, it isn't dense, or out can't be written.
        CheckpointError: if the source is damaged or not supported.
        FetchError: if it can't be had.
    """
    if choice.residual != "ladder":
        raise UsageError(
            f"There is no checkpoint format for {choice.residual} models; give --residual ladder, "
            "or run the dense one with the residual."
        )
    _require_empty(out)
    if (peeked := peek(source)) is not None:
        _with_ladder(source, peeked, choice)  # refused before anything large is fetched
    found = select(source, choice=ResidualChoice(), sources=sources)
    if found.folder is None:
        raise UsageError(
            f"No weights of {source} are known; name its checkpoint folder, GGUF file or Hub id."
        )
    config = _with_ladder(source, found.config, choice)
    _require_outside(out, Path(source), found.folder)
    layout = tensor_layout(found.folder, found.config)
    _require_room(out, bytes_of(layout))
    label = Label(adaptation=CONVERTED, source=_words(source, found, sources))
    _write(found, out, layout, _config_json(found.folder, config, label), shard_bytes)
    return Written(folder=out, config=config, tensors=len(layout), size_bytes=bytes_of(layout))


def _with_ladder(source: str, config: ModelConfig, choice: ResidualChoice) -> ModelConfig:
    if config.residual != "standard":
        raise UsageError(f"{source} is {config.residual} already; name a dense model.")
    chosen = choice.apply(config, source)
    config_to_hf(chosen)  # refuses what the format can't express
    return chosen


def _require_empty(out: Path) -> None:
    try:
        out.resolve()
        taken = out.exists() and not (out.is_dir() and next(out.iterdir(), None) is None)
    except OSError as error:  # such as a name too long, or a folder that can't be listed
        raise _not_writable(out, error) from None
    except RuntimeError:  # until Python 3.13
        raise UsageError(f"{out} is a link to itself; name another folder.") from None
    if taken:
        raise UsageError(f"{out} exists and is no empty folder; name another one.")


def _require_outside(out: Path, *folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and out.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{out} is inside the source {folder}; name a folder outside of it.")


def _require_room(out: Path, needed: int) -> None:
    here = next(place for place in (out, *out.resolve().parents) if place.exists())
    free = shutil.disk_usage(here).free
    if free < needed:
        raise UsageError(
            f"The conversion takes {_readable(needed)}, but {here} has {_readable(free)} left; "
            "make room there, or name another folder."
        )


def _not_writable(out: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{out} can't be written ({error.strerror or error}); make room there, or name another "
        "folder."
    )


def _words(source: str, found: SelectedModel, sources: WeightSources) -> str:
    """Where the weights come from, with no path of this machine but what the user gave."""
    if source in MODELS:
        return found.weights if sources.model_dir is None else f"{source} in {sources.model_dir}"
    return source if isinstance(find_place(source), Path) else found.weights


def _config_json(folder: Path, config: ModelConfig, label: Label) -> dict[str, Any]:
    """The source's own values, and those of the ladder authors' format."""
    given, shape = config_values(folder), config_to_hf(config)
    if given["model_type"] in families.MODEL_TYPES:
        # Shape for what the source leaves to its family's defaults; rope has two ways to be said.
        kept = {name: shape[name] for name in shape if not name.startswith("rope")} | given
    else:
        kept = shape | {name: given[name] for name in _TOKENS if name in given}
    kept = {name: value for name, value in kept.items() if name not in _DROPPED}
    return kept | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llamaLadder",
        "ladder_layers": _published(config),
        LABEL: label.to_dict(),
    }


def _published(config: ModelConfig) -> int | list[int]:
    """Ladder layers in the published format: n for the last n, else a list."""
    count = len(config.ladder_layers)
    return count if config == config.with_ladder(count) else list(config.ladder_layers)


def _write(
    found: SelectedModel, out: Path, layout: Layout, values: dict[str, Any], shard_bytes: int
) -> None:
    source = found.folder or Path()
    tensors = map(_named_bytes, whole_tensors(source, found.config))
    try:
        with new_folder(out.resolve()) as unfinished:
            write_safetensors(unfinished, layout, tensors, shard_bytes=shard_bytes)
            text = json.dumps(values, indent=2) + "\n"
            (unfinished / "config.json").write_text(text, encoding="utf-8")
            for file in _copied(source):
                shutil.copyfile(file, unfinished / file.name)
            _keep_tokenizer_class(source, unfinished)
    except OSError as error:
        raise _not_writable(out, error) from None


def _copied(folder: Path) -> Iterator[Path]:
    return (folder / name for name in _COPIED if (folder / name).is_file())


def _keep_tokenizer_class(source: Path, out: Path) -> None:
    """Let transformers take a Mistral tokenizer.json as it is, whatever class is named beside it.

    It does so by the model_type, which is another one now.
    """
    file = out / "tokenizer_config.json"
    if read_json(source / "config.json")["model_type"] != "mistral" or not file.is_file():
        return
    values = read_json(file)
    if values.get("tokenizer_class"):
        text = json.dumps(values | {"tokenizer_class": "PreTrainedTokenizerFast"}, indent=2)
        file.write_text(text + "\n", encoding="utf-8")


def _named_bytes(named: tuple[str, Tensor]) -> tuple[str, NDArray[Any]]:
    name, tensor = named
    # numpy has no bfloat16; bytes of any dtype are bytes.
    return name, tensor.contiguous().reshape(-1).view(torch.uint8).numpy()


def _readable(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
