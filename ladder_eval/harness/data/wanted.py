"""Which splits the names of suites, tasks and data sets stand for."""

from collections.abc import Iterable

from ladder_eval.errors import UsageError
from ladder_eval.harness.data.benchmarks import BENCHMARKS
from ladder_eval.harness.data.splits import Split
from ladder_eval.harness.suites import Suite, load_suite, suite_names, suite_of, task_names


def wanted_splits(names: Iterable[str]) -> set[Split]:
    """All splits of suites, tasks or data sets, those with solved examples included.

    Raises:
        UsageError: if a name is none of these.
    """
    return {split for name in names for split in _splits(name)}


def all_splits() -> set[Split]:
    """All splits of the table."""
    return {split for benchmark in BENCHMARKS.values() for split in benchmark.splits()}


def _splits(name: str) -> Iterable[Split]:
    if name in BENCHMARKS:
        return BENCHMARKS[name].splits()
    if name in task_names():
        return _of_suite(suite_of([name]))
    if name in suite_names():
        return _of_suite(load_suite(name))
    raise UsageError(
        f"Unknown name {name!r}; known are the suites {', '.join(suite_names())}, the tasks "
        f"{', '.join(task_names())} and the data sets that `ladder-eval data` lists."
    )


def _of_suite(suite: Suite) -> set[Split]:
    return {split for task in suite.tasks for part in task.parts for split in part.splits}
