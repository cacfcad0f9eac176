"""`bench`: time residuals with random weights."""

from typing import Annotated

import typer

from ladder_eval.commands.shared import AsJson, Device, Dtype, OutputDir, print_result, sentences


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
        int | None, typer.Option(help="Rounds of each combination.", show_default="9")
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
