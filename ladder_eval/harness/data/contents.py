"""What the rows of a split must be: their official number, and a hash of their content."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ladder_eval.harness.data.benchmarks import BENCHMARKS, benchmark_of
from ladder_eval.harness.data.finding import Finder
from ladder_eval.harness.data.releases import read_release
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split

_TABLE = Path(__file__).with_name("contents.tsv")


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of a split.

    Attributes:
        rows: Official number of its rows.
        sha256: Hash of the rows, or of the release that has them; None where no complete copy has
            been seen.
    """

    rows: int
    sha256: str | None


def content_sha256(rows: Iterable[Mapping[str, Any]]) -> str:
    """Hash of rows in their order, whatever format and order of columns they are stored in.

    Each row is a line of JSON with sorted keys. Values that are null are left out, since formats
    with a schema fill absent fields with them; a float that is whole is written as an integer.
    What JSON has no form for, such as bytes, is written as Python prints it.
    """
    digest = hashlib.sha256()
    for row in rows:
        line = json.dumps(_canonical(row), sort_keys=True, separators=(",", ":"), default=str)
        digest.update(line.encode("ascii") + b"\n")
    return digest.hexdigest()


def loaded_sha256(loaded: LoadedSplit) -> str:
    """Hash of a split: of its rows, or of the release file, unpacked, that has tests, too."""
    if loaded.file is None:
        return content_sha256(loaded.rows)
    return hashlib.sha256(read_release(loaded.file)).hexdigest()


def official_content(split: Split) -> Content | None:
    """What is known of a split of the table; None for any other."""
    known = _table().get(split)
    benchmark = benchmark_of(split.hub_id)
    if known is None and benchmark.configs == ("",):
        rows = benchmark.official_rows(split)
        sha256 = benchmark.release.sha256 if benchmark.release else None
        return None if rows is None else Content(rows, sha256)
    return known


def table_lines(data_dir: Path) -> Iterator[str]:
    """Lines of contents.tsv, for all complete splits of a data folder and the cache.

    Releases have their hash in `releases.py`.
    """
    finder = Finder(DataSources(data_dir=data_dir, notify=print))
    unreleased = (b for b in BENCHMARKS.values() if b.release is None)
    splits = [split for benchmark in unreleased for split in benchmark.splits()]
    finder.at_hand(splits)
    for split in splits:
        rows = finder.found[split].rows if split in finder.found else ()
        if len(rows) >= (_least_rows(split)):
            values = (split.hub_id, split.config, split.name, str(len(rows)), content_sha256(rows))
            yield "\t".join(values)


def _least_rows(split: Split) -> int:
    benchmark = BENCHMARKS[split.hub_id]
    official = benchmark.official_rows(split) or 1
    return official if benchmark.configs == ("",) else 1  # a subject's number is in no description


@cache
def _table() -> dict[Split, Content]:
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {
        Split(hub_id, config, name): Content(int(count), sha256)
        for hub_id, config, name, count, sha256 in rows
    }


def _canonical(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _canonical(own) for key, own in value.items() if own is not None}
        case list() | tuple():
            return [_canonical(own) for own in value]
        case float() if value.is_integer():
            return int(value)
    return value


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table_lines(Path(sys.argv[1])))
