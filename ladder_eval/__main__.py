"""The command line: all commands under one name."""

import io
import sys
from typing import Annotated

import typer

import ladder_eval
from ladder_eval.commands import bench, code, data, leaderboard, predict, tasks
from ladder_eval.commands.compare import compare, gate
from ladder_eval.commands.judge import judge
from ladder_eval.commands.lm_eval import lm_eval
from ladder_eval.commands.models import convert, models
from ladder_eval.commands.results import report
from ladder_eval.commands.run import run

app = typer.Typer(
    name="ladder-eval",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.add_typer(bench.app, name="bench", invoke_without_command=True)
app.command()(convert)
app.command()(models)
app.add_typer(tasks.app, name="tasks", invoke_without_command=True)
app.add_typer(data.app, name="data", invoke_without_command=True)
app.add_typer(code.app, name="code")
app.add_typer(predict.app, name="predict", no_args_is_help=True)
app.command(
    "lm-eval",
    add_help_option=False,
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
    },
)(lm_eval)
app.command()(judge)
app.command()(compare)
app.command()(gate)
app.command()(report)
app.add_typer(leaderboard.app, name="leaderboard")


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


if __name__ == "__main__":
    app()
