"""`leaderboard`, `leaderboard export` and `leaderboard import`: all runs of a folder, ranked."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ladder_eval.commands.shared import OutputDir, print_result, sentences

if TYPE_CHECKING:
    from ladder_eval.report.leaderboard import Board


class _ShowsByDefault(TyperGroup):
    """Lets `leaderboard RUNS` be `leaderboard show RUNS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowsByDefault, help="All runs of a folder, ranked. `leaderboard RUNS` shows them."
)

Runs = Annotated[Path, typer.Argument(help="Folder of runs.")]
OfSuite = Annotated[str | None, typer.Option(help="Only of this suite, or pattern such as 'p*'.")]
OfModel = Annotated[str | None, typer.Option(help="Only this model, or pattern.")]
OfResidual = Annotated[str | None, typer.Option(help="Only this residual, or pattern.")]
OfDtype = Annotated[str | None, typer.Option(help="Only scored in this number format.")]
OfKind = Annotated[
    str | None, typer.Option(help="Only with times that are measured, emulated or predicted.")
]
Since = Annotated[str | None, typer.Option(help="Only runs from this time on, as 2025-01-31.")]


@app.command("show")
def show(
    runs: Runs = Path("runs"),
    suite: OfSuite = None,
    model: OfModel = None,
    residual: OfResidual = None,
    dtype: OfDtype = None,
    kind: OfKind = None,
    since: Since = None,
) -> None:
    """Rank the models of all finished runs, suite by suite. The default."""
    with sentences():
        from rich.console import Group

        from ladder_eval.report.board_pages import board_blocks
        from ladder_eval.report.leaderboard import Wanted, read_board
        from ladder_eval.report.tables import block_table
        from ladder_eval.terminal import print_page

        wanted = Wanted(
            suite=suite, model=model, residual=residual, dtype=dtype, kind=kind, since=since
        )
        board = read_board(runs, wanted)
        for block in board_blocks(board.models):
            print_page(Group(block_table(block), ""))
        _say_left_out(board)


@app.command("export")
def export(
    runs: Runs = Path("runs"),
    format: Annotated[str, typer.Option(help="csv, json, md or html.")] = "csv",  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="standard output")
    ] = None,
    by_task: Annotated[
        bool, typer.Option("--by-task", help="A row a model and task, not a row a model.")
    ] = False,
    suite: OfSuite = None,
    model: OfModel = None,
    residual: OfResidual = None,
    dtype: OfDtype = None,
    kind: OfKind = None,
    since: Since = None,
) -> None:
    """Write the leaderboard for other programs, documents or browsers (docs/leaderboard.md)."""
    with sentences():
        from ladder_eval.report import board_exports
        from ladder_eval.report.leaderboard import Wanted, read_board
        from ladder_eval.results.files import atomic_write

        wanted = Wanted(
            suite=suite, model=model, residual=residual, dtype=dtype, kind=kind, since=since
        )
        board = read_board(runs, wanted)
        text = board_exports.export(board, format, by_task=by_task)
        if out is None:
            sys.stdout.write(text)
        else:
            atomic_write(out, text)
            typer.echo(f"Written to {out}.", err=True)
        _say_left_out(board)


@app.command("import")
def import_(
    results: Annotated[
        Path,
        typer.Argument(help="Folder that `lm_eval --output_path` wrote, or its results_*.json."),
    ],
    suite: Annotated[
        str | None, typer.Option(help="Take the tasks and metrics of this suite.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Take these tasks, with commas.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The model's name.", show_default="lm-eval's")
    ] = None,
    residual: Annotated[str, typer.Option(help="The model's residual.")] = "unknown",
    output_dir: OutputDir = None,
) -> None:
    """Make lm-eval's results of any model a run, so that it stands on the board."""
    with sentences():
        from ladder_eval.importing import Import, import_results

        wanted = Import(
            results=results,
            suite=suite,
            tasks=tuple(tasks.split(",")) if tasks else (),
            name=name,
            residual=residual,
            output_dir=output_dir or Path("runs"),
        )
        result, folder = import_results(wanted)
        print_result(result, as_json=False)
        typer.echo(f"The run is in {folder}.", err=True)


def _say_left_out(board: "Board") -> None:
    """What isn't on the board although it is in the folder."""
    for sentence in board.skipped:
        typer.echo(f"Skipped: {' '.join(sentence.split())}", err=True)
    if board.repeated:
        older = "evaluation" if board.repeated == 1 else "evaluations"
        typer.echo(f"Left out: {board.repeated} older {older} of the same.", err=True)
