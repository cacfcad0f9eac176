"""Tasks, scores and comparisons as frozen records; `results.records` has them, too.

Scores, differences and their intervals are fractions (0 to 1), except perplexities and bits a byte.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["POOLED", "Comparison", "JudgementRecord", "Score", "TaskRecord"]

POOLED: Final = "pooled"
"""The `Comparison.task` of a comparison over the pairs of all tasks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRecord:
    """One task, and the data that it was evaluated on.

    Attributes:
        task: The task's name.
        dataset: The data set's name on the hub.
        split: The evaluated split.
        metric: The headline metric, such as "acc_norm".
        num_fewshot: Solved examples in a prompt.
        version: The task's version.
        documents: Documents evaluated.
        documents_in_split: Documents in the split as loaded.
        official_documents: Documents that the data set's authors publish, where known.
        source: Where the data came from.
        data_sha256: Hash of the data; "" of imported results, which don't have it.
        prompts_sha256: Hash of the prompts.
        filter: The filter of lm-eval's whose answers the headline metric judges; "none" where the
            task has none.
        part: The `Score.part` that counts: "" for the whole task, or "macro" where its subjects
            count equally. Differences between models are over documents in either case.
        execution: How programs were run that the models wrote; "" where there are none.
        documents_sha256: Hash of the evaluated documents, with their right answers; it and
            `prompts_sha256` are "" where only aggregated results were imported.
    """

    task: str
    dataset: str
    split: str
    metric: str
    num_fewshot: int
    version: str
    documents: int
    documents_in_split: int
    official_documents: int | None
    source: str
    data_sha256: str
    prompts_sha256: str
    filter: str = "none"
    part: str = ""
    execution: str = ""
    documents_sha256: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """One metric of one model on one task or a part of it, after one filter.

    Attributes:
        model: The model's name.
        task: The task's name.
        metric: The metric's name.
        value: The metric over documents: a fraction, or one of `LOWER_IS_BETTER`.
        n: Documents that have a value of the metric.
        stderr: Standard error of `value`; None where it can't be estimated, such as when all
            documents agree.
        filter: Name of the filter that turned the answers into values.
        part: "" for the whole task, in which each document weighs the same; "subject ..." and
            "category ..." for a part; "macro" for the mean of the subjects that have documents.
        low: Lower end of the 95 % interval of `value`; None where there is none.
        high: Its upper end.
        method: How the interval was computed; "" where there is none.
    """

    model: str
    task: str
    metric: str
    value: float
    n: int
    stderr: float | None
    filter: str = "none"
    part: str = ""
    low: float | None = None
    high: float | None = None
    method: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgementRecord:
    """What a judge said of one model's outputs beside a reference's; its figures belong together.

    Attributes:
        model: The model's name.
        task: The task's name.
        reference: Whose outputs they were compared with.
        judge: The judge's name.
        url: The judge's server.
        prompt: Name of the prompt it was asked with, and its hash.
        seed: Seed of the order in which outputs were shown.
        documents: Instructions, each with a verdict.
        win_rate: The raw win rate, a fraction.
        win_rate_stderr: Its standard error.
        lc_win_rate: The length-controlled one; None where it couldn't be had.
        lc_win_rate_stderr: Its standard error.
        why_not: Why there is none.
        mean_length: The model's mean output in characters.
        reference_mean_length: The reference's.
        price: What all verdicts cost, where prices are known.
    """

    model: str
    task: str
    reference: str
    judge: str
    url: str
    prompt: str
    seed: int
    documents: int
    win_rate: float
    win_rate_stderr: float | None
    lc_win_rate: float | None
    lc_win_rate_stderr: float | None
    why_not: str | None
    mean_length: float
    reference_mean_length: float
    price: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A candidate against its baseline, over pairs of answers to the same requests.

    Attributes:
        candidate: The candidate's name.
        baseline: The baseline's name.
        task: The task's name, or `POOLED`.
        metric: The compared metric.
        n: Pairs.
        baseline_value: The baseline's mean, a fraction, or its perplexity.
        candidate_value: The candidate's.
        difference: `candidate_value` minus `baseline_value`.
        low: Lower end of the interval of the difference, or of the ratio if there's one.
        high: Its upper end.
        confidence: The interval's coverage, such as 0.95.
        gains: Pairs in which the candidate did better.
        losses: Pairs in which the candidate did worse.
        method: How the interval was computed.
        decided: Whether the interval excludes a difference of zero, or a ratio of one.
        ratio: `candidate_value` / `baseline_value` for metrics of `LOWER_IS_BETTER`; else None.
    """

    candidate: str
    baseline: str
    task: str
    metric: str
    n: int
    baseline_value: float
    candidate_value: float
    difference: float
    low: float
    high: float
    confidence: float
    gains: int
    losses: int
    method: str
    decided: bool
    ratio: float | None = None
