"""Suites and tasks: the YAML files of this project, resolved into lm-eval's configurations.

A suite is an lm-eval group with the headline metric of each of its tasks. A task file includes
the stock one by its place below `lm_eval/`, which is looked up in the lm-eval that is installed:
prompts and metrics are lm-eval's, and its index of all stock tasks is never built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.tasks._yaml_loader import load_yaml

import ladder_eval
from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import Split

_STOCK = "lm_eval/"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPart:
    """One lm-eval task: its name and its configuration."""

    name: str
    config: dict[str, Any]

    @property
    def evaluated(self) -> Split:
        """The split whose documents are evaluated: test where the task has one."""
        return self._split(self.config.get("test_split") or self.config["validation_split"])

    @property
    def splits(self) -> set[Split]:
        """All splits that the task reads."""
        examples = self.config.get("fewshot_split")
        return {self.evaluated} | ({self._split(examples)} if examples else set())

    def _split(self, name: str) -> Split:
        return Split(self.config["dataset_path"], self.config.get("dataset_name") or "", name)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteTask:
    """A benchmark as it is reported: one lm-eval task, or one for each of its subjects.

    Attributes:
        name: What reports call it.
        headline: The metric that counts.
        parts: The lm-eval tasks that make it up.
        group: The fields of lm-eval's group where it has several parts.
    """

    name: str
    headline: str
    parts: tuple[TaskPart, ...]
    group: dict[str, Any] | None = None

    @property
    def version(self) -> str:
        """lm-eval's version of the task."""
        metadata = (self.group or self.parts[0].config).get("metadata") or {}
        return str(metadata.get("version", "unknown"))

    @property
    def num_fewshot(self) -> int:
        """Number of examples in each prompt."""
        return int(self.parts[0].config.get("num_fewshot") or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Tasks that are run together.

    Attributes:
        name: What reports call it.
        tasks: Its tasks, in the order of the report.
        limit: Documents a task unless the user says otherwise; None for all.
    """

    name: str
    tasks: tuple[SuiteTask, ...]
    limit: int | None = None


def suite_names() -> list[str]:
    """Names of all suites."""
    return sorted(path.stem for path in _files() if _is_suite(_read(path)))


def task_names() -> list[str]:
    """Names of all tasks."""
    return sorted(path.stem for path in _files() if not _is_suite(_read(path)))


def load_suite(name: str) -> Suite:
    """A suite by name.

    Raises:
        UsageError: if there is none of this name.
    """
    if name not in suite_names():
        raise UsageError(f"Unknown suite {name!r}; known are {', '.join(suite_names())}.")
    values = _read(_folder() / f"{name}.yaml")
    settings = values["metadata"]
    tasks = tuple(_task(task, settings["headline"][task]) for task in values["task"])
    return Suite(name=name, tasks=tasks, limit=settings.get("limit"))


def suite_of(names: Sequence[str]) -> Suite:
    """A suite of single tasks, with all their documents.

    Their headline metric is acc_norm where they have it, else their first.

    Raises:
        UsageError: if there is no task of one of the names, or a name comes twice.
    """
    known = task_names()
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown task {name!r}; known are {', '.join(known)}.")
    if not names or len(set(names)) != len(names):
        raise UsageError("--tasks takes one or more different names, separated by commas.")
    return Suite(name="+".join(names), tasks=tuple(_task(name, None) for name in names))


def _folder() -> Path:
    package = Path(ladder_eval.__file__).parent
    shipped = package / "tasks"
    return shipped if shipped.is_dir() else package.parent / "tasks"


def _files() -> list[Path]:
    return sorted(_folder().glob("*.yaml"))


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = load_yaml(path, resolve_func=True, recursive=False)
    return values


def _is_suite(values: dict[str, Any]) -> bool:
    return "headline" in (values.get("metadata") or {})


def _task(name: str, headline: str | None) -> SuiteTask:
    values = _read(_folder() / f"{name}.yaml")
    if "group" in values:
        parts = tuple(_part(load_yaml(path)) for path in _stock(values.pop("task")))
    else:
        (included,) = _stock(values.pop("include"))
        parts = (_part({**load_yaml(included), **values}),)
    return SuiteTask(
        name=name,
        headline=headline or _default_headline(parts[0]),
        parts=parts,
        group=values if "group" in values else None,
    )


def _stock(pattern: str) -> list[Path]:
    """Files of the installed lm-eval that match a pattern below `lm_eval/`."""
    found = sorted(Path(lm_eval.__file__).parent.glob(pattern.removeprefix(_STOCK)))
    if not found:
        raise UsageError(f"This lm-eval has no {pattern}; install the version in constraints.txt.")
    return found


def _part(config: dict[str, Any]) -> TaskPart:
    # Tags and groups are lm-eval's index, which isn't used; data comes from the catalogue.
    unused = ["tag", "group", "task_list", "dataset_kwargs"]
    if not config.get("num_fewshot"):  # lm-eval would load the examples all the same
        unused += ["fewshot_split", "fewshot_config"]
    kept = {name: value for name, value in config.items() if name not in unused}
    return TaskPart(name=kept["task"], config=kept)


def _default_headline(part: TaskPart) -> str:
    metrics = [metric["metric"] for metric in part.config["metric_list"]]
    return "acc_norm" if "acc_norm" in metrics else str(metrics[0])
