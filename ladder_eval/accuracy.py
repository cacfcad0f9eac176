"""Candidates and baseline on the same documents: scores, records and what to warn of."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from ladder_eval.distributed.shares import shares
from ladder_eval.engine.budget import Budget
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.estimate import seconds_per_token
from ladder_eval.engine.scoring import BatchScorer
from ladder_eval.execution import Execution
from ladder_eval.harness.adapter import LadderLM
from ladder_eval.harness.arm import Arm
from ladder_eval.harness.chat import Prompting
from ladder_eval.harness.evaluation import PreparedTask, estimate_tokens, run_suite, written_tokens
from ladder_eval.harness.judging.waiting import outputs_of
from ladder_eval.harness.samples import hash_of, sample_rows, write_lm_eval_layout
from ladder_eval.harness.suites import PROGRAMS
from ladder_eval.models.checkpoint import load_model
from ladder_eval.report.words import truncation
from ladder_eval.results.lending import Lent
from ladder_eval.results.records import ModelRecord, TaskRecord
from ladder_eval.results.store import SAMPLE_COLUMNS, RunFolder
from ladder_eval.results.summary import MACRO
from ladder_eval.terminal import Terminal

if TYPE_CHECKING:
    from ladder_eval.harness.code.task import Programs


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What one model's answers gave.

    Attributes:
        arm: The model.
        lm: The model as lm-eval has asked it.
        record: How it was run, and what that cost.
        samples: A row a document.
        outputs: What it answered to tasks that wait for a judge, by task.
        warnings: What a reader has to know.
    """

    arm: Arm
    lm: LadderLM
    record: ModelRecord
    samples: pd.DataFrame
    outputs: Mapping[str, Sequence[Mapping[str, Any]]]
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorer:
    """Evaluates models on the same tasks, one after the other.

    Attributes:
        driver: Rank 0 of the group that computes.
        execution: Where it computes.
        batch_size: Most texts in one forward.
        seed: Seed of what is drawn.
        prompting: In which form questions are asked.
        think_end_token: What closes a reasoning model's thoughts; empty where there are none.
        tasks: The tasks with their documents.
        folder: Where answers are kept.
        terminal: What the user sees.
        programs: Where programs run that the models write; None where they write none.
        lent: What finished runs have answered, by the model's name.
    """

    driver: Driver
    execution: Execution
    batch_size: int
    seed: int
    prompting: Prompting
    think_end_token: str
    tasks: Sequence[PreparedTask]
    folder: RunFolder
    terminal: Terminal
    programs: "Programs | None" = None
    lent: Mapping[str, Lent] = field(default_factory=dict)

    def evaluate(self, arm: Arm) -> Evaluation:
        """One model through all tasks; its answers and lm-eval's files are on disk afterwards."""
        model = arm.model
        weight_bytes: list[int] = []

        def load() -> Driver:
            weight_bytes[:] = driver.load(arm.folder, model.config, self.execution.torch_dtype)
            return driver

        driver, name = self.driver, model.name
        lent = self.lent.get(name)
        with (
            self.folder.requests(name, lent.answers if lent else None) as log,
            self.folder.batches(name) as batches,
            self.folder.batch_tokens() as batch_tokens,
            self.terminal.scoring(name) as progress,
        ):
            lm = LadderLM(
                identity=arm.identity(self.execution),
                load=load,
                tokenizer=arm.tokenizer,
                eos=arm.eos,
                max_length=model.config.max_position_embeddings,
                vocab_size=model.config.vocab_size,
                log=log,
                batch_size=self.batch_size,
                progress=progress,
                seed=self.seed,
                think_end_token=self.think_end_token,
                batches=batches,
                budget=Budget(f"{model.config.parameters} parameters", batch_tokens),
            )
            result = run_suite(lm, self.tasks, self.prompting, self.programs)
            damage = log.damage
        record = self._record(arm, lm, tuple(weight_bytes))
        rows = pd.DataFrame(sample_rows(name, self.tasks, result), columns=list(SAMPLE_COLUMNS))
        outputs = outputs_of(name, self.tasks, result)
        arguments = {"dtype": self.execution.dtype, "fingerprint": arm.fingerprint}
        write_lm_eval_layout(
            self.folder.path / "lm_eval",
            name,
            arguments,
            result,
            prompting=self.prompting,
            template=lm.chat_template() if self.prompting.apply_chat_template else "",
        )
        return Evaluation(
            arm=arm,
            lm=lm,
            record=record,
            samples=rows,
            outputs=outputs,
            warnings=_warnings(record, damage, lent),
        )

    def checked(self, evaluation: Evaluation) -> Evaluation:
        """Repeat some requests on the whole model, loaded by rank 0 alone, where there are ranks.

        A model whose function depends on the number of ranks can't be checked so.
        """
        arm, scored = evaluation.arm, evaluation.record.scored_requests
        name, config = arm.model.name, arm.model.config
        if self.execution.tp_size == 1 or config.depends_on_tp_size or not scored:
            return evaluation
        self.driver.unload()  # room for the whole model
        dtype, device = self.execution.torch_dtype, self.driver.team.device
        try:
            whole = load_model(arm.folder, config, dtype=dtype, device=device)
            difference = evaluation.lm.spot_check(BatchScorer(whole).scored)
        except (RuntimeError, MemoryError) as error:  # it may be too large for one device
            reason = str(error).partition("\n")[0]
            warning = f"{name}: the check at tp_size 1 could not be made ({reason})."
            return replace(evaluation, warnings=(*evaluation.warnings, warning))
        return replace(evaluation, record=replace(evaluation.record, tp_check=difference))

    def _record(self, arm: Arm, lm: LadderLM, weight_bytes: tuple[int, ...]) -> ModelRecord:
        config = arm.model.config
        parts = shares(config.shape, self.execution.tp_size)
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
            dtype=self.execution.dtype,
            device=str(self.execution.device),
            tp_size=self.execution.tp_size,
            tp_backend=self.driver.team.backend,
            dp_size=self.execution.dp_size,
            heads_per_rank=tuple(len(part.query_heads) for part in parts),
            kv_heads_per_rank=tuple(len(part.kv_heads) for part in parts),
            weight_bytes_per_rank=weight_bytes,
            tp_check=None,  # made when all models are scored
            batch_size=self.batch_size,
            batch_tokens=lm.batch_tokens,
            prompts=self._prompts(lm),
            bos=lm.bos_policy,
            cut_texts=lm.tally.cut_texts,
            truncated_requests=lm.tally.truncated_requests,
            scored_requests=lm.tally.scored_requests,
            reused_requests=lm.tally.reused_requests,
            scored_tokens=lm.tally.scored_tokens,
            scoring_seconds=lm.tally.seconds,
        )

    def _prompts(self, lm: LadderLM) -> str:
        """In which form questions were asked, in words."""
        thoughts = f", thoughts up to {self.think_end_token} left out"
        template = ""
        if self.prompting.apply_chat_template:
            digest = hashlib.sha256(lm.chat_template().encode()).hexdigest()
            template = f" (SHA-256 {digest[:12]})"
        return f"{self.prompting}{template}{thoughts if self.think_end_token else ''}"


