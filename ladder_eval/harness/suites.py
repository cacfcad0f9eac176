"""Suites and tasks: the YAML files of this project, resolved into lm-eval's configurations.

A suite is an lm-eval group with the headline metric of each of its tasks; an entry may change
settings of its task inline, as lm-eval's groups do. A task file includes the stock one by its place
below `lm_eval/`, which is looked up in the lm-eval that is installed: prompts and metrics are
lm-eval's, and its index of all stock tasks is never built. Tasks whose answers lm-eval has no means
to judge stand here as a whole, and say what the answers are: programs, or outputs for a judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import ladder_eval
from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import Split
from ladder_eval.harness.task_files import read, read_stock, with_functions

# Tags and groups are lm-eval's index, which isn't used; data comes from the catalogue.
_UNUSED = ("tag", "group", "task_list", "dataset_kwargs")
_EXAMPLES = ("fewshot_split", "fewshot_config")
_SPLITS = ("training_split", "validation_split", "test_split")

PROGRAMS: Final = "programs"
"""`SuiteTask.answers` of a task that is scored by running what the model wrote."""

OUTPUTS: Final = "outputs"
"""`SuiteTask.answers` of a task that is scored by a judge, some time later."""

# MMLU's four, as the stock files' tags name them.
_CATEGORIES = ("stem", "humanities", "social_sciences", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPart:
    """One lm-eval task.

    Attributes:
        name: Its name.
        config: Its configuration; functions in it are names.
        category: MMLU's category of the subject: stem, humanities, social_sciences or other.
        in_chat: Settings that differ where the question is asked in the chat template.
    """

    name: str
    config: dict[str, Any]
    category: str | None = None
    in_chat: dict[str, Any] = field(default_factory=dict)

    @property
    def num_fewshot(self) -> int:
        """Number of examples in each prompt."""
        return int(self.config.get("num_fewshot") or 0)

    @property
    def evaluated(self) -> Split:
        """The split whose documents are evaluated: test where the task has one."""
        return self._split(self.config.get("test_split") or self.config["validation_split"])

    @property
    def examples(self) -> Split | None:
        """The split that examples come from, by lm-eval's rule; None where none does."""
        settings = self.config.get("fewshot_config") or {}
        given = settings.get("split") or self.config.get("fewshot_split")
        if not self.num_fewshot or (given is None and "samples" in settings):
            return None
        return self._split(given or next(filter(None, map(self.config.get, _SPLITS))))

    @property
    def takes_first(self) -> bool:
        """Whether the examples are the first there are, the same for each document."""
        return (self.config.get("fewshot_config") or {}).get("sampler") == "first_n"

    @property
    def splits(self) -> set[Split]:
        """All splits that the task reads."""
        return {self.evaluated} | ({self.examples} if self.examples else set())

    def for_chat(self) -> "TaskPart":
        """The task as it is asked in the chat template; its settings of generation are merged."""
        changes = dict(self.in_chat)
        if "generation_kwargs" in changes:
            changes["generation_kwargs"] = (
                self.config["generation_kwargs"] | changes["generation_kwargs"]
            )
        return replace(self, config=self.config | changes, in_chat={})

    def to_lm_eval(self) -> dict[str, Any]:
        """The configuration for lm-eval, which reads every split that is in it."""
        config: dict[str, Any] = with_functions(self.config, _folder())
        needed = {split.name for split in self.splits}
        unread = [name for name in _SPLITS if config.get(name) not in needed]
        unread += [] if self.num_fewshot else _EXAMPLES  # lm-eval loads them all the same
        return {name: value for name, value in config.items() if name not in unread}

    def _split(self, name: str) -> Split:
        return Split(self.config["dataset_path"], self.config.get("dataset_name") or "", name)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteTask:
    """A benchmark as it is reported: one lm-eval task, or one for each of its subjects.

    Attributes:
        name: What reports call it.
        headline: The metric that counts.
        filter: The filter whose answers count; None where the task names none.
        parts: The lm-eval tasks that make it up.
        group: The fields of lm-eval's group where it has several parts.
    """

    name: str
    headline: str
    filter: str | None = None
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
        return self.parts[0].num_fewshot

    @property
    def is_macro(self) -> bool:
        """Whether its parts count equally, rather than its documents."""
        weights = (self.group or {}).get("aggregate_metric_list") or []
        return any(not metric.get("weight_by_size", True) for metric in weights)

    @property
    def answers(self) -> str | None:
        """PROGRAMS or OUTPUTS; None where lm-eval itself judges the answers."""
        return (self.parts[0].config.get("metadata") or {}).get("answers")

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that are recorded."""
        return tuple(metric["metric"] for metric in self.parts[0].config["metric_list"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Tasks that are run together.

    Attributes:
        name: What reports call it.
        tasks: Its tasks, in the order of the report.
        limit: Documents a task unless the user says otherwise; None for all.
        about: What it is for, in a sentence or two.
        average: Names of the tasks whose headline metrics its average is of; none for tasks that
            happen to be run together.
        apply_chat_template: Ask in the form of the chat template unless the user says otherwise.
        fewshot_as_multiturn: With it, give examples as earlier turns.
        inferred: What the source of its settings doesn't say, in a sentence each.
    """

    name: str
    tasks: tuple[SuiteTask, ...]
    limit: int | None = None
    about: str = ""
    average: tuple[str, ...] = ()
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    inferred: tuple[str, ...] = ()

    def answering(self, kind: str) -> tuple[str, ...]:
        """Names of the tasks whose answers are PROGRAMS or OUTPUTS."""
        return tuple(task.name for task in self.tasks if task.answers == kind)

    def for_chat(self) -> "Suite":
        """The suite as it is asked in the chat template."""
        tasks = (
            replace(task, parts=tuple(part.for_chat() for part in task.parts))
            for task in self.tasks
        )
        return replace(self, tasks=tuple(tasks))


