"""What a converted checkpoint's config.json says about where its weights are from.

Without it, nothing would tell a conversion from a model that was trained with ladder layers.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ladder_eval.errors import CheckpointError

LABEL = "ladder_eval"  # the key; transformers keeps keys that it doesn't know


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """How weights came to have their residual.

    Attributes:
        adaptation: What was done to the weights for the residual, in words.
        source: Where the weights come from, in words.
    """

    adaptation: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """The label as JSON values."""
        return asdict(self)


def config_values(folder: Path) -> dict[str, Any]:
    """The content of a config.json that `read_config` has accepted."""
    values: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return values


def read_label(folder: Path) -> Label | None:
    """The label of a checkpoint folder; None for one that this package didn't convert.

    Raises:
        CheckpointError: if the label isn't of the form that a conversion writes.
    """
    values = config_values(folder).get(LABEL)
    if values is None:
        return None
    if isinstance(values, Mapping) and set(values) == {"adaptation", "source"}:
        adaptation, source = values["adaptation"], values["source"]
        if isinstance(adaptation, str) and isinstance(source, str):
            return Label(adaptation=adaptation, source=source)
    raise CheckpointError(
        f"config.json in {folder} has a {LABEL} of an unknown form; drop it if these weights were "
        "trained with their ladder layers, else convert them again."
    )
