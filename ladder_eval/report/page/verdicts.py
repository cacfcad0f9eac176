"""What a report says of each candidate in sentences: as good, how sure, how much faster."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ladder_eval.report.block import NOTHING
from ladder_eval.report.comparisons import comparison_blocks
from ladder_eval.report.page.content import BETTER, WORSE, Run, Timing, Verdict
from ladder_eval.report.speed import (
    candidate_sentences,
    digits,
    over_words,
)
from ladder_eval.report.words import made_words, points, subset
from ladder_eval.results.mean_difference import MeanDifference, candidates, mean_difference
from ladder_eval.results.records import RunResult

__all__ = ["accuracy_sentence", "speedup_range", "verdicts"]


def verdicts(runs: Sequence[Run]) -> tuple[Verdict, ...]:
    """A verdict for each candidate of each run that was compared or timed, in order."""
    return tuple(_verdict(run.result, name) for run in runs for name in _candidates(run.result))


def accuracy_sentence(found: MeanDifference) -> str:
    """What a mean difference means, and how sure that is."""
    scope = f"{points(found.difference)} points in {_mean_words(found)}"
    sure = (
        f"{100 * found.confidence:g} % interval {points(found.interval.low)} to "
        f"{points(found.interval.high)}"
    )
    if found.decided:
        way = BETTER if found.difference > 0 else WORSE
        return f"{found.candidate} is {way} than {found.baseline}: {scope} ({sure})."
    return (
        f"Whether {found.candidate} is as good as {found.baseline} isn't decided: {scope} "
        f"({sure}); {_possible(found)}."
    )


def _mean_words(found: MeanDifference) -> str:
    """Such as "the mean of 7 of 8 tasks, without mmlu"."""
    k, missing = len(found.tasks), found.missing
    if k == 1 and not missing:
        return found.tasks[0]
    if missing:
        return f"the mean of {k} of {k + len(missing)} tasks, without {', '.join(missing)}"
    return f"the mean of {k} tasks"


def _possible(found: MeanDifference) -> str:
    """What an undecided difference leaves open; its interval holds zero."""
    loss, gain = (points(abs(end)).lstrip("+") for end in (found.interval.low, found.interval.high))
    return f"anything from a loss of {loss} points to a gain of {gain} is possible"


def _candidates(result: RunResult) -> list[str]:
    """Those that were compared, then those that only were timed."""
    timed = [r.arm for record in result.speed for r in record.rows if r.role == "candidate"]
    return list(dict.fromkeys((*candidates(result), *timed)))


def _verdict(result: RunResult, name: str) -> Verdict:
    mean = mean_difference(result, name)
    timings = tuple(
        Timing(record=record, row=row)
        for record in result.speed
        for row in record.rows
        if (row.arm, row.role) == (name, "candidate")
    )
    accuracy = [accuracy_sentence(mean)] if mean else _ratios(result, name)
    return Verdict(
        run_id=result.run_id,
        candidate=name,
        baseline=_baseline(result, timings),
        mean=mean,
        timings=timings,
        sentences=(*accuracy, *_speed(timings)),
        conditions=_conditions(result, name),
    )


def _baseline(result: RunResult, timings: Sequence[Timing]) -> str:
    if result.baseline is not None:
        return result.baseline
    rows = (row for timing in timings for row in timing.record.rows)
    return next((row.arm for row in rows if row.role == "baseline"), NOTHING)


def _ratios(result: RunResult, name: str) -> list[str]:
    """Where only perplexities were compared, what their ratios say."""
    own = tuple(each for each in result.comparisons if each.candidate == name and each.ratio)
    blocks = comparison_blocks(replace(result, comparisons=own)) if own else ()
    return [note for block in blocks for note in block.notes]


def _speed(timings: Sequence[Timing]) -> Iterator[str]:
    """The sentence of the only measurement, or the range that several span."""
    if len(timings) == 1:
        yield candidate_sentences(timings[0].record)[timings[0].row.arm]
    elif timings:
        name, over = timings[0].row.arm, over_words(timings[0].record)
        yield (
            f"{over}{name} is {speedup_range(timings)} times as fast in {len(timings)} settings, "
            "which the section on speed has."
        )


def _conditions(result: RunResult, name: str) -> str:
    """What must not be left out: documents, number format, how the weights came to fit."""
    models = {model.name: model for model in result.models}
    if name not in models or not result.tasks:
        return ""
    model, documents = models[name], sum(task.documents for task in result.tasks)
    part = subset(result.tasks).replace("subset:", "a subset of", 1) or f"all {documents}"
    how = f"{model.dtype} on {model.device}; weights: {made_words(model)}"
    return f"Scored on {part} documents, {how}."


def speedup_range(timings: Sequence[Timing]) -> str:
    """What the speed-ups of several settings span; a dash where there are none."""
    speedups = [x.value for x in (each.speedup for each in timings) if x is not None]
    return f"{digits(min(speedups))} to {digits(max(speedups))}" if speedups else NOTHING
