"""The job of `bench`: residuals of one shape in every setting that was asked for."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch

from ladder_eval.bench_options import DEFAULT_RATIO, GROUP, BenchOptions
from ladder_eval.bench_plan import Part, Plan, plan, plan_of_grid, require_room
from ladder_eval.distributed.emulated import one_of
from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.shares import busiest_rank, shares
from ladder_eval.distributed.symmetric_memory import why_unavailable
from ladder_eval.distributed.team import Team
from ladder_eval.engine.driver import Driver
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution, Stopwatch, execution_of
from ladder_eval.load import Job, jobs, time_jobs
from ladder_eval.load import warnings_of as load_warnings
from ladder_eval.models.choice import with_residual
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.hub_id import find_place, place_name
from ladder_eval.models.selection import peek
from ladder_eval.report.tables import markdown
from ladder_eval.results.load_records import LoadRecord, ReplayRecord
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import SpeedRecord, Workload
from ladder_eval.results.store import RunFolder
from ladder_eval.speed.emulate import Emulation
from ladder_eval.speed.extrapolation import few_layers, require_extrapolable
from ladder_eval.speed.fitting import with_layers
from ladder_eval.speed.measure import Link
from ladder_eval.speed.subject import NO_COMM, Subject
from ladder_eval.terminal import Terminal
from ladder_eval.timing import Setting, time_settings, warnings_of, why_not

SUITE = "bench"

TimedRecord = SpeedRecord | LoadRecord | ReplayRecord
"""What one setting gives."""

# GPUs of one server, as the paper has them.
_EMULATED_TP_SIZE = 8

_BASELINE = "standard"
_DEFAULT_RESIDUALS = ("ladder", "parallel", "desync-2x")


def bench(options: BenchOptions, terminal: Terminal) -> tuple[RunResult, Path]:
    """Time residuals of one shape with random weights; return the result and its folder.

    Each round is on disk before the next, each finished setting before the next.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    watch = Stopwatch()
    arms, asked = _whole_arms(options), jobs(options, _links(options))
    settings = [job.setting for job in asked] or _settings(options)
    planned = _planned(options, arms, settings)
    for sentence in planned.skipped:
        terminal.say(sentence)
    records: list[TimedRecord] = []
    name = f"{SUITE}-{planned.parts[0].subject.name}-{watch.stamp}"
    with RunFolder.open(options.output_dir / name) as folder:
        for part in planned.parts:
            with _team(part) as team:
                for record in _timed(part, asked, Driver(team), folder, terminal):
                    records.append(record)
                    result = _result(name, options.seed, watch, records, planned.skipped)
                    folder.write_text("report.md", markdown(result))
                    folder.write_result(result)
    return result, folder.path


def _timed(
    part: Part, asked: Sequence[Job], driver: Driver, folder: RunFolder, terminal: Terminal
) -> Iterator[TimedRecord]:
    if asked:
        return time_jobs(part.subject, asked, part.execution, driver, folder, terminal)
    return time_settings(part.subject, part.settings, part.execution, driver, folder, terminal)


def _planned(
    options: BenchOptions, arms: Mapping[str, ModelConfig], settings: Sequence[Setting]
) -> Plan:
    """What is timed where.

    Raises:
        UsageError: if something can't be; of a grid, if nothing can.
    """
    place = place_from_environment(os.environ)
    if options.emulate and place is not None:
        raise UsageError("One rank is emulated by one process; start the command without torchrun.")
    sizes = options.tp or (_default_tp_size(options) if place is None else place.world_size,)
    subject = _subject(options, arms)
    make = plan if options.grid is None else plan_of_grid
    return make(
        partial(_subject_of_ranks, options, arms, subject),
        settings,
        sizes,
        partial(_execution, options, subject),
    )


def _subject_of_ranks(
    options: BenchOptions, whole: Mapping[str, ModelConfig], subject: Subject, tp_size: int
) -> Subject:
    """The subject, with what stands for its ranks where one is emulated."""
    if not options.emulate:
        return subject
    emulation = Emulation(
        rank=busiest_rank(subject.whole.shape, tp_size),
        tp_size=tp_size,
        skew=None if options.skew_us is None else options.skew_us * 1e-6,
        whole=whole,
    )
    return replace(subject, emulation=emulation)


