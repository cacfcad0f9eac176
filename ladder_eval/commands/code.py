"""`code check`: programs that models wrote, against the tests of HumanEval+ or MBPP+."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ladder_eval.commands.shared import AsJson, ExecuteCode, UnsafeExecution, sentences
from ladder_eval.errors import UsageError

if TYPE_CHECKING:
    from ladder_eval.harness.code.checking import Checked

app = typer.Typer(help="Programs that models wrote.", no_args_is_help=True)

_CONSENT = (
    "Scoring runs programs that a model wrote on this machine; "
    "pass --execute-code to agree to that."
)


@app.callback()
def code() -> None:
    """Run programs that models wrote, and score them."""


@app.command("check")
def code_check(
    samples: Annotated[Path, typer.Argument(help="JSON lines of task_id and solution/completion.")],
    dataset: Annotated[str, typer.Option(help="humaneval or mbpp.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="evalplus' release file, or a folder with it.",
            show_default="a cache, else GitHub",
        ),
    ] = None,
    execute_code: ExecuteCode = None,
    unsafe_execution: UnsafeExecution = None,
    workers: Annotated[
        int | None, typer.Option(help="Programs at a time.", show_default="half of the cores")
    ] = None,
    output_dir: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
    json: AsJson = False,
) -> None:
    """Score a file of samples by base and added tests, in a sandbox."""
    with sentences(interrupted="verdicts so far are kept, and the same command goes on from them"):
        if not execute_code:
            raise UsageError(_CONSENT)
        if workers is not None and workers < 1:
            raise UsageError("--workers is the number of programs at a time, at least 1.")
        from ladder_eval.harness.code.checking import check, run_name
        from ladder_eval.harness.code.problems import read_problems
        from ladder_eval.harness.code.samples import read_samples
        from ladder_eval.harness.code.sandbox import find_sandbox
        from ladder_eval.results.store import RunFolder
        from ladder_eval.terminal import Terminal

        terminal = Terminal()
        sandbox = find_sandbox(unsafe=bool(unsafe_execution))
        with terminal.working("reading samples"):
            problems = read_problems(dataset, _release_file(dataset, data, terminal.say))
            found = read_samples(samples, problems)
        folder = output_dir / run_name(samples, found, problems, sandbox)
        with RunFolder.open(folder), terminal.programs(len(found)) as bar:
            checked = check(
                found,
                problems,
                sandbox,
                folder=folder,
                workers=workers or max(1, (os.cpu_count() or 2) // 2),
                advance=bar.advance,
            )
        _print(checked, as_json=json)
        terminal.say(f"Everything is in {folder}; the same command again runs nothing twice.")


def _release_file(dataset: str, data: Path | None, notify: Callable[[str], None]) -> Path:
    """The file given, or one in the folder given or wherever else releases are."""
    from ladder_eval.harness.code.problems import release_of
    from ladder_eval.harness.data.releases import release_file
    from ladder_eval.harness.data.splits import DataSources

    release = release_of(dataset)
    if data is not None and not data.exists():
        raise UsageError(f"{data} doesn't exist; correct --data.")
    if data is not None and data.is_file():
        return data
    return release_file(release, DataSources(data_dir=data, notify=notify))


def _print(checked: "Checked", *, as_json: bool) -> None:
    from ladder_eval.harness.code import pages
    from ladder_eval.terminal import listing, print_page

    if as_json:
        import json

        sys.stdout.write(json.dumps(checked.plain(), indent=1) + "\n")
        return
    print_page(listing(pages.title(checked), pages.HEADINGS, pages.rows(checked)))
    for line in pages.sentences_about(checked):
        typer.echo(line)
