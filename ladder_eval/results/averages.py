"""The headline score of each task, and a suite's average of them."""

from dataclasses import dataclass

from ladder_eval.results.estimates import mean_of_tasks
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.records import RunResult, Score

__all__ = ["Average", "average_tasks", "headlines", "suite_average"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Average:
    """A model's mean over the tasks of a suite's average, each weighing the same.

    Attributes:
        value: Mean of the headline values that there are, a fraction.
        stderr: sqrt(sum(se²)) / k over the k tasks, whose documents are independent samples; None
            if one of theirs is unknown.
        counted: k, the tasks that have a value.
        tasks: The tasks that the average is of.
    """

    value: float
    stderr: float | None
    counted: int
    tasks: int

    @property
    def is_complete(self) -> bool:
        """Whether no task is missing; if one is, the value is no other model's average's equal."""
        return self.counted == self.tasks


def headlines(result: RunResult, model: str) -> dict[str, Score]:
    """A model's score in what counts of each task: metric, filter and part; by task."""
    found = {
        (each.task, each.metric, each.filter, each.part): each
        for each in result.scores
        if each.model == model
    }
    keys = {task.task: (task.task, task.metric, task.filter, task.part) for task in result.tasks}
    return {name: found[key] for name, key in keys.items() if key in found}


def average_tasks(result: RunResult) -> tuple[str, ...]:
    """Names of the tasks to average: the suite's, or where it names none, all.

    What isn't a fraction can't be averaged with fractions, and is left out.
    """
    metrics = {task.task: task.metric for task in result.tasks}
    names = result.average_tasks or tuple(metrics)
    return tuple(name for name in names if is_fraction(metrics.get(name, "")))


def suite_average(result: RunResult, model: str) -> Average | None:
    """A model's average; None if it has no score in any of its tasks."""
    scores, names = headlines(result, model), average_tasks(result)
    counted = [(scores[name].value, scores[name].stderr) for name in names if name in scores]
    if not counted:
        return None
    value, stderr = mean_of_tasks(counted)
    return Average(value=value, stderr=stderr, counted=len(counted), tasks=len(names))
