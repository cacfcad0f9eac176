"""The checkpoint folder that a place stands for: a folder, a GGUF file, a Hub id."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock

from ladder_eval.errors import CheckpointError, FetchError
from ladder_eval.fetch import NoFileError, cache_folder, fetch_hub, sha256_file
from ladder_eval.models.checkpoint import TOKENIZER_FILES, read_config
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.gguf import convert_gguf, read_gguf_config
from ladder_eval.models.hub_id import HubId, Place
from ladder_eval.models.label import read_label
from ladder_eval.models.stored import is_file

_WEIGHTS = "model*.safetensors"

# A repository may also hold the same weights in other formats, such as `original/*`.
HUB_FILES = (
    "config.json",
    _WEIGHTS,
    "model.safetensors.index.json",
    *TOKENIZER_FILES,
    "generation_config.json",
)

_SEAL = ".converted.json"
# Part of a converted copy's name: raise it when something else is to be in its folder.
_CONVERSION = 2


def as_checkpoint(place: Place, notify: Callable[[str], None]) -> Path:
    """The checkpoint folder that a place stands for.

    A GGUF file is converted into the cache; a Hub id is fetched into the Hub's own.

    Args:
        place: A checkpoint folder, a GGUF file, a folder with one GGUF file, or a Hub id.
        notify: Called with one sentence before anything that takes long.

    Raises:
        CheckpointError: if it is none of these, or not supported.
        FetchError: if the Hub doesn't give it.
    """
    if isinstance(place, HubId):
        folder = _from_hub_or_nowhere(place, HUB_FILES, notify)
    elif (file := _gguf_file(place)) is not None:
        return _converted_copy(file, notify)
    else:
        folder = place
    read_config(folder)
    return folder


def peek_place(place: Place) -> ModelConfig | None:
    """The configuration of a place's checkpoint, before its weights are fetched or read.

    Returns:
        The configuration; None for a folder that holds no checkpoint.

    Raises:
        CheckpointError: if the configuration is damaged or not supported.
        FetchError: if the Hub doesn't give it.
    """
    if isinstance(place, HubId):
        return read_config(_from_hub_or_nowhere(place, HUB_FILES[:1]))
    if (file := _gguf_file(place)) is not None:
        return read_gguf_config(file)
    return read_config(place) if is_file(place / "config.json") else None


def origin(place: Place, folder: Path) -> str:
    """Where the checkpoint comes from, in words.

    Args:
        place: A place.
        folder: The checkpoint folder that it stands for.
    """
    if isinstance(place, HubId):  # the Hub's cache names its folders after the commit
        words = f"{place.repo_id} at {folder.name} from the Hugging Face Hub"
    else:
        words = str(place.resolve())
    label = read_label(folder)
    return words if label is None else f"{words}, converted from {label.source}"


def from_hub(hub: HubId, notify: Callable[[str], None]) -> Path:
    """The folder with a Hub model's configuration, safetensors and tokenizer.

    Raises:
        CheckpointError: if the repository has no weights as safetensors.
        FetchError: if the Hub doesn't give it.
    """
    return _fetch(hub, HUB_FILES, notify)


def _from_hub_or_nowhere(
    hub: HubId, patterns: Sequence[str], notify: Callable[[str], None] = lambda _: None
) -> Path:
    try:
        return _fetch(hub, patterns, notify)
    except FetchError as error:
        reason = str(error)
        raise FetchError(
            f"{hub} is neither a folder nor a file here, and {reason[0].lower()}{reason[1:]}"
        ) from None


def _fetch(hub: HubId, patterns: Sequence[str], notify: Callable[[str], None]) -> Path:
    try:
        folder = fetch_hub(
            hub.repo_id,
            revision=hub.revision,
            repo_type="model",
            patterns=patterns,
            notify=notify,
        )
    except NoFileError:
        raise _no_checkpoint(hub) from None
    complete = (folder / "config.json").is_file()
    if _WEIGHTS in patterns:
        complete = complete and any(folder.glob(_WEIGHTS))
    if not complete:
        raise _no_checkpoint(hub)
    return folder


def _no_checkpoint(hub: HubId) -> CheckpointError:
    return CheckpointError(
        f"The Hugging Face Hub gives no config.json with {_WEIGHTS} for {hub}, and GGUF or pickled "
        "weights aren't taken from it; name a repository with safetensors, or download a GGUF "
        "file and give its path."
    )


def _gguf_file(path: Path) -> Path | None:
    """The GGUF file that a path stands for: itself, or the one in a folder of no other format."""
    if path.is_file() and path.suffix.lower() == ".gguf":
        return path
    files = [] if is_file(path / "config.json") else sorted(path.glob("*.gguf"))
    if len(files) > 1:
        raise CheckpointError(f"{path} holds {len(files)} GGUF files; name the one to use.")
    return files[0] if files else None


def _converted_copy(file: Path, notify: Callable[[str], None]) -> Path:
    """The GGUF file as a checkpoint folder, made anew if the cached one was altered."""
    name = f"{file.stem}-{sha256_file(file)[:16]}-{_CONVERSION}"
    folder = cache_folder() / "converted" / name
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
