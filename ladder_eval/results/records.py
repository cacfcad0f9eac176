"""What a run says about itself, as frozen records that survive a trip through JSON.

Scores, differences and interval ends are fractions (0 to 1), except those of perplexities and bits
a byte; times are seconds, sizes are bytes. Percent and points exist only in `ladder_eval.report`.
"""

import json
import typing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from ladder_eval.errors import RecordError, brief
from ladder_eval.plain_json import parse_json
from ladder_eval.results.decoding import decode
from ladder_eval.results.load_records import LoadRecord, ReplayRecord
from ladder_eval.results.score_records import (
    POOLED,
    Comparison,
    JudgementRecord,
    Score,
    TaskRecord,
)
from ladder_eval.results.speed_records import SpeedRecord

__all__ = [
    "POOLED",
    "SCHEMA_VERSION",
    "UNKNOWN",
    "Comparison",
    "JudgementRecord",
    "ModelRecord",
    "Provenance",
    "PublishedRow",
    "RunResult",
    "Score",
    "TaskRecord",
    "from_json",
    "to_json",
]

SCHEMA_VERSION: Final = 7
"""The version of the records' fields; it rises when a field is added, removed or redefined."""

# Since then fields were only added, with a default that says what was true without them.
_OLDEST_READ: Final = 4

