"""From two models' answers to the same requests, to their difference per task and pooled.

Nothing here compares answers to different requests: documents and prompts have to agree first.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ladder_eval.errors import PairingError
from ladder_eval.results.means import paired_mean_interval
from ladder_eval.results.metrics import Term, is_fraction, over
from ladder_eval.results.records import POOLED, Comparison
from ladder_eval.results.resampling import bootstrap_ratio
from ladder_eval.results.samples import Sample
from ladder_eval.results.statistics import Interval, paired_difference_interval

__all__ = ["SHOWN_DIFFERENCES", "Pair", "by_task", "compare", "is_binary", "pair"]

SHOWN_DIFFERENCES: Final = 3
"""Differing entries that an error about unequal requests names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The values of two models on the same request.

    Attributes:
        task: The task's name.
        metric: The task's headline metric.
        baseline: The baseline's value, a fraction, or nats a unit of weight.
        candidate: The candidate's value.
        weight: What the document counts in the mean over documents.
        source: What it shares with other documents, which aren't independent of it: its subject, or
            where there are none, the document itself, which may be asked repeatedly. "" where
            nothing is shared.
        doc_id: The document's row in its split.
        doc_hash: Hash of the document.
    """

    task: str
    metric: str
    baseline: float
    candidate: float
    weight: float = 1.0
    source: str = ""
    doc_id: int = 0
    doc_hash: str = ""


_Key = tuple[str, str, str, int]  # task, filter, doc_hash, occurrence


def pair(candidate: Iterable[Sample], baseline: Iterable[Sample]) -> tuple[Pair, ...]:
    """Pair two models' samples by task, filter and document, in the baseline's order.

    A document that occurs repeatedly in a task is paired in order of occurrence.

    Raises:
        PairingError: If a document has only one of the two models' answers, if the prompts of a
            pair differ, if a task has several filters or metrics, or if a value isn't a fraction
            though its metric is one.
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

    A task whose values are all 0 or 1 is compared as two paired proportions. Other fractions get an
    interval for the mean difference, perplexities one for their ratio; both stay out of the pooled
    comparison. A ratio without spread, such as that of one document, is left out.

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
    groups = list(by_task(pairs).items())
    if pooled := [each for _, group in groups if is_binary(group) for each in group]:
        groups.append((POOLED, pooled))
    found = (_compare(candidate, baseline, name, group, confidence) for name, group in groups)
    return tuple(each for each in found if each is not None)


def by_task(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """The pairs of each task, in order of appearance."""
    found: dict[str, list[Pair]] = {}
    for each in pairs:
        found.setdefault(each.task, []).append(each)
    return found


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
        _check_value(baseline, value)
    return Pair(
        task=baseline.task,
        metric=baseline.metric,
        baseline=float(baseline.value),
        candidate=float(candidate.value),
        weight=float(baseline.weight),
        source=baseline.group or baseline.doc_hash,
        doc_id=int(baseline.doc_id),
        doc_hash=baseline.doc_hash,
    )


def _check_value(sample: Sample, value: float) -> None:
    suits = 0 <= value <= 1 if is_fraction(sample.metric) else math.isfinite(value)
    if not suits:  # also catches NaN
        raise PairingError(
            f"{sample.task} has the value {value} of {sample.metric}; differences are only "
            "computed for fractions from 0 to 1, so choose another headline metric."
        )


def is_binary(pairs: Sequence[Pair]) -> bool:
    """Whether both models are right or wrong on each document, and each counts the same."""
    return all(
        {each.baseline, each.candidate} <= {0.0, 1.0}
        and each.weight == 1
        and is_fraction(each.metric)
        for each in pairs
    )


def _compare(
    candidate: str, baseline: str, task: str, pairs: Sequence[Pair], confidence: float
) -> Comparison | None:
    metric = ", ".join(dict.fromkeys(each.metric for each in pairs))
    ups = sum(each.candidate > each.baseline for each in pairs)
    downs = sum(each.candidate < each.baseline for each in pairs)
    gains, losses = (ups, downs) if is_fraction(metric) else (downs, ups)
    interval = _interval(metric, pairs, gains, losses, confidence)
    if interval is None:
        return None
    theirs = over(metric, [Term(each.baseline, each.weight) for each in pairs])
    own = over(metric, [Term(each.candidate, each.weight) for each in pairs])
    ratio = None if is_fraction(metric) else own / theirs
    difference = own - theirs if ratio else _mean_difference(pairs)
    nothing = 0.0 if ratio is None else 1.0
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        task=task,
        metric=metric,
        n=len(pairs),
        baseline_value=theirs,
        candidate_value=own,
        difference=difference,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        gains=gains,
        losses=losses,
        method=interval.method,
        decided=not interval.low <= nothing <= interval.high,
        ratio=ratio,
    )


def _mean_difference(pairs: Sequence[Pair]) -> float:
    """Summed document by document, so that equal answers give zero to the last bit."""
    return over("", [Term(each.candidate - each.baseline, each.weight) for each in pairs])


def _interval(
    metric: str, pairs: Sequence[Pair], gains: int, losses: int, confidence: float
) -> Interval | None:
    if is_binary(pairs):
        return paired_difference_interval(gains, losses, len(pairs), confidence)
    weights = [each.weight for each in pairs]
    if is_fraction(metric):
        differences = [each.candidate - each.baseline for each in pairs]
        equal = set(weights) == {1.0}
        return paired_mean_interval(differences, confidence, None if equal else weights)
    candidate, baseline = (
        np.asarray([getattr(each, side) for each in pairs]) for side in ("candidate", "baseline")
    )
    return bootstrap_ratio(metric, candidate, baseline, np.asarray(weights), confidence)
