"""`bench`: time residuals with random weights; below it, this engine beside lm-eval's own."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import (
    AsJson,
    AskedAs,
    DataDir,
    Device,
    Dtype,
    FewShot,
    ModelDir,
    OutputDir,
    PreferHub,
    Seed,
    print_result,
    sentences,
)
from ladder_eval.errors import UsageError, flag

app = typer.Typer()


@app.callback()
def bench(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            help="Shape: a named model, a folder with a config.json, or a Hub id.",
            show_default="smollm2_135m",
        ),
    ] = None,
    residual: Annotated[
        str | None,
        typer.Option(
            help="ladder, ladder-N (last N layers), parallel, desync-2x or desync-4x.",
            show_default="the model's, or ladder,parallel,desync-2x",
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Layers to time.", show_default="all that fit")
    ] = None,
    emulate: Annotated[
        bool | None,
        typer.Option("--emulate", help="One rank of many on one device; all layers follow."),
    ] = None,
    skew_us: Annotated[
        float | None,
        typer.Option(
            help="Of emulated ranks' blocks, standard deviation in microseconds.",
            show_default="as the rank's blocks differ",
        ),
    ] = None,
    tp: Annotated[str | None, typer.Option(help="Ranks.", show_default="2; emulated 8")] = None,
    batch_size: Annotated[str | None, typer.Option(help="Rows.", show_default="1")] = None,
    prompt_len: Annotated[str | None, typer.Option(help="Tokens in.", show_default="128")] = None,
    output_len: Annotated[str | None, typer.Option(help="Tokens out.", show_default="16")] = None,
    arrivals: Annotated[
        str | None, typer.Option(help="Serve requests that come at these rates a second.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Time the requests of this accuracy run's folder.")
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(help="How many come, or are replayed.", show_default="100; of a run all"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of arrivals and of what is drawn.", show_default="0")
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="virtual or real.", show_default="virtual on CPUs")
    ] = None,
    all_reduce: Annotated[
        str | None,
        typer.Option(
            help="What sums real messages: group (NCCL, Gloo), one-shot or two-shot.",
            show_default="group",
        ),
    ] = None,
    link_mode: Annotated[
        str | None, typer.Option(help="serial or pipelined.", show_default="serial")
    ] = None,
    latency_us: Annotated[
        str | None, typer.Option(help="Latencies of the virtual link in microseconds.")
    ] = None,
    latency_ratio: Annotated[
        str | None, typer.Option(help="Or multiples of the mean block time.", show_default="0.5")
    ] = None,
    bandwidth_gbs: Annotated[
        float | None,
        typer.Option(help="Bandwidth of the virtual link in GB/s.", show_default="100"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of each combination.", show_default="9; of loads 2")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="Begin no further round that would end later.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(help="Lists by name: paper (arXiv 2501.06589); flags win over it."),
    ] = None,
    trace: Annotated[
        bool | None,
        typer.Option("--trace", help="Trace one more generation: trace.json, timeline.svg."),
    ] = None,
    dtype: Dtype = None,
    device: Device = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Time residuals with random weights; lists such as 1,8 are combined with each other."""
    with sentences():
        from ladder_eval.bench_options import bench_options
        from ladder_eval.terminal import Terminal

        given = {name: value for name, value in ctx.params.items() if name != "json"}
        if ctx.invoked_subcommand is not None:
            _require_none(given, ctx.invoked_subcommand)
            return
        options = bench_options(given)
        terminal = Terminal()
        with terminal.working("starting"):
            from ladder_eval import bench as job
            from ladder_eval import execution
        if execution.is_worker():
            # Of a grid only the tp_size that was started is timed.
            tp_size = None if options.grid else next(iter(options.tp), None)
            execution.work(options.device, options.dtype, tp_size)
            return
        result, folder = job.bench(options, terminal)
        print_result(result, as_json=json)
        terminal.say(f"Everything is in {folder}.")


@app.command("throughput")
def bench_throughput(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            help="Dense model: a named model, folder, GGUF file or Hub id.",
            show_default="smollm2_135m",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Tasks, separated by commas, each timed by itself.", show_default="arc_easy"
        ),
    ] = None,
    suite: AskedAs = None,
    parts: Annotated[
        int | None,
        typer.Option(help="First parts of each task, such as MMLU's subjects.", show_default="all"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Documents a task, drawn by the seed; with --fewshot stock first ones of a part.",
            show_default="all",
        ),
    ] = None,
    seed: Seed = None,
    fewshot: FewShot = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of each task.", show_default="3")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Of ladder-eval, as in `run`.", show_default="32")
    ] = None,
    hf_batch_size: Annotated[
        str | None,
        typer.Option(help="Of hf; the fastest is timed.", show_default="1,8,32"),
    ] = None,
    hf_documents: Annotated[
        int | None,
        typer.Option(help="Documents that they are tried on.", show_default="32"),
    ] = None,
    dtype: Dtype = None,
    device: Device = None,
    model_dir: ModelDir = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Time this engine beside lm-eval's own `hf` on the same requests, and compare the answers.

    The exit code is 1 if the answers differ by more than rounding can explain.
    """
    with sentences(interrupted="finished tasks and rounds are in the run's folder"):
        from ladder_eval.terminal import Terminal, print_page
        from ladder_eval.throughput_options import throughput_options

        given = {name: value for name, value in ctx.params.items() if name != "json"}
        options, terminal = throughput_options(given), Terminal()
        with terminal.working("starting"):
            from ladder_eval import throughput as job
            from ladder_eval.report.tables import page
            from ladder_eval.report.throughput import throughput_blocks, throughput_lines
            from ladder_eval.results.throughput import disagreements, to_json
        result, folder = job.throughput(options, terminal)
        if json:
            sys.stdout.write(to_json(result))
        else:
            print_page(page(throughput_blocks(result), throughput_lines(result)))
        terminal.say(f"Everything is in {folder}.")
        if any(disagreements(task.agreement) for task in result.tasks):
            raise typer.Exit(1)


def _require_none(given: Mapping[str, object], command: str) -> None:
    """Refuse options of `bench` itself, which would be lost."""
    lost = [name for name, value in given.items() if value is not None]
    if lost:
        raise UsageError(
            f"{flag(lost[0])} stands before {command}; give options of `bench {command}` after it."
        )
