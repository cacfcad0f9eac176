"""`run`: score candidates and their baseline, time them, and compare."""

from pathlib import Path
from typing import Annotated

import typer

from ladder_eval.commands.shared import (
    AsJson,
    ChatTemplate,
    DataDir,
    Device,
    Dtype,
    ExecuteCode,
    FewShot,
    JudgeModel,
    JudgeUrl,
    ModelDir,
    Multiturn,
    OutputDir,
    PreferHub,
    Seed,
    SystemInstruction,
    UnsafeExecution,
    print_result,
    sentences,
)

Suite = Annotated[str | None, typer.Option(help="Suite to run.", show_default="quick")]
Tasks = Annotated[str | None, typer.Option(help="Tasks to run instead, separated by commas.")]


def run(
    ctx: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Candidate: a named model, folder, GGUF file or Hub id. Can be repeated.",
            show_default="hybrid_ladder_smollm2_135m_10l",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What candidates are compared with.", show_default="what they name"),
    ] = None,
    no_baseline: Annotated[
        bool | None, typer.Option("--no-baseline", help="Evaluate the candidates alone.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The candidate's checkpoint: a folder, GGUF file or Hub id.")
    ] = None,
    baseline_checkpoint: Annotated[
        str | None, typer.Option(help="The baseline's checkpoint.")
    ] = None,
    baseline_run: Annotated[
        Path | None,
        typer.Option(help="Finished run whose answers of the same baseline are used again."),
    ] = None,
    models_file: Annotated[
        Path | None, typer.Option(help="YAML file of names and checkpoints.")
    ] = None,
    residual: Annotated[
        str | None,
        typer.Option(help="Run dense checkpoints as ladder, parallel, desync-2x or desync-4x."),
    ] = None,
    ladder_layers: Annotated[
        str | None,
        typer.Option(help="Ladder layers of a dense checkpoint: 10 (the last ten) or 3,7."),
    ] = None,
    suite: Suite = None,
    tasks: Tasks = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Documents a task, drawn by the seed.", show_default="the suite's"),
    ] = None,
    seed: Seed = None,
    fewshot: FewShot = None,
    apply_chat_template: ChatTemplate = None,
    fewshot_as_multiturn: Multiturn = None,
    system_instruction: SystemInstruction = None,
    think_end_token: Annotated[
        str | None,
        typer.Option(help="What closes thoughts, such as </think>; they are no part of an answer."),
    ] = None,
    execute_code: ExecuteCode = None,
    unsafe_execution: UnsafeExecution = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Most texts in one forward.", show_default="32")
    ] = None,
    dtype: Dtype = None,
    device: Device = None,
    tp: Annotated[
        int | None,
        typer.Option(help="Ranks of the tensor-parallel group.", show_default="1, or torchrun's"),
    ] = None,
    dp: Annotated[
        int | None,
        typer.Option(help="Such groups, each with requests of its own.", show_default="1"),
    ] = None,
    no_tp_check: Annotated[
        bool | None,
        typer.Option("--no-tp-check", help="Don't repeat 32 requests at tp_size 1."),
    ] = None,
    no_speed: Annotated[
        bool | None, typer.Option("--no-speed", help="Don't time the models.")
    ] = None,
    prompt_len: Annotated[
        int | None, typer.Option(help="Tokens of the prompt that is timed.", show_default="128")
    ] = None,
    output_len: Annotated[
        int | None, typer.Option(help="Tokens generated after it.", show_default="16")
    ] = None,
    model_dir: ModelDir = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
    output_dir: OutputDir = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this folder, with the options it was given."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of these options; flags win over it.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Score candidates and their dense baseline on the same requests, time them, and compare."""
    with sentences():
        from ladder_eval.options import run_options
        from ladder_eval.resuming import resumed
        from ladder_eval.terminal import Terminal

        apart = ("config", "json") if resume is None else ("resume", "json")
        given = {name: ctx.params[name] for name in ctx.params if name not in apart}
        options = run_options(given, config) if resume is None else resumed(resume, given)
        terminal = Terminal()
        with terminal.working("starting"):
            from ladder_eval import execution
            from ladder_eval import run as job
        if execution.is_worker():
            execution.work(options.device, options.dtype, options.tp, options.dp)
            return
        result, folder = job.run(options, terminal)
        print_result(result, as_json=json)
        again = "; the same command again scores nothing twice" if result.models else ""
        terminal.say(f"Everything is in {folder}{again}.")
