"""From what the user typed to a checkpoint on this disk and the residual it is run with."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ladder_eval.errors import CheckpointError, UsageError
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.hub_id import HubId, Place, find_place, place_name
from ladder_eval.models.label import read_label
from ladder_eval.models.models_file import UserModel
from ladder_eval.models.named import (
    AS_GIVEN,
    AS_TRAINED,
    CONVERTED,
    UNADAPTED,
    NamedModel,
)
from ladder_eval.models.places import as_checkpoint, origin, peek_place
from ladder_eval.models.registry import MODELS, unknown_model
from ladder_eval.models.weight_sources import WeightSources, locate


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


def select(model: str, *, choice: ResidualChoice, sources: WeightSources) -> SelectedModel:
    """Find a model by name, folder, GGUF file or Hub id, fetching its weights where needed.

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
        place = _place(model, sources.user_models)
        found = _select_place(place, sources.notify)
        if isinstance(place, HubId) and found.folder is not None:
            model = str(replace(place, revision=found.folder.name))  # a branch may move
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
        FetchError: if it has to be fetched and can't be.
    """
    if model in MODELS:
        return MODELS[model].config
    if (user := user_models.get(model)) is None:
        return peek_place(_place(model, user_models))
    config = peek_place(user.checkpoint)
    return config and user.choice.apply(config, user.name)


def _place(model: str, user_models: Mapping[str, UserModel]) -> Place:
    place = None
    with suppress(OSError, RuntimeError, ValueError):  # such as a name too long for a file
        place = find_place(model)
    if place is None:
        raise unknown_model(model, user_models)
    return place


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
        words = origin(user.checkpoint, folder)
    elif model.weights is not None:
        folder, words = locate(model.weights, sources)
    else:
        folder, words = None, "none known"
    stored = model.config if folder is None else read_config(folder)
    _require_shape(folder, stored, model)
    return SelectedModel(
        name=model.name,
        folder=folder,
        config=model.config,
        weights=words,
        adaptation=_as_stored(folder, stored) if stored == model.config else model.adaptation,
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
    found = _select_place(user.checkpoint, notify)
    config = user.choice.apply(found.config, user.name)
    return replace(
        found,
        name=user.name,
        config=config,
        adaptation=found.adaptation if config == found.config else _adaptation(config, AS_GIVEN),
        baseline=user.baseline,
    )


def _select_place(place: Place, notify: Callable[[str], None]) -> SelectedModel:
    folder = as_checkpoint(place, notify)
    stored = read_config(folder)
    return SelectedModel(
        name=place_name(place),
        folder=folder,
        config=stored,
        weights=origin(place, folder),
        adaptation=_as_stored(folder, stored),
        baseline=None,
    )


def _as_stored(folder: Path | None, stored: ModelConfig) -> str:
    """What was done to a checkpoint for the residual that its configuration names."""
    if folder is None or not stored.ladder_layers or (label := read_label(folder)) is None:
        return AS_TRAINED
    return label.adaptation


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
