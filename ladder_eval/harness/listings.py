"""What there is to run and the data it needs, as rows of text and numbers."""

from collections.abc import Iterator

from ladder_eval.harness.catalogue import BENCHMARKS
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


def _official_rows(task: SuiteTask) -> int:
    split = task.parts[0].evaluated
    return BENCHMARKS[split.hub_id].official_rows(split) or 0
