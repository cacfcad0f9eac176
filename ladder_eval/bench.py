"""The job of `bench`: residuals of one shape in every setting that was asked for."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from ladder_eval.bench_options import DEFAULT_RATIO, BenchOptions
from ladder_eval.distributed.emulated import one_of
from ladder_eval.distributed.launch import Team, place_from_environment
from ladder_eval.distributed.shares import busiest_rank, shares
from ladder_eval.engine.ranks import Driver
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution, Stopwatch, execution_of
from ladder_eval.load import jobs, time_jobs
from ladder_eval.load import warnings_of as load_warnings
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import TOPOLOGIES, ModelConfig
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
from ladder_eval.timing import Setting, fitting, time_settings, warnings_of, why_not

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
    subject = _subject(options, arms)
    largest = max((setting.workload for setting in settings), key=_tokens)
    executions = _executions(options, subject)
    records: list[TimedRecord] = []
    name = f"{SUITE}-{subject.name}-{watch.stamp}"
    with RunFolder.open(options.output_dir / name) as folder:
        for execution in executions:
            emulation = _emulation(options, arms, execution.tp_size)
            part = fitting(replace(subject, emulation=emulation), largest, execution)
            with _team(execution, part) as team:
                at = (execution, Driver(team), folder, terminal)
                timed = time_jobs(part, asked, *at) if asked else time_settings(part, settings, *at)
                for record in timed:
                    records.append(record)
                    result = _result(name, options.seed, watch, records)
                    folder.write_text("report.md", markdown(result))
                    folder.write_result(result)
    return result, folder.path


def _executions(options: BenchOptions, subject: Subject) -> list[Execution]:
    """Where each tp_size is timed.

    Raises:
        UsageError: if one of them can't be.
    """
    place = place_from_environment(os.environ)
    if options.emulate and place is not None:
        raise UsageError("One rank is emulated by one process; start the command without torchrun.")
    sizes = options.tp or (_default_tp_size(options) if place is None else place.world_size,)
    found = [execution_of(options.device, options.dtype, size) for size in sizes]
    for execution in found:
        shares(subject.whole.shape, execution.tp_size)
        if options.emulate:
            continue
        if (reason := why_not(execution)) and options.link != "real":
            raise UsageError(f"Not over a virtual link: {reason}; give --link real for another.")
        if options.link == "virtual" and execution.device.type == "cuda":
            raise UsageError("The virtual link joins ranks on CPUs; give --device cpu.")
    return found


def _default_tp_size(options: BenchOptions) -> int:
    """Two ranks, unless there is only one GPU for them; eight if one of them is enough."""
    if options.emulate:
        return _EMULATED_TP_SIZE
    on_gpu = execution_of(options.device, options.dtype, None).device.type == "cuda"
    return min(2, torch.cuda.device_count()) if on_gpu else 2


def _emulation(
    options: BenchOptions, whole: Mapping[str, ModelConfig], tp_size: int
) -> Emulation | None:
    if not options.emulate:
        return None
    return Emulation(
        rank=busiest_rank(whole[_BASELINE].shape, tp_size),
        tp_size=tp_size,
        skew=None if options.skew_us is None else options.skew_us * 1e-6,
        whole=whole,
    )


def _team(execution: Execution, subject: Subject) -> AbstractContextManager[Team]:
    if subject.emulation is None:
        return execution.team()
    return one_of(execution.tp_size, subject.emulation.rank, execution.device)


def _tokens(workload: Workload) -> int:
    return workload.batch_size * (workload.prompt_len + workload.output_len)


def _settings(options: BenchOptions) -> list[Setting]:
    shapes = product(options.batch_size, options.prompt_len, options.output_len)
    workloads = [
        Workload(batch_size=batch, prompt_len=prompt, output_len=output)
        for batch, prompt, output in shapes
    ]
    return [
        Setting(workload=work, link=link, rounds=options.rounds, minutes=options.max_minutes)
        for work, link in product(workloads, _links(options))
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
    return {name: _with_residual(dense, name) for name in names}


def _with_residual(dense: ModelConfig, name: str) -> ModelConfig:
    kind, _, depth = name.partition("-")
    if kind == "ladder" and depth.isdecimal() and int(depth) > 0:
        return dense.with_ladder(int(depth))
    if name != "ladder" and name not in TOPOLOGIES:
        raise UsageError(
            f"Unknown residual {name!r}; known are ladder, ladder-N for the last N layers, and "
            f"{', '.join(TOPOLOGIES)}."
        )
    return ResidualChoice(residual=name).apply(dense, name)


def _result(name: str, seed: int, watch: Stopwatch, records: Sequence[TimedRecord]) -> RunResult:
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
        warnings=(*warnings_of(speed), *load_warnings(others)),
    )
