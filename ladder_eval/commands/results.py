"""`report` and `leaderboard`: finished runs again."""

from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import AsJson, print_result, sentences
from ladder_eval.errors import UsageError


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    json: AsJson = False,
) -> None:
    """Print a finished run again."""
    with sentences():
        from ladder_eval.results.store import read_result

        print_result(read_result(folder), as_json=json)


def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"),
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboard to this file.")] = None,
) -> None:
    """Rank the models of all finished runs in a folder, suite by suite."""
    with sentences():
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
