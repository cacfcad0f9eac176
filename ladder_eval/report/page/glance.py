"""All candidates in one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.page.content import Verdict
from ladder_eval.report.page.verdicts import speedup_range
from ladder_eval.report.speed import subject_words, with_interval
from ladder_eval.report.words import bounds, points
from ladder_eval.results.speed_records import RANDOM

__all__ = ["glance"]


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
        return with_interval(timings[0].speedup), timed
    random = ", random weights" if any(t.record.weights == RANDOM for t in timings) else ""
    return speedup_range(timings), f"{len(timings)} settings, {kinds}{random}"


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
