"""From two models' answers to the same requests, to their difference per task and pooled.

Nothing here compares answers to different requests: documents and prompts have to agree first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ladder_eval.errors import PairingError
from ladder_eval.results.records import POOLED, Comparison
from ladder_eval.results.statistics import paired_difference_interval, paired_mean_interval

__all__ = ["SHOWN_DIFFERENCES", "Pair", "Sample", "compare", "pair"]

SHOWN_DIFFERENCES: Final = 3
"""Differing entries that an error about unequal requests names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One model's answer to one document.

    Attributes:
        task: The task's name.
        metric: The task's headline metric.
        filter: Name of the filter that turned the answer into a score.
        doc_hash: Hash of the document.
        prompt_hash: Hash of the prompts made of it.
        value: The headline metric of this answer, a fraction.
    """

    task: str
    metric: str
    filter: str
    doc_hash: str
    prompt_hash: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The values of two models on the same request.

    Attributes:
        task: The task's name.
        metric: The task's headline metric.
        baseline: The baseline's value, a fraction.
        candidate: The candidate's value, a fraction.
    """

    task: str
    metric: str
    baseline: float
    candidate: float


_Key = tuple[str, str, str, int]  # task, filter, doc_hash, occurrence


def pair(candidate: Iterable[Sample], baseline: Iterable[Sample]) -> tuple[Pair, ...]:
    """Pair two models' samples by task, filter and document, in the baseline's order.

    A document that occurs repeatedly in a task is paired in order of occurrence.

    Raises:
        PairingError: If a document has only one of the two models' answers, if the prompts of a
            pair differ, if a task has several filters or metrics, or if a value isn't a fraction.
    """
    candidates, baselines = _by_key(candidate), _by_key(baseline)
    alone = [key for key in baselines if key not in candidates]
    alone += [key for key in candidates if key not in baselines]
    if alone:
        raise _unequal("only one of the models answered", alone)
    if changed := [
        key for key in baselines if _request(candidates[key]) != _request(baselines[key])
    ]:
        raise _unequal("the models were asked differently in", changed)
    _check_one_filter(baselines.values())
    return tuple(_join(candidates[key], sample) for key, sample in baselines.items())


def compare(
    candidate: str, baseline: str, pairs: Sequence[Pair], confidence: float = 0.95
) -> tuple[Comparison, ...]:
    """Compare a candidate with its baseline per task, and over the pairs of all tasks.

    A task whose values are all 0 or 1 is compared as two paired proportions. Any other gets an
    interval for the mean difference and stays out of the pooled comparison.

    The pooled comparison treats all pairs as one sample, in which each document weighs the same.
    That is conservative: the number of documents per task is fixed, not random, so the variance of
    the pooled difference is the mean of the variances within tasks, over n. One sample's variance
    adds to that mean the variance of the tasks' differences around the pooled one, which is never
    negative.

    Args:
        candidate: The candidate's name.
        baseline: The baseline's name.
        pairs: What `pair` returned.
        confidence: The intervals' coverage.

    Returns:
        One comparison per task in order of appearance, then the pooled one if any task is binary.
    """
    by_task: dict[str, list[Pair]] = {}
    for each in pairs:
        by_task.setdefault(each.task, []).append(each)
    groups = list(by_task.items())
    if pooled := [each for group in by_task.values() if _is_binary(group) for each in group]:
        groups.append((POOLED, pooled))
    return tuple(_compare(candidate, baseline, name, group, confidence) for name, group in groups)


def _by_key(samples: Iterable[Sample]) -> dict[_Key, Sample]:
    seen: Counter[tuple[str, str, str]] = Counter()
    keyed = {}
    for sample in samples:
        document = (sample.task, sample.filter, sample.doc_hash)
        keyed[*document, seen[document]] = sample
        seen[document] += 1
    return keyed


def _request(sample: Sample) -> tuple[str, str]:
    return sample.prompt_hash, sample.metric


def _unequal(problem: str, keys: Sequence[_Key]) -> PairingError:
    named = ", ".join(_describe(key) for key in keys[:SHOWN_DIFFERENCES])
    more = f" and {len(keys) - SHOWN_DIFFERENCES} more" if len(keys) > SHOWN_DIFFERENCES else ""
    return PairingError(
        f"{problem} {named}{more}; differences are only computed on equal requests, "
        "so evaluate both models again with the same suite, limit and seed."
    )


def _describe(key: _Key) -> str:
    task, kind, doc_hash, occurrence = key
    again = f", occurrence {occurrence + 1}" if occurrence else ""
    return f"{task} document {doc_hash[:12]} (filter {kind}{again})"


def _check_one_filter(samples: Iterable[Sample]) -> None:
    """Several filters or metrics would count a document several times, as if it were several."""
    first: dict[str, tuple[str, str]] = {}
    for sample in samples:
        kind = (sample.filter, sample.metric)
        if first.setdefault(sample.task, kind) != kind:
            raise PairingError(
                f"{sample.task} has values of both {first[sample.task]} and {kind}; "
                "compare one filter and one metric of a task."
            )


def _join(candidate: Sample, baseline: Sample) -> Pair:
    for value in (candidate.value, baseline.value):
        if not 0 <= value <= 1:  # also catches NaN
            raise PairingError(
                f"{baseline.task} has the value {value} of {baseline.metric}; differences are only "
                "computed for fractions from 0 to 1, so choose another headline metric."
            )
    return Pair(
        task=baseline.task,
        metric=baseline.metric,
        baseline=float(baseline.value),
        candidate=float(candidate.value),
    )


def _is_binary(pairs: Sequence[Pair]) -> bool:
    return all({each.baseline, each.candidate} <= {0.0, 1.0} for each in pairs)


def _compare(
    candidate: str, baseline: str, task: str, pairs: Sequence[Pair], confidence: float
) -> Comparison:
    n = len(pairs)
    gains = sum(each.candidate > each.baseline for each in pairs)
    losses = sum(each.candidate < each.baseline for each in pairs)
    differences = [each.candidate - each.baseline for each in pairs]
    if _is_binary(pairs):
        interval = paired_difference_interval(gains, losses, n, confidence)
    else:
        interval = paired_mean_interval(differences, confidence)
    metrics = dict.fromkeys(each.metric for each in pairs)
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        task=task,
        metric=", ".join(metrics),
        n=n,
        baseline_value=sum(each.baseline for each in pairs) / n,
        candidate_value=sum(each.candidate for each in pairs) / n,
        difference=sum(differences) / n,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        gains=gains,
        losses=losses,
        method=interval.method,
        decided=interval.low > 0 or interval.high < 0,
    )
