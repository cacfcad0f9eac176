"""Timing as a job: what fits, where it can be timed, and each round on disk."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.virtual_link import why_unavailable
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.free_memory import free_bytes
from ladder_eval.execution import Execution
from ladder_eval.results.speed_records import (
    EMULATED,
    MEASURED,
    RANDOM,
    Round,
    SpeedRecord,
    Workload,
)
from ladder_eval.results.store import RunFolder
from ladder_eval.speed.extrapolation import extrapolable, few_layers
from ladder_eval.speed.fitting import fitted, with_layers
from ladder_eval.speed.measure import Link
from ladder_eval.speed.subject import LoadedSubject, Subject
from ladder_eval.terminal import Terminal
from ladder_eval.tracing import write_trace

ROUNDS_NAME = "rounds.jsonl"
"""The file of a run's folder to which every timed round is added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One way to time a subject.

    Attributes:
        workload: What is generated.
        link: The virtual link, or None for real messages.
        rounds: How many rounds.
        all_reduce: Of real messages, the kernel that sums them; None for the group's own.
        minutes: No round but the first is begun that would end later.
        trace: Whether to trace one more generation of each arm afterwards.
    """

    workload: Workload
    link: Link | None
    rounds: int
    all_reduce: str | None = None
    minutes: float | None = None
    trace: bool = False


def why_not(execution: Execution) -> str | None:
    """Why ranks can't be timed over a virtual link here, or None if they can, or needn't be."""
    if execution.tp_size == 1 or execution.device.type == "cuda":
        return None
    place = place_from_environment(os.environ)
    if place is not None and place.local_world_size != place.world_size:
        return "the virtual link joins ranks of one machine"
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return why_unavailable(execution.tp_size, int(threads) if threads.isdecimal() else 1)


def fitting(subject: Subject, workload: Workload, execution: Execution) -> Subject:
    """The subject, or as much of it as fits in memory, with random weights.

    Raises:
        UsageError: if not even two layers fit.
    """
    tp_size, whole = execution.tp_size, subject.whole
    if subject.emulation is None:
        free = free_bytes(execution.device, tp_size)
    else:
        free = tp_size * free_bytes(execution.device, 1)  # one of the ranks may have all of it
    config = fitted(subject.config, workload, tp_size, execution.torch_dtype.itemsize, free)
    if config == subject.config:
        return subject
    layers, arms, cut = config.num_hidden_layers, subject.arms, with_layers
    if subject.emulation is not None and layers < whole.num_hidden_layers:
        layers, arms, cut = extrapolable(layers, arms), subject.emulation.whole, few_layers
    arms = {
        name: replace(cut(arm, layers), vocab_size=config.vocab_size) for name, arm in arms.items()
    }
    return replace(subject, arms=arms, folder=None, weights=RANDOM)


def time_settings(
    subject: Subject,
    settings: Sequence[Setting],
    execution: Execution,
    driver: Driver,
    folder: RunFolder,
    terminal: Terminal,
) -> Iterator[SpeedRecord]:
    """Time all arms of a subject in each setting, with the weights loaded once.

    Args:
        subject: What fits in memory.
        settings: What to do with it; those that come to the same here are one.
        execution: Where.
        driver: Rank 0 of a group there.
        folder: Where each round is kept.
        terminal: What the user sees.
    """
    start = time.perf_counter()
    able = dict.fromkeys(possible(setting, subject, execution) for setting in settings)
    terminal.say(plan(subject, execution, _work(list(able)), settings[0]))
    loaded = LoadedSubject.load(driver, subject, execution.torch_dtype)
    with terminal.rounds(sum(setting.rounds for setting in able)) as progress:
        for setting in able:
            conditions = conditions_of(subject, setting, execution, driver)

            def keep(each: Round, conditions: dict[str, object] = conditions) -> None:
                folder.append(ROUNDS_NAME, conditions | {"round": asdict(each)})
                progress.advance(1)

            deadline = start + 60 * setting.minutes if setting.minutes else float("inf")
            record = loaded.time(
                setting.workload,
                setting.link,
                setting.rounds,
                deadline,
                keep,
                all_reduce=setting.all_reduce,
            )
            if setting.trace:
                record, traces = loaded.trace(record)
                write_trace(folder, record, traces)
            yield record


def warnings_of(records: Sequence[SpeedRecord]) -> tuple[str, ...]:
    """What a reader has to know before believing the times."""
    found = []
    if any(record.link.name == "gloo" for record in records):
        found.append(
            "Gloo spends the time of the ranks' own cores: what a residual seems to hide of it is "
            "mostly the waking of threads, and says nothing about a network."
        )
    found += [
        f"{r.model}: {r.rounds} of {r.rounds_asked} rounds fitted in the time limit."
        for r in records
        if r.rounds < r.rounds_asked
    ]
    return tuple(dict.fromkeys(found))


def possible(setting: Setting, subject: Subject, execution: Execution) -> Setting:
    """The setting, with what it asks of a link that can be had.

    Only ranks have messages; over a modelled wire those on CPUs can send them, or one alone.
    """
    free = execution.device.type == "cpu" or subject.emulation is not None
    modelled = execution.tp_size > 1 and free
    return setting if modelled else replace(setting, link=None)


def conditions_of(
    subject: Subject, setting: Setting, execution: Execution, driver: Driver
) -> dict[str, object]:
    """What a round's line says beside its times."""
    return {
        "kind": MEASURED if subject.emulation is None else EMULATED,
        "model": subject.name,
        "weights": subject.weights,
        "num_hidden_layers": subject.config.num_hidden_layers,
        "vocab_size": subject.config.vocab_size,
        "dtype": execution.dtype,
        "device": str(execution.device),
        "tp_size": execution.tp_size,
        "backend": setting.all_reduce or driver.team.backend,
        "link": None if setting.link is None else asdict(setting.link),
        "workload": asdict(setting.workload),
    }


def _work(settings: Sequence[Setting]) -> str:
    if len(settings) > 1:
        return f"{len(settings)} settings"
    work = settings[0].workload
    return f"batch_size {work.batch_size}, prompt {work.prompt_len}, output {work.output_len}"


def plan(subject: Subject, execution: Execution, work: str, first: Setting) -> str:
    """What will be timed, in a line.

    Args:
        subject: What fits in memory.
        execution: Where.
        work: What it does there, in words.
        first: The first of the settings, which all have its rounds and its limit.
    """
    config, whole = subject.config, subject.whole
    left = ""
    if config.num_hidden_layers != whole.num_hidden_layers:
        left = f" on {config.num_hidden_layers} of {whole.num_hidden_layers} layers,"
    if config.vocab_size != whole.vocab_size:
        left += f" with a vocabulary of {config.vocab_size} of {whole.vocab_size},"
    verb, where = "Timing", f"tp_size {execution.tp_size}"
    if subject.emulation is not None:
        verb, where = "Emulating", f"rank {subject.emulation.rank} of {execution.tp_size}"
    weights = "random weights" if subject.weights == RANDOM else "with their weights"
    limit = f", at most {first.minutes:g} min" if first.minutes else ""
    return (
        f"{verb} {' and '.join(subject.arms)}, {weights},{left} {where}, "
        f"{execution.dtype} on {execution.device}: {work}, {first.rounds} rounds{limit}."
    )