def _execution(options: BenchOptions, subject: Subject, tp_size: int) -> Execution:
    """Where ranks of so many compute.

    Raises:
        UsageError: if they can't.
    """
    found = execution_of(options.device, options.dtype, tp_size)
    shares(subject.whole.shape, tp_size)
    if options.emulate:
        return found
    if options.grid is not None:
        require_room(found)
    if (reason := why_not(found)) and options.link != "real":
        raise UsageError(f"Not over a virtual link: {reason}; give --link real for another.")
    if options.link == "virtual" and found.device.type == "cuda":
        raise UsageError("The virtual link joins ranks on CPUs; give --device cpu.")
    if set(options.all_reduce) - {GROUP} and (reason := why_unavailable(found.device)):
        raise UsageError(f"No one-shot or two-shot here: {reason}; give --all-reduce {GROUP}.")
    return found


def _default_tp_size(options: BenchOptions) -> int:
    """Two ranks, unless there is only one GPU for them; eight if one of them is enough."""
    if options.emulate:
        return _EMULATED_TP_SIZE
    on_gpu = execution_of(options.device, options.dtype, None).device.type == "cuda"
    return min(2, torch.cuda.device_count()) if on_gpu else 2


def _team(part: Part) -> AbstractContextManager[Team]:
    emulation, execution = part.subject.emulation, part.execution
    if emulation is None:
        return execution.team()
    return one_of(execution.tp_size, emulation.rank, execution.device)


def _settings(options: BenchOptions) -> list[Setting]:
    shapes = product(options.batch_size, options.prompt_len, options.output_len)
    workloads = [
        Workload(batch_size=batch, prompt_len=prompt, output_len=output)
        for batch, prompt, output in shapes
    ]
    return [
        Setting(
            workload=work,
            link=link,
            rounds=options.rounds,
            minutes=options.max_minutes,
            trace=options.trace,
            all_reduce=None if all_reduce == GROUP else all_reduce,
        )
        for work, link in product(workloads, _links(options))
        for all_reduce in options.all_reduce or (GROUP,)
    ]


def _links(options: BenchOptions) -> list[Link | None]:
    if options.link == "real":
        return [None]
    link = Link(mode=options.link_mode, bandwidth=options.bandwidth_gbs * 1e9)
    if options.latency_us:
        return [replace(link, latency=latency * 1e-6) for latency in options.latency_us]
    return [replace(link, ratio=ratio) for ratio in options.latency_ratio or (DEFAULT_RATIO,)]


def _whole_arms(options: BenchOptions) -> dict[str, ModelConfig]:
    """The shape that the user named, and its residuals, with all layers."""
    own = peek(options.model)
    if own is None:
        raise UsageError(f"{options.model} has no config.json; give a folder with one, or a name.")
    return {_BASELINE: own.as_standard()} | _candidates(options, own)


def _subject(options: BenchOptions, arms: Mapping[str, ModelConfig]) -> Subject:
    whole = arms[_BASELINE]
    layers = options.layers or whole.num_hidden_layers
    if layers > whole.num_hidden_layers:
        raise UsageError(f"{options.model} has {whole.num_hidden_layers} layers; give fewer.")
    cut = with_layers
    if options.emulate and layers < whole.num_hidden_layers:
        require_extrapolable(layers, arms)
        cut = few_layers
    return Subject(
        name=place_name(find_place(options.model) or Path(options.model)),
        arms={name: cut(config, layers) for name, config in arms.items()},
        baseline=_BASELINE,
        whole=whole,
    )


def _candidates(options: BenchOptions, own: ModelConfig) -> dict[str, ModelConfig]:
    dense = own.as_standard()
    if not options.residual and own != dense:
        return {own.residual: own}
    # The baseline and the bound are timed whatever is asked for.
    names = [n for n in options.residual or _DEFAULT_RESIDUALS if n not in (_BASELINE, NO_COMM)]
    return {name: with_residual(dense, name) for name in names}


def _result(
    name: str,
    seed: int,
    watch: Stopwatch,
    records: Sequence[TimedRecord],
    skipped: Sequence[str],
) -> RunResult:
    last = records[-1] if isinstance(records[-1], SpeedRecord) else records[-1].conditions
    speed = tuple(each for each in records if isinstance(each, SpeedRecord))
    others = [each for each in records if not isinstance(each, SpeedRecord)]
    return RunResult(
        run_id=name,
        suite=SUITE,
        limit=None,
        seed=seed,
        baseline=_BASELINE,
        provenance=watch.provenance(torch.device(last.device), last.peak_memory_bytes),
        models=(),
        tasks=(),
        scores=(),
        comparisons=(),
        speed=speed,
        load=tuple(each for each in others if isinstance(each, LoadRecord)),
        replay=tuple(each for each in others if isinstance(each, ReplayRecord)),
        warnings=(*warnings_of(speed), *load_warnings(others), *skipped),
    )
