"""The main job: candidates beside a baseline, on the same requests, into one folder."""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from ladder_eval.arms import Arm, Execution, execution_of, select_arms
from ladder_eval.distributed.launch import Team, alone, drive, join, place_from_environment
from ladder_eval.distributed.shares import shares
from ladder_eval.engine.batching import Batch
from ladder_eval.engine.estimate import seconds_per_token
from ladder_eval.engine.ranks import Driver, serve
from ladder_eval.engine.scoring import LogLikelihood, score_batch
from ladder_eval.errors import RecordError
from ladder_eval.harness.adapter import LadderLM
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import (
    PreparedTask,
    estimate_tokens,
    prepare,
    run_suite,
    sample_rows,
    write_lm_eval_layout,
)
from ladder_eval.harness.suites import Suite, load_suite, suite_of
from ladder_eval.models.checkpoint import load_model
from ladder_eval.options import RunOptions
from ladder_eval.report.leaderboard import leaderboard, to_csv
from ladder_eval.report.tables import markdown
from ladder_eval.results import provenance
from ladder_eval.results.records import (
    ModelRecord,
    Provenance,
    RunResult,
    TaskRecord,
)
from ladder_eval.results.store import SAMPLE_COLUMNS, RunFolder, read_result
from ladder_eval.results.summary import comparisons, scores
from ladder_eval.terminal import Terminal


def is_worker() -> bool:
    """Whether torchrun started this process as another than rank 0."""
    place = place_from_environment(os.environ)
    return place is not None and place.rank > 0


def work(options: RunOptions) -> None:
    """Serve rank 0 until it is done: what torchrun's other processes do instead of `run`.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    with join(execution_of(options).device) as team:
        serve(team)


def run(options: RunOptions, terminal: Terminal) -> tuple[RunResult, Path]:
    """Evaluate the models, and write and return the result and its folder.

    A run's folder is named after what is asked, so that the same command again goes on with the
    answers that are already there.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    execution = execution_of(options)
    suite = suite_of(options.tasks) if options.tasks else load_suite(options.suite)
    limit = options.limit or suite.limit
    arms, baseline = select_arms(options, execution.tp_size, terminal.say)
    sources = DataSources(
        data_dir=options.data_dir, prefer_hub=options.prefer_hub, notify=terminal.say
    )
    with terminal.working("reading data"):
        tasks = prepare(suite, limit=limit, seed=options.seed, sources=sources)
        plan = _plan(arms, tasks, execution)
    run_id = _run_id(arms, suite, tasks, options.seed, execution)
    with RunFolder.open(options.output_dir / run_id) as folder:
        terminal.say(plan)
        with _team(execution) as team:
            driver = Driver(team)
            evaluations = [
                _evaluate(arm, tasks, execution, driver, folder, terminal) for arm in arms
            ]
            memory = tuple(driver.peak_memory())
            evaluations = [_checked(each, driver, execution) for each in evaluations]
        if not any(evaluation.record.scored_requests for evaluation in evaluations):
            with suppress(RecordError):  # a run that computed nothing has nothing to add
                earlier = read_result(folder.path)
                terminal.say(f"Nothing was left to score since {earlier.provenance.started_at}.")
                return earlier, folder.path
        samples = pd.concat([evaluation.samples for evaluation in evaluations], ignore_index=True)
        models = tuple(evaluation.record for evaluation in evaluations)
        result = RunResult(
            run_id=run_id,
            suite=suite.name,
            limit=limit,
            seed=options.seed,
            baseline=baseline,
            provenance=_provenance(execution, started, time.perf_counter() - clock, memory),
            models=models,
            tasks=tuple(_task_record(task, samples) for task in tasks),
            scores=scores(samples),
            comparisons=comparisons(baseline, samples),
            warnings=tuple(warning for e in evaluations for warning in e.warnings),
        )
        _write(folder, result, samples)
    return result, folder.path


