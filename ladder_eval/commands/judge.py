"""`judge`: outputs against a reference's, by a judge or by verdicts that are there already."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ladder_eval.commands.shared import (
    AsJson,
    DataDir,
    JudgeModel,
    JudgeUrl,
    print_result,
    sentences,
)

if TYPE_CHECKING:
    from ladder_eval.harness.judging.judgement import Judgement
    from ladder_eval.harness.judging.options import Judging, RunJudging, Scoring
    from ladder_eval.terminal import Terminal


def judge(
    ctx: typer.Context,
    outputs: Annotated[
        Path | None,
        typer.Argument(
            help="A run's folder, or a model's outputs: .json, .jsonl or .parquet.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="The reference's outputs for the same instructions.")
    ] = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    annotations: Annotated[
        Path | None, typer.Option(help="Score this file of verdicts instead of asking a judge.")
    ] = None,
    gamed: Annotated[
        Path | None,
        typer.Option(help="AlpacaEval's df_gamed.csv, for the length-controlled rate."),
    ] = None,
    difficulty: Annotated[
        Path | None,
        typer.Option(help="instruction_difficulty.csv.", show_default="what --gamed says"),
    ] = None,
    official_row_index: Annotated[
        bool,
        typer.Option(
            "--official-row-index",
            help="Take difficulties by row number, as the leaderboard does. For comparison only.",
        ),
    ] = False,
    prompt: Annotated[
        Path | None,
        typer.Option(help="File with {instruction}, {output_1}, {output_2}.", show_default="ours"),
    ] = None,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the judge's key.")
    ] = "OPENAI_API_KEY",
    prompt_price: Annotated[
        float | None, typer.Option(help="Price of a million tokens in.", min=0)
    ] = None,
    completion_price: Annotated[
        float | None, typer.Option(help="Price of a million tokens out.", min=0)
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Requests at once.", min=1, max=256)] = 8,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.", min=0.1)] = 60,
    attempts: Annotated[int, typer.Option(help="Requests for one verdict.", min=1)] = 6,
    seed: Annotated[int, typer.Option(help="Seed of which output is shown first.")] = 0,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for verdicts.", show_default="runs/judge-…")
    ] = None,
    json: AsJson = False,
) -> None:
    """Let a judge compare outputs with a reference's, or score its verdicts, as AlpacaEval 2."""
    with sentences(interrupted="verdicts are kept, and the same command goes on from them"):
        from ladder_eval.harness.judging.options import RunJudging, judge_options
        from ladder_eval.terminal import Terminal

        options, terminal = judge_options(ctx.params), Terminal()
        if isinstance(options, RunJudging):
            complete = _judge_run(options, terminal, as_json=json)
        else:
            complete = _judge_file(options, terminal, as_json=json)
        if not complete:
            raise typer.Exit(1)


def _judge_file(options: "Judging | Scoring", terminal: "Terminal", *, as_json: bool) -> bool:
    """Judge a file of outputs, or score one of verdicts; whether no verdict is missing."""
    from ladder_eval.harness.judging import job
    from ladder_eval.harness.judging.options import Scoring

    if isinstance(options, Scoring):
        judgement = job.score(options)
    else:
        with terminal.judging() as bar:
            judgement = job.judge(options, bar)
        terminal.say(f"Verdicts are in {options.folder}; the same command asks none again.")
    _print(judgement, as_json=as_json)
    return judgement.judged.complete


def _judge_run(options: "RunJudging", terminal: "Terminal", *, as_json: bool) -> bool:
    """Judge a run's outputs and print its result; whether no verdict is missing."""
    from ladder_eval.harness.data.splits import DataSources
    from ladder_eval.judging import judge_run

    sources = DataSources(data_dir=options.data_dir, notify=terminal.say)
    with terminal.judging() as bar:
        made = judge_run(options.run, options.judge, sources, bar)
    if not as_json:
        for judgement in made.judgements:
            _print(judgement, as_json=False)
    if made.complete:
        print_result(made.result, as_json=as_json)
        terminal.say(f"The scores are in {options.run}.")
    else:
        terminal.say("The run's result waits for the missing verdicts; the same command asks them.")
    return made.complete


def _print(judgement: "Judgement", *, as_json: bool) -> None:
    from ladder_eval.harness.judging import words
    from ladder_eval.harness.judging.judgement import judgement_json
    from ladder_eval.terminal import listing, print_page

    if as_json:
        typer.echo(judgement_json(judgement), nl=False)
        return
    print_page(listing(words.title(judgement), words.HEADINGS, words.rows(judgement)))
    for line in words.lines(judgement):
        typer.echo(line)
