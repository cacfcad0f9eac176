"""What a report says of each candidate in sentences: as good, how sure, how much faster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.comparisons import comparison_blocks
from ladder_eval.report.page.content import BETTER, UNDECIDED, WORSE, Run, Timing, Verdict
from ladder_eval.report.speed import (
    candidate_sentences,
    control_speedup,
    digits,
    is_decided,
    main_phase,
    over_words,
    subject_words,
    with_interval,
)
from ladder_eval.report.words import bounds, made_words, points, subset
from ladder_eval.results.mean_difference import MeanDifference, candidates, mean_difference
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import RANDOM, Estimate, SpeedRecord
from ladder_eval.results.tradeoff import Point, Tradeoff, front, tradeoffs

__all__ = ["accuracy_sentence", "choices", "glance", "headline", "verdicts"]


def verdicts(runs: Sequence[Run]) -> tuple[Verdict, ...]:
    """A verdict for each candidate of each run that was compared or timed, in order."""
    return tuple(_verdict(run.result, name) for run in runs for name in _candidates(run.result))


def headline(found: Sequence[Verdict]) -> str:
    """The answer in one sentence, or what is missing for one."""
    compared = [each for each in found if each.mean is not None]
    if len(compared) == 1:
        return _both(compared[0])
    if compared:
        return _tally(compared)
    if any(each.timings for each in found):
        return _fastest(found)
    return "Nothing was compared: these runs have no candidate with a baseline."


def choices(runs: Sequence[Run]) -> tuple[str, ...]:
    """Whether another choice would be better, a sentence a measurement that compares several."""
    found = (_choice(each) for run in runs for each in tradeoffs(run.result))
    return tuple(dict.fromkeys(sentence for sentence in found if sentence))


def glance(found: Sequence[Verdict]) -> tuple[Block, ...]:
    """All candidates in one table, a row each; what nothing is known of has no columns."""
    parts = [_NAMES]
    parts += [_ACCURACY] if any(each.mean for each in found) else []
    parts += [_SPEED] if any(each.timings for each in found) else []
    if len(parts) == 1:
        return ()
    block = Block(
        title="all candidates at a glance",
        columns=tuple(column for part in parts for column in part.columns),
        rows=tuple(tuple(cell for part in parts for cell in part.cells(each)) for each in found),
        notes=tuple(part.note for part in parts if part.note),
    )
    return (block,)


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
            f"{over}{name} is {_range(timings)} times as fast in {len(timings)} settings, which "
            "the section on speed has."
        )


def _speedup_of(timing: Timing) -> Estimate | None:
    return main_phase(timing.row).speedup


def _choice(found: Tradeoff) -> str:
    """Which models another one beats in accuracy and speed at once."""
    if len(found.points) < 3:
        return ""
    kept = front(found.points)
    beaten = [point for point in found.points if point not in kept]
    if not beaten:
        return (
            "No choice beats another one here: by the estimates, whatever is faster is less "
            "accurate."
        )
    by = (f"{' and '.join(_better(point, kept))} than {point.arm}" for point in beaten)
    return f"At least as fast and as accurate, by the estimates: {'; '.join(by)}."


def _better(point: Point, kept: Sequence[Point]) -> list[str]:
    return [
        each.arm
        for each in kept
        if each.speedup >= point.speedup and each.difference >= point.difference
    ]


def _conditions(result: RunResult, name: str) -> str:
    """What must not be left out: documents, number format, how the weights came to fit."""
    models = {model.name: model for model in result.models}
    if name not in models or not result.tasks:
        return ""
    model, documents = models[name], sum(task.documents for task in result.tasks)
    part = subset(result.tasks).replace("subset:", "a subset of", 1) or f"all {documents}"
    how = f"{model.dtype} on {model.device}; weights: {made_words(model)}"
    return f"Scored on {part} documents, {how}."


def _both(found: Verdict) -> str:
    """Accuracy and speed of one candidate in one sentence."""
    mean = found.mean
    if mean is None:
        return ""
    how = {
        BETTER: f"{mean.candidate} is better than {mean.baseline} by",
        WORSE: f"{mean.candidate} is worse than {mean.baseline} by",
        UNDECIDED: f"Whether {mean.candidate} is as good as {mean.baseline} isn't decided, at",
    }[found.outcome]
    size = points(mean.difference)
    size = size if found.outcome == UNDECIDED else size.lstrip("+−")
    text = f"{how} {size} points {bounds(mean.interval.low, mean.interval.high)}"
    speedup = _speedup_of(found.timings[0]) if found.timings else None
    if speedup is None:
        return f"{text}; its speed wasn't measured."
    record = found.timings[0].record
    verb = "decodes" if found.timings[0].row.decode else "reads its prompt"
    chance = "" if _is_told(found) else ", which can't be told from chance"
    return f"{text}; it {verb} {with_interval(speedup)} times as fast{_over(record)}{chance}."


def _fastest(found: Sequence[Verdict]) -> str:
    """The best speed-up, of runs that only timed."""
    best = max((timing for each in found for timing in each.timings), key=_value)
    text = "whether answers are as good isn't known from these runs"
    if not _value(best):
        return f"Speed alone was measured; {text}."
    return (
        f"Speed alone was measured: at best {best.row.arm} is {digits(_value(best))} times as fast"
        f"{_over(best.record)}; {text}."
    )


def _value(timing: Timing) -> float:
    speedup = _speedup_of(timing)
    return 0.0 if speedup is None else speedup.value


def _over(record: SpeedRecord) -> str:
    words = over_words(record).removesuffix(", ")
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _tally(found: Sequence[Verdict]) -> str:
    """How many are better, worse, undecided; and the fastest that isn't shown to be worse."""
    counts = {kind: sum(each.outcome == kind for each in found) for kind in _ORDER}
    parts = [f"{n} {'is' if n == 1 else 'are'} {kind}" for kind, n in counts.items() if n]
    against = " or ".join(dict.fromkeys(each.baseline for each in found))
    text = f"Of {len(found)} candidates against {against}, {' and '.join(parts)}."
    kept = [each for each in found if each.outcome != WORSE and _measured_speedup(each)]
    if not kept:
        return text
    kept = [each for each in kept if _is_told(each) and _measured_speedup(each) > 1]
    if not kept:
        return f"{text} None that isn't shown to be worse is measurably faster."
    best = max(kept, key=_measured_speedup)
    record = best.timings[0].record
    return (
        f"{text} The fastest that isn't shown to be worse is {best.candidate}, "
        f"{_measured_speedup(best):.2f} times as fast{_over(record)}."
    )