def _team(execution: Execution) -> AbstractContextManager[Team]:
    if execution.tp_size == 1:
        return alone(execution.device)
    return drive(execution.tp_size, execution.device, worker="ladder_eval.engine.worker")


def _run_id(
    arms: Sequence[Arm],
    suite: Suite,
    tasks: Sequence[PreparedTask],
    seed: int,
    execution: Execution,
) -> str:
    """A name for what is asked: the same models, data, documents and computation, the same name."""
    asked = [
        (t.task.name, t.task.headline, t.task.version, t.data_sha256, list(t.chosen.items()))
        for t in tasks
    ]
    # tp_size isn't part of an answer's key, but one folder holds the answers of one.
    text = json.dumps([[a.identity(execution) for a in arms], asked, seed, execution.tp_size])
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{suite.name}-{arms[-1].model.name}")[:120]
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _plan(arms: Sequence[Arm], tasks: Sequence[PreparedTask], execution: Execution) -> str:
    """What will run and how long it should take, in a line."""
    tokens = len(arms) * estimate_tokens(tasks)
    pace = seconds_per_token(
        arms[0].model.config, dtype=execution.torch_dtype, device=execution.device
    )
    documents = sum(len(rows) for task in tasks for rows in task.chosen.values())
    names = " and ".join(f"{arm.model.name} ({arm.model.config.residual})" for arm in arms)
    return (
        f"Scoring {names} on {documents} documents from {_count(len(tasks), 'task')}, "
        f"{execution.dtype} on {execution.device}: about {tokens:,.0f} tokens, "
        f"{_duration(tokens * pace)}; answers already recorded are not scored again."
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Evaluation:
    arm: Arm
    lm: LadderLM
    record: ModelRecord
    samples: pd.DataFrame
    warnings: tuple[str, ...]


def _evaluate(
    arm: Arm,
    tasks: Sequence[PreparedTask],
    execution: Execution,
    driver: Driver,
    folder: RunFolder,
    terminal: Terminal,
) -> _Evaluation:
    """One model through all tasks; its answers and lm-eval's files are on disk afterwards."""
    model, dtype = arm.model, execution.torch_dtype
    weight_bytes: list[int] = []

    def load() -> Callable[[Batch], dict[int, LogLikelihood]]:
        weight_bytes[:] = driver.load(model.folder, model.config, dtype)
        return driver.score

    with folder.requests(model.name) as log, terminal.scoring(model.name) as progress:
        lm = LadderLM(
            identity=arm.identity(execution),
            load=load,
            tokenizer=arm.tokenizer,
            max_length=model.config.max_position_embeddings,
            vocab_size=model.config.vocab_size,
            log=log,
            batch_size=execution.batch_size,
            progress=progress,
        )
        result = run_suite(lm, tasks)
        cut_bytes = log.cut_bytes
    record = _model_record(arm, execution, lm, driver.team.backend, tuple(weight_bytes))
    rows = pd.DataFrame(sample_rows(model.name, tasks, result), columns=list(SAMPLE_COLUMNS))
    arguments = {"dtype": execution.dtype, "fingerprint": arm.fingerprint}
    write_lm_eval_layout(folder.path / "lm_eval", model.name, arguments, result)
    return _Evaluation(
        arm=arm, lm=lm, record=record, samples=rows, warnings=_warnings(record, cut_bytes)
    )


def _checked(evaluation: _Evaluation, driver: Driver, execution: Execution) -> _Evaluation:
    """Repeat some requests on the whole model, loaded by rank 0 alone."""
    model, scored = evaluation.arm.model, evaluation.record.scored_requests
    alone_too = execution.tp_size > 1 and not model.config.depends_on_tp_size
    if not (execution.tp_check and alone_too and scored):
        return evaluation
    driver.unload()  # room for the whole model
    dtype, device = execution.torch_dtype, driver.team.device
    try:
        whole = load_model(model.folder, model.config, dtype=dtype, device=device)
        difference = evaluation.lm.spot_check(partial(score_batch, whole))
    except (RuntimeError, MemoryError) as error:  # it may be too large for one device
        reason = str(error).partition("\n")[0]
        warning = f"{model.name}: the check at tp_size 1 could not be made ({reason})."
        return replace(evaluation, warnings=(*evaluation.warnings, warning))
    return replace(evaluation, record=replace(evaluation.record, tp_check=difference))


def _model_record(
    arm: Arm, execution: Execution, lm: LadderLM, backend: str, weight_bytes: tuple[int, ...]
) -> ModelRecord:
    config = arm.model.config
    parts = shares(config.shape, execution.tp_size)
    return ModelRecord(
        name=arm.model.name,
        residual=config.residual,
        ladder_layers=config.ladder_layers,
        num_hidden_layers=config.num_hidden_layers,
        parameters=config.parameters,
        weights=arm.model.weights,
        weights_sha256=arm.weights_sha256,
        tokenizer_sha256=arm.tokenizer_sha256,
        fingerprint=arm.fingerprint,
        adaptation=arm.model.adaptation,
        dtype=execution.dtype,
        device=str(execution.device),
        tp_size=execution.tp_size,
        tp_backend=backend,
        heads_per_rank=tuple(len(part.query_heads) for part in parts),
        kv_heads_per_rank=tuple(len(part.kv_heads) for part in parts),
        weight_bytes_per_rank=weight_bytes,
        tp_check=None,  # made when all models are scored
        batch_size=execution.batch_size,
        bos=lm.bos_policy,
        truncated_requests=lm.tally.truncated_requests,
        scored_requests=lm.tally.scored_requests,
        reused_requests=lm.tally.reused_requests,
        scored_tokens=lm.tally.scored_tokens,
        scoring_seconds=lm.tally.seconds,
    )


def _warnings(record: ModelRecord, cut_bytes: int) -> tuple[str, ...]:
    found = []
    if record.truncated_requests:
        found.append(
            f"{record.name}: {record.truncated_requests} requests were longer than the model can "
            "read and lost the start of their context."
        )
    if cut_bytes:
        found.append(
            f"{record.name}: the last {cut_bytes} bytes of recorded answers were torn and were "
            "scored anew."
        )
    return tuple(found)


def _task_record(prepared: PreparedTask, samples: pd.DataFrame) -> TaskRecord:
    task = prepared.task
    split = task.parts[0].evaluated
    own = samples[(samples["task"] == task.name) & (samples["model"] == samples["model"].iloc[0])]
    prompts = hashlib.sha256("\n".join(own["prompt_hash"]).encode()).hexdigest()
    return TaskRecord(
        task=task.name,
        dataset=split.hub_id,
        split=split.name,
        metric=task.headline,
        num_fewshot=task.num_fewshot,
        version=task.version,
        documents=len(own),
        documents_in_split=prepared.documents_in_split,
        official_documents=prepared.official_documents,
        source=prepared.source,
        data_sha256=prepared.data_sha256,
        prompts_sha256=prompts,
    )


def _provenance(
    execution: Execution, started: datetime, seconds: float, memory: tuple[int, ...]
) -> Provenance:
    on_gpu = execution.device.type == "cuda"
    accelerators = [torch.cuda.get_device_name(execution.device)] if on_gpu else []
    return Provenance(
        versions=provenance.versions(),
        commit=provenance.commit(),
        hardware=provenance.hardware(accelerators),
        command=tuple(sys.argv),
        started_at=started.isoformat(timespec="seconds"),
        seconds=seconds,
        peak_memory_bytes=memory,
    )


def _write(folder: RunFolder, result: RunResult, samples: pd.DataFrame) -> None:
    """Everything that a reader opens; the result comes last, since it makes the folder a run."""
    folder.write_samples(samples)
    folder.write_text("report.md", markdown(result))
    folder.write_text("leaderboard.csv", to_csv(leaderboard([result])))
    folder.write_result(result)
