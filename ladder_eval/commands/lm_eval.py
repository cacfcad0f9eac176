"""`lm-eval`: lm-eval's own command line."""

import sys

import typer

from ladder_eval.commands.shared import sentences


def lm_eval(ctx: typer.Context) -> None:
    """Run lm-eval's own command line, which then knows `--model ladder` and ladder checkpoints."""
    with sentences():
        from lm_eval.__main__ import cli_evaluate

        import ladder_eval.harness
        import ladder_eval.hf  # noqa: F401 - both register what they have

        sys.argv = ["lm-eval", *ctx.args]
        cli_evaluate()
