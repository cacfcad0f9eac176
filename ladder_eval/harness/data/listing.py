"""The splits of the table and who has them, as rows of text and numbers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ladder_eval.harness.data.benchmarks import BENCHMARKS, Benchmark
from ladder_eval.harness.data.finding import Finder
from ladder_eval.harness.data.length_files import SHA256, alpaca_eval, length_files_at_hand
from ladder_eval.harness.data.resources import RESOURCES, at_hand
from ladder_eval.harness.data.splits import DataSources, Split
from ladder_eval.harness.data.wanted import all_splits

DATA_HEADINGS = (
    "data set",
    "split",
    "official rows",
    "at hand",
    "from",
    "examples",
    "licence",
)


def data_rows(data_dir: Path | None) -> Iterator[tuple[str | int, ...]]:
    """A row for each split of the catalogue, in the columns of DATA_HEADINGS.

    Raises:
        DataError: if the data folder doesn't exist.
    """
    sources = DataSources(data_dir=data_dir, notify=_ignore)
    finder = Finder(sources)
    finder.at_hand(all_splits())
    for benchmark in BENCHMARKS.values():
        for key, rows in benchmark.rows.items():
            splits = [split for split in benchmark.splits() if _key(split, benchmark) == key]
            found = [finder.found[split] for split in splits if split in finder.found]
            count = sum(len(one.rows) for one in found)
            where = _where([one.source for one in found], data_dir) or _offered(benchmark, key)
            yield benchmark.hub_id, key, rows, count, where, benchmark.fewshot, benchmark.licence
    yield _length_files(sources)
    for resource in RESOURCES.values():
        root = at_hand(resource, sources)
        where = str(root) if root else f"no; {resource.wheel} has it"
        files = len(resource.files)
        held = files if root else 0
        yield f"nltk's {resource.name}", "files", files, held, where, "", resource.licence


def _length_files(sources: DataSources) -> tuple[str | int, ...]:
    benchmark = alpaca_eval()
    found = length_files_at_hand(sources)
    where = _where([found.source], sources.data_dir) if found else "no; the Hub alone"
    files, held = len(SHA256), len(SHA256) if found else 0
    return benchmark.hub_id, "length control", files, held, where, "", benchmark.licence


def _key(split: Split, benchmark: Benchmark) -> str:
    """The name under which the table has the rows of a split."""
    full = f"{split.config}/{split.name}"
    return full if full in benchmark.rows else split.name


def _where(sources: Sequence[str], data_dir: Path | None) -> str:
    """Where splits were found, in few words: those of a data folder have a file each."""
    base = str(data_dir.resolve()) if data_dir else "\0"
    return ", ".join(dict.fromkeys(str(data_dir) if s.startswith(base) else s for s in sources))


def _offered(benchmark: Benchmark, key: str) -> str:
    if benchmark.release:
        return f"no; {benchmark.release.source} on GitHub"
    config, _, name = key.rpartition("/")
    wheels = [str(pack.wheel) for pack in benchmark.packs if pack.holds(config, name)]
    return f"no; the Hub or {' or '.join(wheels)}" if wheels else "no; the Hub alone"


def _ignore(_line: str) -> None:
    """Nothing here takes long."""
