"""`tasks` and `tasks show`: suites, and what a model is asked."""

from typing import Annotated

import typer

from ladder_eval.commands.shared import (
    AskedAs,
    ChatTemplate,
    DataDir,
    FewShot,
    ModelDir,
    Multiturn,
    PreferHub,
    SystemInstruction,
    sentences,
)

app = typer.Typer(help="Suites and tasks, and what a model is asked.")


@app.callback()
def tasks(ctx: typer.Context, data_dir: DataDir = None) -> None:
    """List suites and tasks: split, size, shots, headline metric, and if the data is at hand."""
    if ctx.invoked_subcommand is None:
        with sentences():
            from ladder_eval.harness import listings
            from ladder_eval.terminal import listing, print_page

            suites, rows = listings.suite_rows(), listings.task_rows(data_dir)
            print_page(listing("Suites", listings.SUITE_HEADINGS, suites))
            print_page(listing("Tasks, alone and in suites", listings.TASK_HEADINGS, rows))


@app.command("show")
def tasks_show(
    name: Annotated[str, typer.Argument(help="Task.")],
    suite: AskedAs = None,
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
    system_instruction: SystemInstruction = None,
    model_dir: ModelDir = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
) -> None:
    """Print all that a model is asked about one document, with marks where contexts end."""
    with sentences():
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
