"""The main job: candidates beside a baseline, on the same requests and the same ranks."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch

from ladder_eval.accuracy import Evaluation, Scorer, plan, scored_record, waiting_record
from ladder_eval.arms import Selection, select_models
from ladder_eval.asked import Asked, Wanted, ask, sources_of, want
from ladder_eval.bench_options import DEFAULT_BANDWIDTH, DEFAULT_RATIO, DEFAULT_ROUNDS
from ladder_eval.distributed.launch import place_from_environment
from ladder_eval.distributed.shares import possible_sizes
from ladder_eval.engine.driver import Driver
from ladder_eval.errors import RecordError, UsageError
from ladder_eval.execution import Execution, Stopwatch, execution_of
from ladder_eval.harness.arm import Arm
from ladder_eval.harness.judging.waiting import Waiting
from ladder_eval.judging import judge_run
from ladder_eval.options import RunOptions
from ladder_eval.pages import write_pages
from ladder_eval.results.lending import Lent, lend
from ladder_eval.results.published import published_row
from ladder_eval.results.records import PublishedRow, RunResult
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.store import RunFolder, read_result
from ladder_eval.results.summary import comparisons, scores
from ladder_eval.resuming import Started, started
from ladder_eval.run_name import SPEED_ONLY, name_of_scored, name_of_timed
from ladder_eval.speed.measure import Link
from ladder_eval.speed.subject import Subject
from ladder_eval.terminal import Terminal
from ladder_eval.timing import Setting, fitting, time_settings, warnings_of, why_not

# Ranks that are timed where the models are scored by one.
_TIMED_TP_SIZE = 2
# With what comes before and after, a large model is timed within ten minutes.
_TIMED_MINUTES = 7.0
_TIMED_LINK = Link(mode="serial", bandwidth=DEFAULT_BANDWIDTH, ratio=DEFAULT_RATIO)


def run(options: RunOptions, terminal: Terminal) -> tuple[RunResult, Path]:
    """Evaluate and time the models, and write and return the result and its folder.

    A run's folder is named after what is asked, so that the same command again goes on with the
    answers that are already there; `RunOptions.resume` names one. The scores are on disk before
    anything is timed, and everything is before a judge is asked.

    Raises:
        LadderEvalError: with one sentence that says what to do.
    """
    wanted = want(options)
    judge, (result, folder) = wanted.judge, _scored_and_timed(wanted, options, terminal)
    if judge is None or not result.pending_tasks:
        return result, folder
    with terminal.judging() as bar:
        judged = judge_run(folder, judge, sources_of(options, terminal), bar)
    return judged.result, folder


def _scored_and_timed(
    wanted: Wanted, options: RunOptions, terminal: Terminal
) -> tuple[RunResult, Path]:
    watch = Stopwatch()
    execution = execution_of(options.device, options.dtype, options.tp, options.dp)
    selection = select_models(options, execution.tp_size, terminal.say)
    _require_weights(selection, options)
    arms = selection.arms(execution.tp_size)
    timing = _timing(options, selection, execution)
    if not arms:
        _require_timing(selection, timing)
    if selection.without_weights:
        terminal.say(_without_weights(selection))
    asked = ask(wanted, options, terminal) if arms else None
    name = (
        name_of_scored(selection, arms, asked, execution, options.seed)
        if asked
        else name_of_timed(selection, repr(timing))
    )
    with started(options, name, execution.tp_size) as run:
        folder = run.folder
        job = _Job(
            options=options,
            selection=selection,
            execution=execution,
            run=run,
            folder=folder,
            watch=watch,
            terminal=terminal,
        )
        with execution.team() as team:
            result = job.scored(arms, asked, Driver(team)) if asked else job.unscored()
            if timing is None or not job.can_time(result, timing):
                return result, folder.path
            if timing.execution == execution:
                return job.timed(result, timing, Driver(team)), folder.path
        with timing.execution.team() as team:
            return job.timed(result, timing, Driver(team)), folder.path


_GIVE = "give --checkpoint and --baseline-checkpoint, or a --models-file"


def _require_weights(selection: Selection, options: RunOptions) -> None:
    """Refuse to score candidates without a checkpoint, if scores were asked for explicitly."""
    missing = [model.name for model in selection.candidates if model.folder is None]
    if missing and (options.tasks or options.suite or options.no_speed):
        raise UsageError(
            f"No checkpoint of {' and '.join(selection.without_weights)} is known, so that tasks "
            f"can't be scored; {_GIVE}."
        )


def _require_timing(selection: Selection, timing: "_Timing | None") -> None:
    """Refuse to do nothing at all."""
    if timing is None:
        raise UsageError(
            "There is nothing to score without weights, and nothing to time without a baseline and "
            "another residual; give --checkpoint, or a --model such as ladder_3b."
        )
    if timing.problem is not None and not _published(selection):
        raise UsageError(f"This can't be timed here: {timing.problem.removesuffix('.')}.")


def _without_weights(selection: Selection) -> str:
    """Of which models no checkpoint is known, and what that means, in a sentence."""
    missing = " and ".join(selection.without_weights)
    scored = " and ".join(m.name for m in selection.candidates if m.folder is not None)
    then = f"only {scored} is scored" if scored else "only speed is measured"
    return f"No checkpoint of {missing} is known, so that {then}; to compare answers, {_GIVE}."


def _published(selection: Selection) -> tuple[PublishedRow, ...]:
    rows = (published_row(model.name) for model in selection.models)
    return tuple(row for row in rows if row is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Timing:
    """What is timed, where, and why it isn't if it isn't."""

    subject: Subject
    execution: Execution
    setting: Setting
    problem: str | None


def _timing(options: RunOptions, selection: Selection, execution: Execution) -> _Timing | None:
    """The timing of a run: on the ranks of one replica, or on two where one rank is all of it.

    Only a replica that is alone has the machine's cores and memory to itself, so that others have
    ended, which torchrun's don't.
    """
    subject = None if options.no_speed else selection.subject()
    if subject is None:
        return None
    problem = None
    if place_from_environment(os.environ) is not None:
        if execution.dp_size > 1:
            problem = "torchrun started several replicas, and one alone would be timed"
        elif execution.tp_size == 1:
            problem = "torchrun started one process, and messages need two"
    execution = replace(execution, dp_size=1)
    if execution.tp_size == 1:
        execution = _two_ranks(options, execution)
    problem = problem or why_not(execution)
    if execution.tp_size not in possible_sizes(subject.whole.shape):
        problem = f"its shape can't be divided by {execution.tp_size} ranks"
    workload = Workload(batch_size=1, prompt_len=options.prompt_len, output_len=options.output_len)
    setting = Setting(
        workload=workload, link=_TIMED_LINK, rounds=DEFAULT_ROUNDS, minutes=_TIMED_MINUTES
    )
    return _Timing(subject=subject, execution=execution, setting=setting, problem=problem)


def _two_ranks(options: RunOptions, execution: Execution) -> Execution:
    """Two GPUs if there are two, else two CPU cores."""
    if execution.device.type == "cuda" and torch.cuda.device_count() >= _TIMED_TP_SIZE:
        return replace(execution, device=torch.device("cuda"), tp_size=_TIMED_TP_SIZE)
    dtype = options.dtype or "float32"
    return Execution(device=torch.device("cpu"), dtype=dtype, tp_size=_TIMED_TP_SIZE)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """One run with its folder: scores first, then times."""

    options: RunOptions
    selection: Selection
    execution: Execution
    run: Started
    folder: RunFolder
    watch: Stopwatch
    terminal: Terminal

    def scored(self, arms: Sequence[Arm], asked: Asked, driver: Driver) -> RunResult:
        """The result without times, on disk; an earlier one if nothing was left to score."""
        self.terminal.say(plan(arms, asked.tasks, self.execution))
        scorer = Scorer(
            driver=driver,
            execution=self.execution,
            batch_size=self.options.batch_size,
            seed=self.options.seed,
            prompting=asked.prompting,
            think_end_token=asked.think_end_token,
            tasks=asked.tasks,
            folder=self.folder,
            terminal=self.terminal,
            programs=asked.programs(self.folder, self.terminal),
            lent=self._lent(arms),
        )
        evaluations = [scorer.evaluate(arm) for arm in arms]
        memory = driver.peak_memory()
        if not any(each.record.scored_requests for each in evaluations):
            with suppress(RecordError):  # a run that computed nothing has nothing to add
                earlier = read_result(self.folder.path)
                since = earlier.provenance.started_at
                self.terminal.say(f"Nothing was left to score since {since}.")
                return earlier
        if not self.options.no_tp_check:
            evaluations = [scorer.checked(each) for each in evaluations]
        samples = pd.concat([each.samples for each in evaluations], ignore_index=True)
        result = self._result(asked, evaluations, samples, memory)
        self.folder.write_samples(samples)
        self._keep_waiting(asked, evaluations)
        write_pages(self.folder, result)
        return result

    def _lent(self, arms: Sequence[Arm]) -> dict[str, Lent]:
        """What --baseline-run has answered as the baseline.

        Raises:
            UsageError: if there's no baseline to score, or that run doesn't have it.
        """
        run, baseline = self.options.baseline_run, self.selection.baseline
        if run is None:
            return {}
        for arm in arms:
            if baseline is not None and arm.model.name == baseline.name:
                return {baseline.name: lend(run, arm.fingerprint, self.execution.dtype)}
        raise UsageError("--baseline-run has answers of a baseline, and this run scores none.")

    def unscored(self) -> RunResult:
        """A result without scores, for times to be put in."""
        return RunResult(
            run_id=self.run.run_id,
            suite=SPEED_ONLY,
            limit=None,
            seed=self.options.seed,
            baseline=self.selection.baseline.name if self.selection.baseline else None,
            provenance=self.watch.provenance(self.execution.device, ()),
            models=(),
            tasks=(),
            scores=(),
            comparisons=(),
            published=_published(self.selection),
        )

    def can_time(self, result: RunResult, timing: _Timing) -> bool:
        """Whether the result has no times yet, and can get them; if it can't, that is said."""
        if [each.workload for each in result.speed] == [timing.setting.workload]:
            return False
        if timing.problem is not None:
            self._untimed(result, timing.problem)
        return timing.problem is None

    def timed(self, result: RunResult, timing: _Timing, driver: Driver) -> RunResult:
        """The result with times, on disk.

        Raises:
            UsageError: if the model doesn't fit in memory, and there are no scores to keep.
        """
        driver.unload()
        settings = [timing.setting]
        try:
            subject, execution = self._fitting(timing)
        except UsageError as error:
            if not result.models and not result.published:
                raise
            return self._untimed(result, str(error))
        speed = tuple(
            time_settings(subject, settings, execution, driver, self.folder, self.terminal)
        )
        made = self.watch.provenance(execution.device, driver.peak_memory())
        if result.models:  # where scores were made stays, unless it was this command
            same = made.started_at == result.provenance.started_at
            made = replace(result.provenance, seconds=made.seconds) if same else result.provenance
        earlier = [text for text in result.warnings if text not in warnings_of(result.speed)]
        found = replace(
            result, speed=speed, provenance=made, warnings=(*earlier, *warnings_of(speed))
        )
        write_pages(self.folder, found)
        return found

    def _fitting(self, timing: _Timing) -> tuple[Subject, Execution]:
        """As much of the subject as fits, in half the bytes if the user didn't choose them."""
        workload, execution = timing.setting.workload, timing.execution
        try:
            return fitting(timing.subject, workload, execution), execution
        except UsageError:
            if self.options.dtype is not None or execution.dtype == "bfloat16":
                raise
            narrow = replace(execution, dtype="bfloat16")
            return fitting(timing.subject, workload, narrow), narrow

    def _untimed(self, result: RunResult, problem: str) -> RunResult:
        """The result as it is, with a sentence about the times that it doesn't have."""
        self.terminal.say(f"Not timed: {problem.removesuffix('.')}.")
        write_pages(self.folder, result)
        return result

    def _result(
        self,
        asked: Asked,
        evaluations: Sequence[Evaluation],
        samples: pd.DataFrame,
        memory: Sequence[int],
    ) -> RunResult:
        models = tuple(each.record for each in evaluations)
        baseline = self.selection.baseline
        compared = baseline is not None and baseline.folder is not None
        name = baseline.name if baseline is not None and compared else None
        return RunResult(
            run_id=self.run.run_id,
            suite=asked.suite.name,
            limit=asked.limit,
            seed=self.options.seed,
            baseline=name,
            provenance=self.watch.provenance(self.execution.device, memory),
            models=models,
            tasks=tuple(
                scored_record(task, samples, asked.execution)
                for task in asked.tasks
                if task.task.name not in asked.waiting
            ),
            scores=scores(samples),
            comparisons=comparisons(name, samples),
            published=_published(self.selection),
            average_tasks=asked.suite.average,
            pending_tasks=asked.waiting,
            warnings=(
                *asked.notes,
                *(self.run.notes if any(model.reused_requests for model in models) else ()),
                *(warning for e in evaluations for warning in e.warnings),
            ),
        )

    def _keep_waiting(self, asked: Asked, evaluations: Sequence[Evaluation]) -> None:
        """Write what waits for a judge into the folder."""
        for task in asked.tasks:
            if (name := task.task.name) in asked.waiting:
                record = waiting_record(task, evaluations[0].outputs[name])
                outputs = {each.record.name: each.outputs[name] for each in evaluations}
                Waiting.at(self.folder.path, record).write(outputs)
