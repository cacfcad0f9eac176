"""`models` and `convert`: what there is to run, and checkpoints to make."""

from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import ModelDir, PreferHub, sentences


def models() -> None:
    """List the named models: shape, residual, baseline, and where their weights come from."""
    from ladder_eval.models import registry
    from ladder_eval.terminal import listing, print_page

    print_page(listing("Named models", registry.MODEL_HEADINGS, registry.model_rows()))
    print_page(listing("Their weights", registry.WEIGHTS_HEADINGS, registry.weights_rows()))


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
    with sentences(interrupted="nothing was written"):
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
