"""The job of `bench throughput`: this package's engine beside lm-eval's `hf`, in turns."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from ladder_eval.engine.ranks import Driver
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution, Stopwatch, execution_of
from ladder_eval.harness.arm import Arm, arm_of
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import PreparedTask, prepare
from ladder_eval.harness.own_model import OwnModel
from ladder_eval.harness.show import find_task
from ladder_eval.harness.stock_model import StockModel
from ladder_eval.harness.suites import Suite
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources
from ladder_eval.report.throughput import throughput_markdown
from ladder_eval.results.provenance import peak_memory_bytes
from ladder_eval.results.store import RunFolder
from ladder_eval.results.throughput import RESULT_NAME, to_json
from ladder_eval.results.throughput_records import (
    ThroughputResult,
    ThroughputRound,
    ThroughputTask,
)
from ladder_eval.terminal import Terminal
from ladder_eval.throughput_options import ThroughputOptions
from ladder_eval.throughput_rounds import Engines, time_task
from ladder_eval.timing import ROUNDS_NAME


def throughput(options: ThroughputOptions, terminal: Terminal) -> tuple[ThroughputResult, Path]:
    """Time both engines on the same requests; return the result and its folder.

    Each round is on disk before the next, each finished task before the next.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    watch = Stopwatch()
    execution = execution_of(options.device, options.dtype, None)
    if execution.tp_size > 1:
        raise UsageError("lm-eval's hf is one process; start the command without torchrun.")
    suites = [_suite(name, options) for name in options.tasks]
    arm = _arm(options, terminal)
    with terminal.working("reading data"):
        prepared = [task for suite in suites for task in _prepared(suite, options, terminal)]
    run_id = f"throughput-{arm.model.name}-{watch.stamp}"
    with RunFolder.open(options.output_dir / run_id) as folder, execution.team() as team:
        with terminal.working("loading the model twice"):
            engines = _engines(options, arm, execution, Driver(team), folder.path)
        tasks: list[ThroughputTask] = []
        for each in prepared:
            tasks.append(_timed(engines, each, options, folder, terminal))
            result = _result(run_id, options, arm, execution, watch, tasks)
            folder.write_text(RESULT_NAME, to_json(result))
            folder.write_text("report.md", throughput_markdown(result))
    return result, folder.path


def _suite(name: str, options: ThroughputOptions) -> Suite:
    """The suite with this task alone, and with as many of its parts as are wanted.

    Raises:
        UsageError: if there is no such task, or lm-eval can't judge its answers as they are.
    """
    suite = find_task(name, options.suite)
    (task,) = suite.tasks
    if suite.apply_chat_template:
        raise UsageError(f"{suite.name} asks in a chat template; choose another --suite.")
    if task.answers is not None:
        raise UsageError(f"The answers to {name} run as programs or need a judge; leave it out.")
    return replace(suite, tasks=(replace(task, parts=task.parts[: options.parts]),))


def _prepared(suite: Suite, options: ThroughputOptions, terminal: Terminal) -> list[PreparedTask]:
    sources = DataSources(
        data_dir=options.data_dir, prefer_hub=options.prefer_hub, notify=terminal.say
    )
    return prepare(
        suite,
        limit=options.limit,
        seed=options.seed,
        sources=sources,
        fewshot=options.fewshot,
    )


def _arm(options: ThroughputOptions, terminal: Terminal) -> Arm:
    """The model that both engines run.

    Raises:
        UsageError: if it has no checkpoint, or `hf` would compute something else with it.
    """
    sources = WeightSources(
        model_dir=options.model_dir, prefer_hub=options.prefer_hub, notify=terminal.say
    )
    model = select(options.model, choice=ResidualChoice(), sources=sources)
    if model.folder is None:
        raise UsageError(f"No checkpoint of {options.model} is known; give its folder.")
    if model.config.residual != "standard":
        raise UsageError(f"lm-eval's hf would run {model.name} as a dense model; give a dense one.")
    return arm_of(model, model.folder, 1)


def _engines(
    options: ThroughputOptions, arm: Arm, execution: Execution, driver: Driver, folder: Path
) -> Engines:
    """The model, loaded by each of both engines."""
    driver.load(arm.folder, arm.model.config, execution.torch_dtype)
    return Engines(
        config=arm.model.config,
        tokenizer=arm.tokenizer,
        execution=execution,
        driver=driver,
        own=OwnModel(arm, execution, driver, options.batch_size, folder),
        stock=StockModel(arm.folder, execution.dtype, execution.device),
        batch_size=options.batch_size,
    )


def _timed(
    engines: Engines,
    prepared: PreparedTask,
    options: ThroughputOptions,
    folder: RunFolder,
    terminal: Terminal,
) -> ThroughputTask:
    name = prepared.task.name
    with terminal.rounds(options.rounds) as bar:

        def keep(each: ThroughputRound) -> None:
            folder.append_line(ROUNDS_NAME, json.dumps({"task": name, "round": asdict(each)}))
            bar.advance(1)

        return time_task(
            engines,
            prepared,
            sizes=options.hf_batch_size,
            documents=options.hf_documents,
            rounds=options.rounds,
            keep=keep,
        )


def _result(
    run_id: str,
    options: ThroughputOptions,
    arm: Arm,
    execution: Execution,
    watch: Stopwatch,
    tasks: Sequence[ThroughputTask],
) -> ThroughputResult:
    return ThroughputResult(
        run_id=run_id,
        model=arm.model.name,
        weights=arm.model.weights,
        fingerprint=arm.fingerprint,
        dtype=execution.dtype,
        device=str(execution.device),
        threads=torch.get_num_threads(),
        suite=options.suite or "",
        parts=options.parts,
        limit=options.limit,
        seed=options.seed,
        fewshot=options.fewshot,
        provenance=watch.provenance(execution.device, [peak_memory_bytes()]),
        tasks=tuple(tasks),
    )
