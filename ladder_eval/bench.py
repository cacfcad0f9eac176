"""The job of `bench`: residuals of one shape in every setting that was asked for."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch

from ladder_eval.bench_options import DEFAULT_RATIO, BenchOptions
from ladder_eval.bench_plan import Plan, plan, plan_of_grid
from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.shares import shares
from ladder_eval.engine.ranks import Driver
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution, Stopwatch, execution_of
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import TOPOLOGIES, ModelConfig
from ladder_eval.models.hub_id import find_place, place_name
from ladder_eval.models.selection import peek
from ladder_eval.report.tables import markdown
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import SpeedRecord, Workload
from ladder_eval.results.store import RunFolder
from ladder_eval.speed.fitting import with_layers
from ladder_eval.speed.measure import Link
from ladder_eval.speed.subject import NO_COMM, Subject
from ladder_eval.terminal import Terminal
from ladder_eval.timing import Setting, time_settings, warnings_of, why_not

SUITE = "bench"

_BASELINE = "standard"
_DEFAULT_RESIDUALS = ("ladder", "parallel", "desync-2x")


def bench(options: BenchOptions, terminal: Terminal) -> tuple[RunResult, Path]:
    """Time residuals of one shape with random weights; return the result and its folder.

    Each round is on disk before the next, each finished setting before the next.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    watch = Stopwatch()
    subject, settings = _subject(options), _settings(options)
    planned = _planned(options, subject, settings)
    for sentence in planned.skipped:
        terminal.say(sentence)
    records: list[SpeedRecord] = []
    name = f"{SUITE}-{subject.name}-{watch.stamp}"
    with RunFolder.open(options.output_dir / name) as folder:
        for part in planned.parts:
            with part.execution.team() as team:
                for record in time_settings(
                    part.subject, part.settings, part.execution, Driver(team), folder, terminal
                ):
                    records.append(record)
                    result = _result(name, watch, records, planned.skipped)
                    folder.write_text("report.md", markdown(result))
                    folder.write_result(result)
    return result, folder.path


def _planned(options: BenchOptions, subject: Subject, settings: Sequence[Setting]) -> Plan:
    """What is timed where.

    Raises:
        UsageError: if something can't be; of a grid, if nothing can.
    """
    place = place_from_environment(os.environ)
    sizes = options.tp or (_default_tp_size(options) if place is None else place.world_size,)
    make = plan if options.grid is None else plan_of_grid
    return make(subject, settings, sizes, partial(_execution, options, subject))


def _execution(options: BenchOptions, subject: Subject, tp_size: int) -> Execution:
    """Where ranks of so many compute.

    Raises:
        UsageError: if they can't.
    """
    found = execution_of(options.device, options.dtype, tp_size)
    shares(subject.whole.shape, tp_size)
    if (reason := why_not(found)) and options.link != "real":
        raise UsageError(f"Not over a virtual link: {reason}; give --link real for another.")
    if options.link == "virtual" and found.device.type == "cuda":
        raise UsageError("The virtual link joins ranks on CPUs; give --device cpu.")
    return found


def _default_tp_size(options: BenchOptions) -> int:
    """Two ranks, unless there is only one GPU for them."""
    on_gpu = execution_of(options.device, options.dtype, None).device.type == "cuda"
    return min(2, torch.cuda.device_count()) if on_gpu else 2


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
        )
        for work, link in product(workloads, _links(options))
    ]


def _links(options: BenchOptions) -> list[Link | None]:
    if options.link == "real":
        return [None]
    link = Link(mode=options.link_mode, bandwidth=options.bandwidth_gbs * 1e9)
    if options.latency_us:
        return [replace(link, latency=latency * 1e-6) for latency in options.latency_us]
    return [replace(link, ratio=ratio) for ratio in options.latency_ratio or (DEFAULT_RATIO,)]


def _subject(options: BenchOptions) -> Subject:
    """The shape that the user named, and its residuals."""
    own = peek(options.model)
    if own is None:
        raise UsageError(f"{options.model} has no config.json; give a folder with one, or a name.")
    whole = own.as_standard()
    layers = options.layers or whole.num_hidden_layers
    if layers > whole.num_hidden_layers:
        raise UsageError(f"{options.model} has {whole.num_hidden_layers} layers; give fewer.")
    arms = {_BASELINE: whole} | _candidates(options, own)
    return Subject(
        name=place_name(find_place(options.model) or Path(options.model)),
        arms={name: with_layers(config, layers) for name, config in arms.items()},
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


def _result(
    name: str, watch: Stopwatch, records: Sequence[SpeedRecord], skipped: Sequence[str]
) -> RunResult:
    last = records[-1]
    return RunResult(
        run_id=name,
        suite=SUITE,
        limit=None,
        seed=0,
        baseline=_BASELINE,
        provenance=watch.provenance(torch.device(last.device), last.peak_memory_bytes),
        models=(),
        tasks=(),
        scores=(),
        comparisons=(),
        speed=tuple(records),
        warnings=(*warnings_of(records), *skipped),
    )
