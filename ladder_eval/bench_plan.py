"""What of the asked-for settings can be timed on this machine, and what is skipped."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.subject import Subject
from ladder_eval.timing import Setting, fitting


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """All that is timed with one tp_size.

    Attributes:
        execution: Where.
        subject: What of the model fits in memory there.
        settings: How.
    """

    execution: Execution
    subject: Subject
    settings: Sequence[Setting]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All that is timed.

    Attributes:
        parts: By tp_size.
        skipped: Sentences about what isn't.
    """

    parts: Sequence[Part]
    skipped: Sequence[str]


def plan(
    subject_with: Callable[[int], Subject],
    settings: Sequence[Setting],
    sizes: Sequence[int],
    execution_with: Callable[[int], Execution],
) -> Plan:
    """What is asked for, all of it.

    Args:
        subject_with: The model and its residuals, for so many ranks.
        settings: How to time it.
        sizes: tp_sizes.
        execution_with: Where ranks of so many compute.

    Raises:
        UsageError: if one of the settings can't be timed here.
    """
    executions = [execution_with(size) for size in sizes]
    parts = [_part(subject_with(each.tp_size), settings, each) for each in executions]
    return Plan(parts=parts, skipped=())


def plan_of_grid(
    subject_with: Callable[[int], Subject],
    settings: Sequence[Setting],
    sizes: Sequence[int],
    execution_with: Callable[[int], Execution],
) -> Plan:
    """What of a grid can be timed here; arguments as of `plan`.

    Raises:
        UsageError: if nothing can.
    """
    parts: list[Part] = []
    skipped: list[str] = []
    for size in sizes:
        try:
            execution = execution_with(size)
        except UsageError as error:
            skipped.append(f"tp_size {size} is skipped: {error}")
            continue
        subject = subject_with(size)
        fit, left_out = _that_fit(subject, settings, execution)
        skipped += left_out
        if fit:
            parts.append(_part(subject, fit, execution))
    if not parts:
        raise UsageError(f"Nothing of the grid can be timed here. {' '.join(skipped)}")
    return Plan(parts=parts, skipped=skipped)


def require_room(execution: Execution) -> None:
    """Refuse ranks that would share a core, or a GPU of this machine.

    Raises:
        UsageError: if there are more of them.
    """
    if execution.device.type == "cuda":
        there, what = torch.cuda.device_count(), "GPU"
    else:
        there, what = _cores(), "core"
    if execution.tp_size > there and "RANK" not in os.environ:  # torchrun may span machines
        raise UsageError(
            f"{execution.tp_size} ranks need a {what} each, and there "
            f"{'is' if there == 1 else 'are'} {there} here; use a larger machine."
        )


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _that_fit(
    subject: Subject, settings: Sequence[Setting], execution: Execution
) -> tuple[list[Setting], list[str]]:
    """Settings of which at least two layers fit in memory, and what is said of the others."""
    fit: list[Setting] = []
    skipped: dict[Workload, str] = {}
    for setting in settings:
        try:
            fitting(subject, setting.workload, execution)
            fit.append(setting)
        except UsageError as error:
            work = setting.workload
            skipped[work] = (
                f"tp_size {execution.tp_size}, batch_size {work.batch_size}, prompt "
                f"{work.prompt_len}, output {work.output_len} is skipped: {error}"
            )
    return fit, list(skipped.values())


def _part(subject: Subject, settings: Sequence[Setting], execution: Execution) -> Part:
    # The weights are loaded once, so that the largest setting decides how many layers there are.
    largest = max((setting.workload for setting in settings), key=_tokens)
    fitted = fitting(subject, largest, execution)
    return Part(execution=execution, subject=fitted, settings=settings)


def _tokens(workload: Workload) -> int:
    return workload.batch_size * (workload.prompt_len + workload.output_len)
