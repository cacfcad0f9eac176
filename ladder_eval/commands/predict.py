"""`predict` and what is below it: speed from an analytic model, for machines that aren't here."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ladder_eval.commands.shared import AsJson, sentences

if TYPE_CHECKING:
    from ladder_eval.models.config import ModelConfig
    from ladder_eval.speed.constants import Calibrated
    from ladder_eval.speed.timing_logs import LogRow

app = typer.Typer(help="Predicted speed, by an analytic model: nothing here is measured.")

Model = Annotated[str, typer.Option(help="Shape: a named model, a folder, or a Hub id.")]
MachineName = Annotated[
    str, typer.Option(help="A name of `predict machines`, or what `predict measure` wrote.")
]
ConstantsFile = Annotated[
    Path | None,
    typer.Option(help="What `predict fit` wrote.", show_default="those of the package"),
]
Residual = Annotated[
    str | None,
    typer.Option(
        help="ladder, ladder-N (last N layers), parallel, desync-2x or desync-4x.",
        show_default="ladder,parallel,desync-2x",
    ),
]
TpSizes = Annotated[str | None, typer.Option(help="Ranks.", show_default="8")]
Nodes = Annotated[int | None, typer.Option(help="Nodes of these ranks.", show_default="1")]
PromptLen = Annotated[str | None, typer.Option(help="Tokens in.", show_default="1024")]
OutputLen = Annotated[str | None, typer.Option(help="Tokens out.", show_default="512")]
Links = Annotated[
    str | None,
    typer.Option(
        help="p2p (rank to rank) or host (through the host's memory).", show_default="p2p"
    ),
]
AllReduces = Annotated[
    str | None,
    typer.Option(
        help="nccl, ring, one-shot, two-shot, custom (the fastest), or a time such as 5us.",
        show_default="nccl",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(help="compile, cuda_graph+flash or eager.", show_default="compile"),
]
PredictedDtype = Annotated[
    str | None, typer.Option(help="float16, bfloat16 or float32.", show_default="float16")
]


@app.command("machines")
def predict_machines() -> None:
    """List the machines that have a name, their datasheets, and whose constants they have."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.speed.hardware_listing import MACHINE_HEADINGS, machine_rows
        from ladder_eval.terminal import listing, print_page

        print_page(listing("Machines", MACHINE_HEADINGS, machine_rows()))


@app.command("speedup")
def predict_speedup(
    ctx: typer.Context,
    model: Model = "standard_70b",
    machine: MachineName = "h100_sxm",
    residual: Residual = None,
    tp: TpSizes = None,
    nodes: Nodes = None,
    batch_size: Annotated[str | None, typer.Option(help="Rows.", show_default="1,4,16,64")] = None,
    prompt_len: PromptLen = None,
    output_len: OutputLen = None,
    link: Links = None,
    all_reduce: AllReduces = None,
    mode: Mode = None,
    dtype: PredictedDtype = None,
    constants: ConstantsFile = None,
    json: AsJson = False,
) -> None:
    """Predict the speed of residuals; lists such as 1,8 are combined with each other."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.speed import answers
        from ladder_eval.speed.grid import grid

        asked = grid(_conditions_of(ctx))
        dense, where = _dense(model), _machine(machine, constants)
        found = answers.answers(dense, asked, where)
        if json:
            _print_json(answers.plain(found, where))
            return
        title = f"Predicted speed of {model} on {where.machine.title}"
        _print(title, answers.ANSWER_HEADINGS, answers.answer_rows(found))
        _conditions(where, asked.mode, asked.dtype, asked.nodes)


@app.command("crossover")
def predict_crossover(
    ctx: typer.Context,
    model: Model = "standard_70b",
    machine: MachineName = "h100_sxm",
    at_least: Annotated[float, typer.Option(help="Speed-up from which a residual pays.")] = 1.05,
    residual: Annotated[
        str | None, typer.Option(help="As in `predict speedup`.", show_default="ladder")
    ] = None,
    tp: Annotated[str | None, typer.Option(help="Ranks.", show_default="2,4,8")] = None,
    nodes: Nodes = None,
    prompt_len: PromptLen = None,
    output_len: OutputLen = None,
    link: Annotated[
        str | None, typer.Option(help="p2p or host.", show_default="all of the machine")
    ] = None,
    all_reduce: AllReduces = None,
    mode: Mode = None,
    dtype: PredictedDtype = None,
    constants: ConstantsFile = None,
) -> None:
    """Say at which batch sizes a residual pays, and is ahead of parallel, by tp_size and link."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.speed import answers
        from ladder_eval.speed.grid import grid
        from ladder_eval.speed.hardware import LINKS

        dense, where = _dense(model), _machine(machine, constants)
        links = ",".join(name for name in LINKS if name in where.machine.links)
        asked = grid({"residual": "ladder", "tp": "2,4,8", "link": links} | _conditions_of(ctx))
        found = list(answers.crossovers(dense, asked, where, at_least))
        title = f"Predicted: where the speed-up is {at_least:g} or more, {model} on "
        _print(
            title + where.machine.title, answers.CROSSOVER_HEADINGS, answers.crossover_rows(found)
        )
        _conditions(where, asked.mode, asked.dtype, asked.nodes)