UNKNOWN: Final = "unknown"
"""What imported results don't say of a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where, when and with what a run was made.

    Attributes:
        versions: Version of each package that can change a number, by its name.
        commit: Commit of the checkout, or None outside of one.
        hardware: What the run ran on, such as the processor's name.
        command: The command line, one argument an entry.
        started_at: Start, ISO 8601 with an offset from UTC.
        seconds: Wall time.
        peak_memory_bytes: Largest resident size of each rank's process.

    Raises:
        RecordError: If `started_at` isn't an ISO 8601 time with an offset.
    """

    versions: dict[str, str]
    commit: str | None
    hardware: dict[str, str | int | float | list[str]]
    command: tuple[str, ...]
    started_at: str
    seconds: float
    peak_memory_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _is_utc_time(self.started_at):
            raise RecordError(
                f"started_at={self.started_at!r} isn't a time like 2025-01-31T12:00:00+00:00; "
                "give an ISO 8601 time with its offset from UTC."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRecord:
    """One evaluated model, how it was run, and what the scoring cost.

    Of a model whose results were imported, much isn't known: then numbers are None, texts are
    `UNKNOWN`, and what the scoring cost is 0 as nothing was scored here.

    Attributes:
        name: The name that scores and comparisons use.
        residual: "standard", "ladder" or "hybrid ladder".
        ladder_layers: Indexes (from 0) of the layers with a ladder residual.
        num_hidden_layers: Layers in all.
        parameters: Number of weights.
        weights: Where the weights came from.
        weights_sha256: Hash of the weights.
        tokenizer_sha256: Hash of the tokenizer.
        fingerprint: Hash of all that determines the model's answers.
        adaptation: How the weights came to fit the residual, such as "as trained".
        dtype: Number format of the computation.
        device: Device of the computation.
        tp_size: Size of the tensor-parallel group.
        tp_backend: What carried its all-reduces: none, gloo or nccl.
        heads_per_rank: Query heads of each rank.
        kv_heads_per_rank: Key-value heads of each rank; one that several read counts for each.
        weight_bytes_per_rank: Size of each rank's weights, group after group; empty if no model was
            loaded.
        tp_check: Largest difference of 32 log-likelihoods from tp_size 1; None if unchecked.
        batch_size: Rows scored together.
        prompts: In which form questions were asked, such as "as plain text".
        bos: What was done about a beginning-of-sequence token.
        cut_texts: Generated texts that ended only because they were as long as they may be.
        truncated_requests: Requests cut to the model's context.
        scored_requests: Requests that this run computed.
        reused_requests: Requests answered from an earlier run's log.
        scored_tokens: Tokens that this run computed.
        scoring_seconds: Wall time of the computation alone.
        origin: Where imported results came from, in words; "" where they were made here.
        dp_size: Number of tensor-parallel groups that answered at the same time.
        batch_tokens: Tokens of a batch at most; two numbers where little work and much had
            different ones. Empty where nothing was scored here, or it wasn't recorded.
    """

    name: str
    residual: str
    ladder_layers: tuple[int, ...]
    num_hidden_layers: int | None
    parameters: int | None
    weights: str
    weights_sha256: str
    tokenizer_sha256: str
    fingerprint: str
    adaptation: str
    dtype: str
    device: str
    tp_size: int | None
    tp_backend: str
    heads_per_rank: tuple[int, ...]
    kv_heads_per_rank: tuple[int, ...]
    weight_bytes_per_rank: tuple[int, ...]
    tp_check: float | None
    batch_size: int | None
    prompts: str
    bos: str
    cut_texts: int
    truncated_requests: int
    scored_requests: int
    reused_requests: int
    scored_tokens: int
    scoring_seconds: float
    origin: str = ""
    dp_size: int = 1
    batch_tokens: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRow:
    """The scores that a paper prints for one model, in the units it prints them in.

    Unlike all other records it is not measured here, and so it keeps the paper's digits.

    Attributes:
        model: The name of the model here.
        row: The name of the row in the paper's table.
        metrics: Value by metric, in the order printed: percent, and WikiText as word perplexity.
        training: How the paper's authors trained the weights.
        source: The paper and its table.
    """

    model: str
    row: str
    metrics: dict[str, float]
    training: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """All that one run found out, without its samples.

    Attributes:
        schema_version: `SCHEMA_VERSION` of the writer.
        run_id: The run's name.
        suite: The suite's name.
        limit: Documents per task at most, or None for all.
        seed: Seed of whatever is random.
        baseline: The baseline's name, or None where nothing is compared.
        provenance: Versions, hardware, command and time.
        models: The evaluated models.
        tasks: The evaluated tasks.
        scores: Every metric of every model on every task and its parts, after every filter.
        comparisons: Differences per task, and pooled.
        speed: Times of the models, or of a bench's residuals.
        load: Times of a bench's residuals under load.
        replay: Times of a bench's residuals with the requests of a run.
        published: What a paper prints for the models; never measured here.
        warnings: What a reader has to know before believing the numbers.
        average_tasks: Names of the tasks that the suite's average is of, evaluated here or not.
        pending_tasks: Names of tasks whose answers wait for a judge.
        judgements: What judges said.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    suite: str
    limit: int | None
    seed: int
    baseline: str | None
    provenance: Provenance
    models: tuple[ModelRecord, ...]
    tasks: tuple[TaskRecord, ...]
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...]
    speed: tuple[SpeedRecord, ...] = ()
    load: tuple[LoadRecord, ...] = ()
    replay: tuple[ReplayRecord, ...] = ()
    published: tuple[PublishedRow, ...] = ()
    warnings: tuple[str, ...] = ()
    average_tasks: tuple[str, ...] = ()
    pending_tasks: tuple[str, ...] = ()
    judgements: tuple[JudgementRecord, ...] = ()


def to_json(result: RunResult) -> str:
    """Write a result as indented JSON with a final newline; floats keep every bit.

    Raises:
        RecordError: If a number is NaN or infinite, which JSON can't hold.
    """
    try:
        return json.dumps(asdict(result), indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise RecordError(
            f"run {result.run_id!r} holds a number that is NaN or infinite; "
            "find the metric that gave it, and leave that metric out."
        ) from error


def from_json(text: str) -> RunResult:
    """Read a result that `to_json` wrote.

    Raises:
        RecordError: If the text isn't JSON, has another schema version, or its fields are not
            exactly those of the records.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise RecordError(
            f"the result isn't valid JSON ({brief(error)}); "
            "restore it, or run the evaluation again."
        ) from error
    _check_schema_version(value)
    return typing.cast("RunResult", decode(RunResult, value, "result"))


def _is_utc_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _check_schema_version(value: object) -> None:
    version = value.get("schema_version") if isinstance(value, dict) else None
    if version is None:
        raise RecordError(
            "the JSON has no schema_version, so it isn't a result of ladder-eval; "
            "point to a run's results.json."
        )
    if version not in range(_OLDEST_READ, SCHEMA_VERSION + 1) or isinstance(version, bool):
        raise RecordError(
            f"the result has schema version {brief(repr(version))}, but this ladder-eval reads "
            f"{SCHEMA_VERSION}; use the ladder-eval that wrote it, or run the evaluation again."
        )
