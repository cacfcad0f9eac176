"""`report`: finished runs again, in the terminal and as a page."""

from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import AsJson, print_result, sentences


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report.", show_default="RUN/report")
    ] = None,
    json: AsJson = False,
) -> None:
    """Print finished runs again, and write a report about all of them: one page for readers.

    The report is index.html, which needs no other file, the same as Markdown, tables as CSV and
    LaTeX, plots as SVG and PNG, and all documents with their answers (docs/report.md). With --json
    nothing is written.
    """
    with sentences():
        from ladder_eval.report.page.content import Run
        from ladder_eval.report.page.write import write_report
        from ladder_eval.results.store import read_result

        found = [Run(folder=_folder(run), result=read_result(run)) for run in runs]
        for run in found:
            print_result(run.result, as_json=json)
        if not json:
            page = write_report(found, out or found[0].folder / "report")
            typer.echo(f"The report is {page}.", err=True)


def _folder(run: Path) -> Path:
    """The run's folder, which may have been given by its results.json."""
    return run if run.is_dir() else run.parent
