"""The answer in one sentence, and whether another choice would be better."""

from collections.abc import Sequence

from ladder_eval.report.page.content import BETTER, UNDECIDED, WORSE, Run, Timing, Verdict
from ladder_eval.report.speed import (
    control_speedup,
    digits,
    is_decided,
    over_words,
    with_interval,
)
from ladder_eval.report.words import bounds, points
from ladder_eval.results.speed_records import SpeedRecord
from ladder_eval.results.tradeoff import Point, Tradeoff, front, tradeoffs

__all__ = ["choices", "headline"]


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
    speedup = found.timings[0].speedup if found.timings else None
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
    speedup = timing.speedup
    return 0.0 if speedup is None else speedup.value


def _over(record: SpeedRecord) -> str:
    words = over_words(record).removesuffix(", ")
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _tally(found: Sequence[Verdict]) -> str:
    """How many are better, worse, undecided; and the fastest that isn't shown to be worse."""
    counts = {kind: sum(each.outcome == kind for each in found) for kind in _ORDER}
    parts = [f"{n} {'is' if n == 1 else 'are'} {kind}" for kind, n in counts.items() if n]
    baselines = dict.fromkeys(each.baseline for each in found)
    against = " or ".join(baselines) if len(baselines) < 3 else "their baselines"
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
    speedup, control = found.timings[0].speedup, control_speedup(found.timings[0].record)
    return speedup is not None and control is not None and is_decided(speedup, control)


_ORDER = (BETTER, UNDECIDED, WORSE)


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