@app.command("fit")
def predict_fit(
    logs: Annotated[
        Path,
        typer.Argument(
            help="CSV with residual, model, tp_size, batch_size, p2p, mode, prefill_s, decode_s."
        ),
    ],
    machine: MachineName = "h100_sxm",
    prompt_len: Annotated[int, typer.Option(help="Tokens in of the logs.")] = 1024,
    output_len: Annotated[int, typer.Option(help="Tokens out of the logs.")] = 512,
    source: Annotated[
        str | None, typer.Option(help="What the logs are.", show_default="the file's name")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the constants to this file.")] = None,
) -> None:
    """Fit a machine's constants to timing logs, and say how well they predict other models."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.speed import calibrate, cross_validation, reproduction
        from ladder_eval.speed.constants import to_json
        from ladder_eval.speed.timing_logs import read_logs

        rows = read_logs(logs, prompt_len, output_len)
        command = f"ladder-eval predict fit {logs.name} --machine {machine}"
        fitted = calibrate.fit(rows, _machine(machine, None), source or logs.name, command)
        splits = list(cross_validation.splits(rows, fitted))
        headings = (
            *cross_validation.CONSTANT_HEADINGS,
            *(f"{', '.join(split.fitted)} alone" for split in splits),
        )
        constants = cross_validation.constant_rows(fitted.constants, splits)
        _print("Fitted constants, in seconds and shares", headings, constants)
        title = "Errors of predictions on models whose rows weren't fitted"
        _print(title, cross_validation.SPLIT_HEADINGS, cross_validation.split_rows(splits))
        if not splits:
            typer.echo("The logs have one model: how far off predictions of others are is unknown.")
        if machine == reproduction.MACHINE:
            _print_reproduction(rows, fitted)
        if output is not None:
            output.write_text(to_json(fitted.calibration), encoding="utf-8")
            typer.echo(f"Written to {output}.", err=True)


@app.command("measure")
def predict_measure(
    output: Annotated[Path, typer.Argument(help="File to write the machine to.")],
    ranks: Annotated[int, typer.Option(help="Processes that compute at once.")] = 2,
    threads: Annotated[int, typer.Option(help="Threads of each.")] = 1,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
) -> None:
    """Measure what the CPUs of this computer reach, as a machine to predict for."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.speed.constants import to_json
        from ladder_eval.speed.measured_machine import measured_machine

        machine, calibration = measured_machine(ranks, threads, dtype)
        output.write_text(to_json(calibration, machine), encoding="utf-8")
        typer.echo(
            f"{machine.title}: {machine.flops[dtype] / 1e9:.1f} GFLOP/s, "
            f"{machine.memory_bandwidth / 1e9:.1f} GB/s a rank, "
            f"{calibration.constants.kernel_seconds * 1e6:.1f} µs a kernel; written to {output}."
        )


@app.command("check")
def predict_check(
    folder: Annotated[Path, typer.Argument(help="Folder of a `bench` over the virtual link.")],
    machine: Annotated[Path, typer.Option(help="What `predict measure` wrote.")],
    model: Annotated[
        str | None,
        typer.Option(help="The shape, as `bench` was given it.", show_default="by the run's name"),
    ] = None,
) -> None:
    """Put predictions beside what `bench` measured on the same computer."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.results.store import read_result
        from ladder_eval.speed.bench_check import CHECK_HEADINGS, check, check_rows

        where = _machine(str(machine), None)
        rows = list(check_rows(check(read_result(folder), where, model)))
        _print(f"Predicted beside measured, {where.machine.title}", CHECK_HEADINGS, rows)
        typer.echo("Measured: real processes over a virtual link. Predicted: block times, too.")


# What the command lines of two commands have in common, as `grid` takes it.
_CONDITIONS = (
    *("residual", "tp", "nodes", "batch_size", "prompt_len", "output_len"),
    *("link", "all_reduce", "mode", "dtype"),
)


def _conditions_of(ctx: typer.Context) -> dict[str, Any]:
    """The conditions that were given."""
    return {name: ctx.params[name] for name in _CONDITIONS if ctx.params.get(name) is not None}


def _print_reproduction(rows: "list[LogRow]", fitted: "Calibrated") -> None:
    from ladder_eval.speed import reproduction

    found = reproduction.reproduce(rows, fitted)
    _print(
        "The paper's speed-ups over standard in tokens/s",
        reproduction.REPRODUCTION_HEADINGS,
        reproduction.reproduction_rows(found),
    )
    for sentence in reproduction.discrepancies(found):
        typer.echo(sentence)


def _machine(name: str, constants: Path | None) -> "Calibrated":
    from ladder_eval.speed.constants import calibrated

    return calibrated(name, constants)


def _dense(model: str) -> "ModelConfig":
    from ladder_eval.errors import UsageError
    from ladder_eval.models.selection import peek

    config = peek(model)
    if config is None:
        raise UsageError(f"{model} has no config.json; give a folder with one, or a name.")
    return config.as_standard()


def _print(title: str, headings: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    from ladder_eval.terminal import listing, print_page

    print_page(listing(title, headings, rows))


def _print_json(values: list[dict[str, Any]]) -> None:
    import json

    sys.stdout.write(json.dumps(values, indent=2) + "\n")


def _conditions(where: "Calibrated", mode: str, dtype: str, nodes: int) -> None:
    spread = "1 node" if nodes == 1 else f"{nodes} nodes"
    typer.echo(f"Predicted, not measured. {mode}, {dtype}, {spread}; {where.status}.")