def _warnings(record: ModelRecord, damage: str, lent: Lent | None) -> tuple[str, ...]:
    found = []
    if lent is not None and record.reused_requests:
        found.append(
            f"{record.name}: answers were taken from {lent.run} (--baseline-run), computed at "
            f"tp_size {lent.model.tp_size} and batch_size {lent.model.batch_size}."
        )
    if record.truncated_requests:
        found.append(truncation(record))
    if damage:
        found.append(f"{record.name}: recorded answers had {damage}, cut out and scored anew.")
    return tuple(found)


def task_record(
    prepared: PreparedTask,
    prompt_hashes: Sequence[str],
    doc_hashes: Sequence[str],
    kind: str,
    execution: str = "",
) -> TaskRecord:
    """A task and the documents of it that all models were asked about.

    Args:
        prepared: The task.
        prompt_hashes: Of each of these documents.
        doc_hashes: The same of the documents themselves.
        kind: The filter whose answers count.
        execution: How programs were run, if there are any.
    """
    task = prepared.task
    split = task.parts[0].evaluated
    return TaskRecord(
        task=task.name,
        dataset=split.hub_id,
        split=split.name,
        metric=task.headline,
        num_fewshot=task.num_fewshot,
        version=task.version,
        documents=len(prompt_hashes),
        documents_in_split=prepared.documents_in_split,
        official_documents=prepared.official_documents,
        source=prepared.source,
        data_sha256=prepared.data_sha256,
        prompts_sha256=hash_of(prompt_hashes),
        documents_sha256=hash_of(doc_hashes),
        filter=kind,
        part=MACRO if task.is_macro else "",
        execution=execution if task.answers == PROGRAMS else "",
    )


def scored_record(prepared: PreparedTask, samples: pd.DataFrame, execution: str) -> TaskRecord:
    """The record of a task that has scores."""
    own = samples[(samples["task"] == prepared.task.name) & samples["is_headline"]]
    own = own[own["model"] == samples["model"].iloc[0]]
    kind = str(own["filter"].iloc[0])
    return task_record(prepared, list(own["prompt_hash"]), list(own["doc_hash"]), kind, execution)


def waiting_record(prepared: PreparedTask, outputs: Sequence[Mapping[str, Any]]) -> TaskRecord:
    """The record of a task that waits for a judge."""
    samples = [row["sample"] for row in outputs]
    prompts, documents = ([str(s[name]) for s in samples] for name in ("prompt_hash", "doc_hash"))
    return task_record(prepared, prompts, documents, str(samples[0]["filter"]))


def plan(arms: Sequence[Arm], tasks: Sequence[PreparedTask], execution: Execution) -> str:
    """What will run and how long it should take, in a line."""
    tokens = len(arms) * estimate_tokens(tasks)
    pace = seconds_per_token(
        arms[0].model.config, dtype=execution.torch_dtype, device=execution.device
    )
    documents = sum(len(rows) for task in tasks for rows in task.chosen.values())
    names = " and ".join(f"{arm.model.name} ({arm.model.config.residual})" for arm in arms)
    written = len(arms) * written_tokens(tasks)
    more = f", and the time to write up to {written:,} tokens" if written else ""
    return (
        f"Scoring {names} on {documents} documents from {_count(len(tasks), 'task')}, "
        f"{execution.dtype} on {execution.device}: about {tokens:,.0f} tokens, "
        f"{_duration(tokens * pace)}{more}; answers already recorded are not scored again."
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