def suite_names() -> list[str]:
    """Names of all suites."""
    return sorted(path.stem for path in _files() if _is_suite(read(path)))


def task_names() -> list[str]:
    """Names of all tasks."""
    return sorted(path.stem for path in _files() if not _is_suite(read(path)))


def load_suite(name: str) -> Suite:
    """A suite by name.

    Raises:
        UsageError: if there is none of this name.
    """
    if name not in suite_names():
        raise UsageError(f"Unknown suite {name!r}; known are {', '.join(suite_names())}.")
    values = read(_folder() / f"{name}.yaml")
    settings = values["metadata"]
    headlines: dict[str, str] = settings["headline"]
    entries = [{"task": each} if isinstance(each, str) else each for each in values["task"]]
    tasks = tuple(_task(entry, headlines[entry["task"]]) for entry in entries)
    return Suite(
        name=name,
        tasks=tasks,
        limit=settings.get("limit"),
        about=settings.get("about", ""),
        average=tuple(settings.get("average") or (task.name for task in tasks)),
        apply_chat_template=settings.get("apply_chat_template", False),
        fewshot_as_multiturn=settings.get("fewshot_as_multiturn", False),
        inferred=tuple(settings.get("inferred", ())),
    )


def suite_of(names: Sequence[str]) -> Suite:
    """A suite of single tasks as their files have them, with all their documents.

    Their headline metric is acc_norm where they have it, else their first; after the first filter.

    Raises:
        UsageError: if there is no task of one of the names, or a name comes twice.
    """
    known = task_names()
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown task {name!r}; known are {', '.join(known)}.")
    if not names or len(set(names)) != len(names):
        raise UsageError("--tasks takes one or more different names, separated by commas.")
    tasks = tuple(_task({"task": name}, None) for name in names)
    return Suite(name="+".join(names), tasks=tasks)


def _folder() -> Path:
    package = Path(ladder_eval.__file__).parent
    shipped = package / "tasks"
    return shipped if shipped.is_dir() else package.parent / "tasks"


def _files() -> list[Path]:
    return sorted(_folder().glob("*.yaml"))


def _is_suite(values: dict[str, Any]) -> bool:
    return "headline" in (values.get("metadata") or {})


def _task(entry: Mapping[str, Any], headline: str | None) -> SuiteTask:
    """The task that a suite's entry names, with the settings that the entry changes."""
    name = entry["task"]
    values = read(_folder() / f"{name}.yaml")
    changes = {field: value for field, value in entry.items() if field != "task"}
    group = None
    if "group" in values:
        stock, own = read_stock(values.pop("task")), values.pop("parts", {})
        group = values | {n: changes.pop(n) for n in list(changes) if n in values}
    else:
        stock, own = _included(values.pop("include", None)), values
    parts = tuple(_part({**config, **own, **changes}) for config in stock)
    metric, _, after = (headline or _default_headline(parts[0])).partition(",")
    return SuiteTask(name=name, headline=metric, filter=after or None, parts=parts, group=group)


def _included(name: str | None) -> list[dict[str, Any]]:
    """What a file includes: the stock task, another file of ours, or nothing."""
    if name is None:
        return [{}]
    return [read(_folder() / name)] if "/" not in name else read_stock(name)


def _part(config: dict[str, Any]) -> TaskPart:
    tags = str(config.get("tag"))
    category = next((each for each in _CATEGORIES if f"_{each}_tasks" in tags), None)
    kept = {name: value for name, value in config.items() if name not in _UNUSED}
    in_chat = kept.pop("in_chat", {})
    return TaskPart(name=kept["task"], config=kept, category=category, in_chat=in_chat)


def _default_headline(part: TaskPart) -> str:
    metrics = [str(metric["metric"]) for metric in part.config["metric_list"]]
    metric = "acc_norm" if "acc_norm" in metrics else metrics[0]
    filters = part.config.get("filter_list") or []
    return ",".join([metric, *(each["name"] for each in filters[:1])])
