"""Timing under load, and with the work of a run, as a job: what is asked; each round on disk."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from random import Random

from ladder_eval.bench_options import DEFAULT_REQUESTS, GROUP, BenchOptions
from ladder_eval.engine.ranks import Driver
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution
from ladder_eval.results.load_records import (
    LoadRecord,
    LoadRound,
    LoadRow,
    ReplayRecord,
    ReplayRound,
)
from ladder_eval.results.records import RunResult
from ladder_eval.results.store import RunFolder, read_batches, read_result
from ladder_eval.speed.load import Load, time_load
from ladder_eval.speed.measure import Link
from ladder_eval.speed.replay import Replay, draw_batches, time_replay
from ladder_eval.speed.serving import Asked, poisson_arrivals
from ladder_eval.speed.subject import LoadedSubject, Subject
from ladder_eval.terminal import Terminal
from ladder_eval.timing import ROUNDS_NAME, Setting, conditions_of, plan, possible


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One load or one replay.

    Attributes:
        setting: The largest batch that it has, the link, and how many rounds.
        work: What is computed.
    """

    setting: Setting
    work: Load | Replay


def jobs(options: BenchOptions, links: Sequence[Link | None]) -> list[Job]:
    """The loads or the replay that the options ask for; none for a plain bench.

    Raises:
        LadderEvalError: if the run that they name can't be replayed.
    """
    works: list[Load | Replay] = []
    if options.arrivals:
        works += _loads(options)
    elif options.replay is not None:
        replay = _replay(options, options.replay)
        drawn = draw_batches(replay.batches, options.requests, options.seed)
        works.append(replace(replay, batches=drawn))
    return [
        Job(
            setting=Setting(
                workload=work.largest,
                link=link,
                rounds=options.rounds,
                all_reduce=None if all_reduce == GROUP else all_reduce,
                minutes=options.max_minutes,
            ),
            work=work,
        )
        for work, link, all_reduce in product(works, links, options.all_reduce or (GROUP,))
    ]


def time_jobs(
    subject: Subject,
    asked: Sequence[Job],
    execution: Execution,
    driver: Driver,
    folder: RunFolder,
    terminal: Terminal,
) -> Iterator[LoadRecord | ReplayRecord]:
    """Time all arms of a subject in each job, with the weights loaded once; as `time_settings`."""
    start = time.perf_counter()
    able = dict.fromkeys(
        replace(job, setting=possible(job.setting, subject, execution)) for job in asked
    )
    terminal.say(plan(subject, execution, _words(list(able), subject), asked[0].setting))
    loaded = LoadedSubject.load(driver, subject, execution.torch_dtype)
    with terminal.rounds(sum(job.setting.rounds for job in able)) as progress:
        for job in able:
            setting = job.setting
            line = conditions_of(subject, setting, execution, driver) | _work(job.work)

            def keep(each: LoadRound | ReplayRound, line: dict[str, object] = line) -> None:
                folder.append_line(ROUNDS_NAME, json.dumps(line | {"round": asdict(each)}))
                progress.advance(1)

            deadline = start + 60 * setting.minutes if setting.minutes else float("inf")
            what = loaded.measurement(
                setting.workload, setting.link, setting.rounds, deadline, setting.all_reduce
            )
            if isinstance(job.work, Load):
                yield time_load(loaded, what, job.work, keep)
            else:
                yield time_replay(loaded, what, job.work, keep)


def warnings_of(records: Sequence[LoadRecord | ReplayRecord]) -> tuple[str, ...]:
    """What a reader has to know before believing the times."""
    found = []
    for record in records:
        made = record.conditions
        if made.rounds < made.rounds_asked:
            found.append(
                f"{made.model}: {made.rounds} of {made.rounds_asked} rounds fitted in the time "
                "limit."
            )
        if isinstance(record, LoadRecord):
            found += [_overload(record, row) for row in record.rows if _is_overloaded(record, row)]
    return tuple(dict.fromkeys(found))


def _is_overloaded(record: LoadRecord, row: LoadRow) -> bool:
    return row.capacity is not None and record.rate >= row.capacity


def _overload(record: LoadRecord, row: LoadRow) -> str:
    return (
        f"{record.rate:g} requests a second are more than {row.arm} can serve, {row.capacity:.3g} "
        f"in batches of {record.batch_size}: its queue grows for as long as requests come, and its "
        "ttft says how many came."
    )


def _loads(options: BenchOptions) -> Iterator[Load]:
    """A load for each combination of rate, batch_size and lengths."""
    count = options.requests or DEFAULT_REQUESTS
    for rate, batch_size in product(options.arrivals, options.batch_size):
        arrivals = poisson_arrivals(rate, count, options.seed)
        for words, lengths in _lengths(options, count):
            yield Load(
                requests=tuple(
                    Asked(arrival=arrival, prompt_len=prompt, output_len=output)
                    for arrival, (prompt, output) in zip(arrivals, lengths, strict=True)
                ),
                rate=rate,
                seed=options.seed,
                batch_size=batch_size,
                lengths=words,
            )


def _lengths(options: BenchOptions, count: int) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
    """Where prompt_len and output_len of so many requests come from, and what they are."""
    if options.replay is None:
        for pair in product(options.prompt_len, options.output_len):
            yield "as given", [pair] * count
        return
    replay = _replay(options, options.replay)
    rows = [pair for batch in replay.batches for pair in batch.lengths]
    words = f"drawn from those of {replay.requests_of} in run {replay.run_id}"
    yield words, Random(options.seed).choices(rows, k=count)


def _replay(options: BenchOptions, folder: Path) -> Replay:
    """All that the run's baseline, or its first model, has computed."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give --replay that of an accuracy run.")
    run = read_result(folder)
    if not run.models:
        raise UsageError(
            f"{folder} has scored nothing; give --replay the folder of an accuracy run."
        )
    model = next((m for m in run.models if m.name == run.baseline), run.models[0])
    return Replay(
        run_id=run.run_id,
        suite=run.suite,
        requests_of=model.name,
        all_requests=_answered(run, model.name),
        seed=options.seed,
        batches=tuple(read_batches(folder, model.name)),
    )


def _answered(run: RunResult, name: str) -> int:
    model = next(each for each in run.models if each.name == name)
    return model.scored_requests + model.reused_requests


def _work(work: Load | Replay) -> dict[str, object]:
    """What a round's line says of the work; a load's requests are in the round."""
    if isinstance(work, Load):
        return {
            "load": {
                name: getattr(work, name) for name in ("rate", "seed", "batch_size", "lengths")
            }
        }
    names = ("run_id", "suite", "requests_of", "seed")
    return {"replay": {name: getattr(work, name) for name in names}}


def _words(asked: Sequence[Job], subject: Subject) -> str:
    """What the jobs are, for the line that says what will be timed."""
    first = asked[0].work
    if isinstance(first, Replay):
        count = sum(batch.requests for batch in first.batches)
        return f"{count} requests of {first.requests_of} in run {first.run_id}"
    loads = [job.work for job in asked if isinstance(job.work, Load)]
    arms = len(subject.all_arms())
    seconds = sum(
        arms * job.setting.rounds * load.requests[-1].arrival
        for job, load in zip(asked, loads, strict=True)
    )
    rates = ", ".join(dict.fromkeys(f"{load.rate:g}" for load in loads))
    return (
        f"{len(first.requests)} requests at {rates} a second, {len(loads)} load"
        f"{'s' if len(loads) > 1 else ''}, at least {seconds / 60:.1f} min"
    )
