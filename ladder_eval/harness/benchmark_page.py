"""docs/benchmarks.md, from the suites and the table of data sets.

python -m ladder_eval.harness.benchmark_page > docs/benchmarks.md
"""

import sys
from collections.abc import Iterable, Iterator, Sequence

from ladder_eval.harness.catalogue import BENCHMARKS, Benchmark
from ladder_eval.harness.listings import headline, official_rows
from ladder_eval.harness.suites import Suite, SuiteTask, TaskPart, load_suite, suite_names

_INTRODUCTION = """\
# Suites, tasks and data sets

Made by `python -m ladder_eval.harness.benchmark_page > docs/benchmarks.md` from the files in
`tasks/` and the table in `ladder_eval/harness/data/benchmarks.py`.

Prompts, filters and metrics are those of the stock tasks of the lm-eval in `constraints.txt`,
but for the scoring rules in `tasks/functions.py`. A task run alone (`--tasks NAME`) is asked as
its file in `tasks/` says: as lm-eval's stock task, but on validation for ARC, SciQ and
OpenBookQA, as in `quick`. `ladder-eval tasks show NAME --suite SUITE` prints a whole request.

**Examples** that are *drawn* depend on the seed and the document alone: not on the subset, the
order, tp_size or the number of processes. A row that asks the same question is never one of
them. `--fewshot stock` draws lm-eval's own sequence (its seed 1234), for full runs and for the
first documents of each lm-eval task, which `--limit` then takes. *First* and *fixed* examples
are the same for each document, either way.

**Normalised** is acc_norm: log-likelihoods of choices divided by their lengths in characters.
*Macro* is the mean of a task's subjects; otherwise each document counts the same."""

_TASKS = (
    *("task", "data set", "split", "official rows", "shots", "examples"),
    *("metric", "filter", "normalised", "also recorded", "in the average"),
)
_DATA = ("data set", "licence", "revision", "official rows", "wheels or release")


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name in suite_names():
        parts += _suite(load_suite(name))
    parts += ["## Data sets", _table(_DATA, (_data(each) for each in BENCHMARKS.values()))]
    return "\n\n".join(parts) + "\n"


def _suite(suite: Suite) -> Iterator[str]:
    yield f"## {suite.name}"
    yield suite.about
    yield _table(_TASKS, (_row(suite, task) for task in suite.tasks))
    yield _form(suite)
    if suite.inferred:
        yield "Inferred:\n\n" + "\n".join(f"* {sentence}" for sentence in suite.inferred)


def _form(suite: Suite) -> str:
    limit = "All documents" if suite.limit is None else f"{suite.limit} documents of each task"
    template = "in the chat template" if suite.apply_chat_template else "without a chat template"
    turns = ", examples as turns" if suite.fewshot_as_multiturn else ""
    return f"{limit}, {template}{turns}."


def _row(suite: Suite, task: SuiteTask) -> tuple[object, ...]:
    part = task.parts[0]
    rows = official_rows(task)
    return (
        task.name,
        part.evaluated.hub_id,
        part.evaluated.name,
        "unknown" if rows is None else f"{rows:,}",
        task.num_fewshot,
        _examples(part),
        headline(task).partition(",")[0] + (" (macro)" if task.is_macro else ""),
        task.filter or "—",
        "yes" if task.headline.endswith("_norm") else "no",
        ", ".join(metric for metric in task.metrics if metric != task.headline) or "—",
        "yes" if task.name in suite.average else "no",
    )


def _examples(part: TaskPart) -> str:
    """Where examples come from, and how."""
    if not part.num_fewshot:
        return "—"
    if part.examples is None:
        return "fixed, in the task"
    return f"{'first' if part.takes_first else 'drawn'} of {part.examples.name}"


def _data(benchmark: Benchmark) -> tuple[object, ...]:
    rows = ", ".join(f"{split} {count:,}" for split, count in benchmark.rows.items())
    wheels = ", ".join(dict.fromkeys(str(pack.wheel) for pack in benchmark.packs))
    others = benchmark.release.file_name if benchmark.release else wheels
    revision = (benchmark.revision or "newest")[:12]
    return benchmark.hub_id, benchmark.licence, revision, rows, others or "—"


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
