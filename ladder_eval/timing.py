"""Timing as a job: what fits, where it can be timed, and each round on disk."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.virtual_link import why_unavailable
from ladder_eval.engine.ranks import Driver
from ladder_eval.execution import Execution
from ladder_eval.results.speed_records import RANDOM, Round, SpeedRecord, Workload
from ladder_eval.results.store import RunFolder
from ladder_eval.speed.fitting import fitted, free_bytes, with_layers
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
        minutes: No round but the first is begun that would end later.
        trace: Whether to trace one more generation of each arm afterwards.
    """

    workload: Workload
    link: Link | None
    rounds: int
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
    tp_size, free = execution.tp_size, free_bytes(execution.device, execution.tp_size)
    config = fitted(subject.config, workload, tp_size, execution.torch_dtype.itemsize, free)
    if config == subject.config:
        return subject
    arms = {
        name: replace(with_layers(arm, config.num_hidden_layers), vocab_size=config.vocab_size)
        for name, arm in subject.arms.items()
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
    possible = dict.fromkeys(_possible(setting, execution) for setting in settings)
    terminal.say(_plan(subject, list(possible), execution))
    loaded = LoadedSubject.load(driver, subject, execution.torch_dtype)
    with terminal.rounds(sum(setting.rounds for setting in possible)) as progress:
        for setting in possible:
            conditions = _conditions(subject, setting, execution, driver)

            def keep(each: Round, conditions: dict[str, object] = conditions) -> None:
                folder.append_line(ROUNDS_NAME, json.dumps(conditions | {"round": asdict(each)}))
                progress.advance(1)

            deadline = start + 60 * setting.minutes if setting.minutes else float("inf")
            record = loaded.time(setting.workload, setting.link, setting.rounds, deadline, keep)
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


def _possible(setting: Setting, execution: Execution) -> Setting:
    """Only ranks have messages, and only those on CPUs can send them over a modelled wire."""
    modelled = execution.tp_size > 1 and execution.device.type == "cpu"
    return setting if modelled else replace(setting, link=None)


def _conditions(
    subject: Subject, setting: Setting, execution: Execution, driver: Driver
) -> dict[str, object]:
    """What a round's line says beside its times."""
    return {
        "model": subject.name,
        "weights": subject.weights,
        "num_hidden_layers": subject.config.num_hidden_layers,
        "vocab_size": subject.config.vocab_size,
        "dtype": execution.dtype,
        "device": str(execution.device),
        "tp_size": execution.tp_size,
        "backend": driver.team.backend,
        "link": None if setting.link is None else asdict(setting.link),
        "workload": asdict(setting.workload),
    }


def _plan(subject: Subject, settings: Sequence[Setting], execution: Execution) -> str:
    """What will be timed, in a line."""
    config, whole, first = subject.config, subject.whole, settings[0]
    left = ""
    if config.num_hidden_layers != whole.num_hidden_layers:
        left = f" on {config.num_hidden_layers} of {whole.num_hidden_layers} layers,"
    if config.vocab_size != whole.vocab_size:
        left += f" with a vocabulary of {config.vocab_size} of {whole.vocab_size},"
    work = first.workload
    what = (
        f"{len(settings)} settings"
        if len(settings) > 1
        else f"batch_size {work.batch_size}, prompt {work.prompt_len}, output {work.output_len}"
    )
    weights = "random weights" if subject.weights == RANDOM else "with their weights"
    limit = f", at most {first.minutes:g} min" if first.minutes else ""
    return (
        f"Timing {' and '.join(subject.arms)}, {weights},{left} tp_size {execution.tp_size}, "
        f"{execution.dtype} on {execution.device}: {what}, {first.rounds} rounds{limit}."
    )