def _measured_speedup(found: Verdict) -> float:
    return _value(found.timings[0]) if found.timings else 0.0


def _is_told(found: Verdict) -> bool:
    """Whether the first measurement tells the candidate's speed from what chance does."""
    if not found.timings:
        return False
    speedup, control = _speedup_of(found.timings[0]), control_speedup(found.timings[0].record)
    return speedup is not None and control is not None and is_decided(speedup, control)


_ORDER = (BETTER, UNDECIDED, WORSE)


def _accuracy_cells(found: Verdict) -> tuple[str, ...]:
    mean = found.mean
    if mean is None:
        return NOTHING, NOTHING, found.outcome
    interval = bounds(mean.interval.low, mean.interval.high)
    return points(mean.difference), interval, found.outcome


def _speed_cells(found: Verdict) -> tuple[str, ...]:
    """The speed-up and its setting; of several settings the range, and how many there are."""
    timings = found.timings
    if not timings:
        return NOTHING, NOTHING
    kinds = " and ".join(dict.fromkeys(timing.record.kind for timing in timings))
    if len(timings) == 1:
        phase = "decoding" if timings[0].row.decode else "prefill"
        timed = f"{phase}, {kinds}{subject_words(timings[0].record)}"
        return with_interval(_speedup_of(timings[0])), timed
    random = ", random weights" if any(t.record.weights == RANDOM for t in timings) else ""
    return _range(timings), f"{len(timings)} settings, {kinds}{random}"


def _range(timings: Sequence[Timing]) -> str:
    speedups = [x.value for x in map(_speedup_of, timings) if x is not None]
    return f"{digits(min(speedups))} to {digits(max(speedups))}" if speedups else NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Columns of the table of all candidates, and how a candidate's cells in them are made."""

    columns: tuple[str, ...]
    cells: Callable[[Verdict], tuple[str, ...]]
    note: str = ""


_NAMES = _Part(
    columns=("candidate", "against"), cells=lambda found: (found.candidate, found.baseline)
)
_ACCURACY = _Part(
    columns=("mean difference, points", "95 % interval", "verdict"),
    cells=_accuracy_cells,
    note="Mean difference: of the tasks' headline metrics, each task weighing the same. "
    "Worse, better: its interval excludes zero; undecided: it doesn't.",
)
_SPEED = _Part(
    columns=("speedup", "timed"),
    cells=_speed_cells,
    note="Speedup: the baseline's time by the candidate's, median of interleaved rounds.",
)
