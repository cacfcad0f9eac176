"""What is at hand held against the official data: rows and content."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ladder_eval.harness.data.benchmarks import benchmark_of
from ladder_eval.harness.data.contents import loaded_sha256, official_content
from ladder_eval.harness.data.finding import Finder
from ladder_eval.harness.data.length_files import (
    SHA256,
    LengthFolder,
    alpaca_eval,
    length_files_at_hand,
    need_length_files,
)
from ladder_eval.harness.data.resources import RESOURCES, Resource, places
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split

OK = "ok"
DIFFERS = "differs"
VERIFY_HEADINGS = ("data set", "configuration", "split", "official rows", "rows", "content", "from")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What was found of a split, or of a resource.

    Attributes:
        split: The split; a resource's name stands for the data set.
        official: Official number of rows, or of a resource's files; None where none is known.
        rows: Their number found; None where they can't be read.
        verdict: `ok`, `subset of N`, `differs` with the reason, or what isn't known.
        place: Where it was found, in words.
    """

    split: Split
    official: int | None
    rows: int | None
    verdict: str
    place: str

    @property
    def differs(self) -> bool:
        """Whether it is something else than what its name says."""
        return self.verdict.startswith(DIFFERS)


def check(splits: Iterable[Split], sources: DataSources) -> list[Checked]:
    """Check all splits that are at hand, and the resources of their data sets.

    Raises:
        DataError: if the data folder doesn't exist.
    """
    finder = Finder(sources)
    wanted = sorted(set(splits))
    finder.at_hand(wanted)
    checked = [
        _split(split, finder.found[split], sources) for split in wanted if split in finder.found
    ]
    checked += [_unreadable(split, reason) for split, reason in finder.damaged.items()]
    for name in resource_names(wanted):
        checked += _resource(RESOURCES[name], sources)
    length = length_files_at_hand(sources) if need_length_files(wanted) else None
    return [*checked, _length_files(length, sources)] if length else checked


def resource_names(splits: Iterable[Split]) -> list[str]:
    """Resources that the data sets of splits need."""
    data_sets = {split.hub_id for split in splits}
    return sorted({name for hub_id in data_sets for name in benchmark_of(hub_id).resources})


def check_rows(checked: Iterable[Checked]) -> Iterator[tuple[str | int, ...]]:
    """Rows in the columns of VERIFY_HEADINGS; configurations with one verdict share a row."""

    def shared(one: Checked) -> tuple[str, str, str, str]:
        return one.split.hub_id, one.split.name, one.verdict.partition(" of ")[0], one.place

    for _, group in groupby(sorted(checked, key=shared), key=shared):
        alike = list(group)
        if len(alike) > 3:
            yield _row(alike, f"{len(alike)} configurations")
        else:
            yield from (_row([one], one.split.config) for one in alike)


def _row(alike: Sequence[Checked], config: str) -> tuple[str | int, ...]:
    first = alike[0]
    official = sum(one.official or 0 for one in alike)
    rows = sum(one.rows or 0 for one in alike)
    verdict = (
        first.verdict
        if len(alike) == 1
        else first.verdict.replace(f"of {first.official:,}", f"of {official:,}")
    )
    return first.split.hub_id, config, first.split.name, official, rows, verdict, first.place


def _split(split: Split, loaded: LoadedSplit, sources: DataSources) -> Checked:
    content = official_content(split)
    return Checked(
        split=split,
        official=content.rows if content else None,
        rows=len(loaded.rows),
        verdict=verdict(split, loaded),
        place=_place(loaded.source, sources),
    )


def verdict(split: Split, loaded: LoadedSplit) -> str:
    """Whether rows are the official ones, a part of them by their number, or something else."""
    content = official_content(split)
    if content is None:
        return "not in the table"
    if len(loaded.rows) < content.rows:
        return f"subset of {content.rows:,}"
    if len(loaded.rows) > content.rows:
        return f"{DIFFERS}: more rows than there are"
    if content.sha256 is None:
        return "as many rows; no hash is known"
    return OK if loaded_sha256(loaded) == content.sha256 else f"{DIFFERS} in content"


def _unreadable(split: Split, reason: str) -> Checked:
    content = official_content(split)
    return Checked(
        split=split,
        official=content.rows if content else None,
        rows=None,
        verdict=f"{DIFFERS}: can't be read",
        place=reason.partition(" can't be read")[0],
    )


def _resource(resource: Resource, sources: DataSources) -> Iterator[Checked]:
    """The first folder that has a resource, and those before it whose copy is another."""
    for root in places(resource, sources):
        intact = resource.is_intact(root)
        yield Checked(
            split=Split(f"nltk's {resource.name}", "", "files"),
            official=len(resource.files),
            rows=len(resource.files),
            verdict=OK if intact else f"{DIFFERS} in content",
            place=str(root),
        )
        if intact:
            return


def _length_files(found: LengthFolder, sources: DataSources) -> Checked:
    return Checked(
        split=Split(alpaca_eval().hub_id, "", "length control"),
        official=len(SHA256),
        rows=len(SHA256),
        verdict=OK if found.are_official else f"{DIFFERS} in content",
        place=_place(found.source, sources),
    )


def _place(source: str, sources: DataSources) -> str:
    folder = sources.data_dir
    return str(folder) if folder and source.startswith(str(folder.resolve())) else source
