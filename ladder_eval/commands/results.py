"""`report`: a finished run again."""

from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import AsJson, print_result, sentences


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    json: AsJson = False,
) -> None:
    """Print a finished run again."""
    with sentences():
        from ladder_eval.results.store import read_result

        print_result(read_result(folder), as_json=json)
