"""What a text can stand for where a checkpoint is asked for: a path, or a name on the Hub.

Needs no torch.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_HUB_ID = re.compile(r"(?![.~])([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubId:
    """A model repository on the Hugging Face Hub, written `owner/name` or `owner/name@revision`.

    Attributes:
        repo_id: `owner/name`.
        revision: Branch, tag or commit; None is the default branch.
    """

    repo_id: str
    revision: str | None = None

    @property
    def name(self) -> str:
        """The model's own name, without its owner."""
        return self.repo_id.partition("/")[2]

    def __str__(self) -> str:
        return self.repo_id if self.revision is None else f"{self.repo_id}@{self.revision}"


# Where a checkpoint is: a folder or a GGUF file, or a repository on the Hub.
Place = Path | HubId


def find_place(text: str, folder: Path = Path()) -> Place | None:
    """What a text stands for: what exists on this disk, else a Hub id if it looks like one.

    Args:
        text: A path, or a Hub id.
        folder: What a relative path is relative to.

    Returns:
        The place; None for a text that is neither. Whether the Hub has such a model isn't asked.

    Raises:
        OSError, RuntimeError, ValueError: if the text can't be a path on this system.
    """
    path = folder / Path(text).expanduser()
    if path.exists():
        return path
    matched = _HUB_ID.fullmatch(text)
    return HubId(*matched.groups()) if matched else None


def place_name(place: Place) -> str:
    """What reports call a checkpoint of this place."""
    if isinstance(place, HubId):
        return place.name
    return place.resolve().name.removesuffix(".gguf")
