"""What there is to run and the data it needs, as rows of text and numbers."""

from collections.abc import Container, Iterator
from pathlib import Path

from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, Split
from ladder_eval.harness.data.finding import Finder
from ladder_eval.harness.data.wanted import wanted_splits
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


def suite_rows() -> Iterator[tuple[str | int, ...]]:
    """A row for each suite, in the columns of SUITE_HEADINGS."""
    for name in suite_names():
        suite = load_suite(name)
        limit = "all" if suite.limit is None else f"{suite.limit} a task"
        template = "yes" if suite.apply_chat_template else "no"
        yield suite.name, len(suite.tasks), limit, template, suite.about


def task_rows(data_dir: Path | None = None) -> Iterator[tuple[str | int, ...]]:
    """A row for each way in which each task is asked, in the columns of TASK_HEADINGS.

    Raises:
        DataError: if the data folder doesn't exist.
    """
    finder = Finder(DataSources(data_dir=data_dir, notify=_ignore))
    finder.at_hand(wanted_splits([*suite_names(), *task_names()]))
    suites = {name: load_suite(name) for name in suite_names()}
    for name in task_names():
        ways = {ALONE: suite_of([name])} | suites
        for suite, ways_of in ways.items():
            for task in ways_of.tasks:
                if task.name == name:
                    yield name, suite, *_task_row(task, finder.found)


def _task_row(task: SuiteTask, at_hand: Container[Split]) -> tuple[str | int, ...]:
    split = task.parts[0].evaluated
    rows = official_rows(task)
    is_here = all(read in at_hand for part in task.parts for read in part.splits)
    return (
        split.hub_id,
        split.name,
        "?" if rows is None else rows,
        task.num_fewshot,
        headline(task),
        "yes" if is_here else "no",
    )


def headline(task: SuiteTask) -> str:
    """The headline metric as lm-eval's results name it, and whether it is a mean of parts."""
    return f"{task.headline},{task.filter or 'none'}" + (" (macro)" if task.is_macro else "")


def official_rows(task: SuiteTask) -> int | None:
    """Official number of documents, if known."""
    split = task.parts[0].evaluated
    benchmark = BENCHMARKS.get(split.hub_id)
    return benchmark.official_rows(split) if benchmark else None


def _ignore(_line: str) -> None:
    """Nothing here takes long."""
