"""A user's YAML file of models: names for checkpoints, and weights for the named shapes.

A name of `ladder-eval models` gives that model its weights; any other name is a new model:

    ladder_3b: {checkpoint: checkpoints/ladder-3b}
    my_hybrid: {checkpoint: /data/llama-8b, residual: ladder, ladder_layers: 16,
                baseline: standard_8b}

Needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ladder_eval.errors import UsageError, brief
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config_values import shown
from ladder_eval.models.hub_id import Place, find_place
from ladder_eval.models.registry import MODELS

_KEYS = ("checkpoint", "residual", "ladder_layers", "baseline")

_EXAMPLE = "`my_model: {checkpoint: path/to/folder}`"


@dataclass(frozen=True, kw_only=True, slots=True)
class UserModel:
    """A model that the user gave a name.

    Attributes:
        name: What the user types; that of a named model gives it its weights.
        checkpoint: A checkpoint folder, a GGUF file, a folder with one GGUF file, or a Hub id.
        baseline: The dense model that it is compared with: a name, a path or a Hub id.
        choice: The residual of a checkpoint whose config.json names none.
    """

    name: str
    checkpoint: Place
    baseline: str | None = None
    choice: ResidualChoice = field(default_factory=ResidualChoice)


def read_models_file(path: Path) -> dict[str, UserModel]:
    """The models of a YAML file, by name; none if the file is empty.

    A relative checkpoint is relative to the file's folder, and `~` is the home folder. What doesn't
    exist there, but looks like `owner/name`, is taken for a Hub id.

    Raises:
        UsageError: if the file can't be read, or says anything that makes no sense.
    """
    return {name: _user_model(name, entry, path) for name, entry in _table(path).items()}


def _table(path: Path) -> Mapping[str, object]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"The models file {path} can't be read: {brief(error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"The models file {path} is no table of models, such as {_EXAMPLE}.")
    if wrong := [name for name in values if not isinstance(name, str) or not name]:
        raise UsageError(
            f"The models file {path} has the name {shown(wrong[0])}; put it in quotes."
        )
    return values


def _user_model(name: str, entry: object, path: Path) -> UserModel:
    where = f"The model {brief(name)} in {path}"
    values = _values(entry, where)
    choice = _choice(values, where)
    if name in MODELS and choice != ResidualChoice():
        raise UsageError(
            f"{where} has its residual by its name; drop residual and ladder_layers, or give it a "
            "name of its own."
        )
    return UserModel(
        name=name,
        checkpoint=_checkpoint(values.get("checkpoint"), path.parent, where),
        baseline=_baseline(values.get("baseline"), name, where),
        choice=choice,
    )


def _values(entry: object, where: str) -> dict[str, object]:
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is no table with a checkpoint, such as {_EXAMPLE}.")
    if unknown := [_word(key) for key in entry if key not in _KEYS]:
        raise UsageError(
            f"{where} has the unknown keys {brief(', '.join(unknown))}; known are "
            f"{', '.join(_KEYS)}."
        )
    return {key: value for key, value in entry.items() if value is not None}


def _word(key: object) -> str:
    return key if isinstance(key, str) else shown(key)


def _choice(values: Mapping[str, object], where: str) -> ResidualChoice:
    residual = values.get("residual")
    if not isinstance(residual, str | None):
        raise UsageError(f"{where} has the residual {shown(residual)}; give a word such as ladder.")
    layers = _ladder_layers(values.get("ladder_layers"), where)
    try:
        return ResidualChoice(residual=residual, ladder_layers=layers)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _ladder_layers(value: object, where: str) -> int | tuple[int, ...] | None:
    if value is None or type(value) is int:  # a bool is an int too
        return value
    if isinstance(value, list) and all(type(layer) is int for layer in value):
        return tuple(value)
    raise UsageError(
        f"{where} has ladder_layers {shown(value)}; give the number of last layers, or a list of "
        "layers."
    )


def _checkpoint(value: object, folder: Path, where: str) -> Place:
    if value is None:
        raise UsageError(f"{where} has no checkpoint; give its folder, GGUF file or Hub id.")
    if not isinstance(value, str) or not value:
        raise UsageError(
            f"{where} has the checkpoint {shown(value)}; give a folder, a GGUF file or a Hub id."
        )
    try:
        place = find_place(value, folder)
    except (RuntimeError, ValueError, OSError) as error:  # no such home, a null byte, too long
        raise UsageError(f"{where} has an unusable checkpoint path: {brief(error)}") from None
    if place is None:
        raise UsageError(
            f"{where} has the checkpoint {folder / value}, which doesn't exist; correct it."
        )
    return place


def _baseline(value: object, name: str, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} has the baseline {shown(value)}; give a name, path or Hub id.")
    if value == name:
        raise UsageError(f"{where} is its own baseline; name another model, or drop baseline.")
    return value
