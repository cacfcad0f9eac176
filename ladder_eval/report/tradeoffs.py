"""Trade-offs as tables: the points, and what is read off a family's curve."""

from collections.abc import Callable, Iterator

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.speed import digits, speed_title, with_interval
from ladder_eval.report.words import bounds, percent, points
from ladder_eval.results.curves import Reading
from ladder_eval.results.equal_terms import AtDrop, EqualTerms, Family, Versus
from ladder_eval.results.tradeoff import Point, Tradeoff, front

__all__ = ["equal_blocks", "equal_sentences", "tradeoff_block"]

_OPEN = "…"  # an end of an interval that lies beyond what was measured


def tradeoff_block(tradeoff: Tradeoff) -> Block:
    """The points, with their intervals, and whether they are on the front."""
    best = front(tradeoff.points)
    return Block(
        title=f"accuracy against {speed_title(tradeoff.record)}",
        columns=("", "points", "interval", f"{tradeoff.phase} speedup", "tokens/s", "front"),
        rows=tuple(_point_row(point, point in best) for point in tradeoff.points),
        notes=(
            "On the front are models that no other one beats in either accuracy or speed without "
            "losing in the other; it is of the estimates, whatever their intervals say.",
        ),
    )


def equal_blocks(terms: EqualTerms) -> tuple[Block, ...]:
    """What each family loses at equal latency and how fast it is at equal accuracy."""
    families = [block for each in terms.families for block in _family_blocks(terms, each)]
    if terms.versus:
        families.append(_versus_block(terms))
    return tuple(families)


def equal_sentences(terms: EqualTerms) -> tuple[str, ...]:
    """Why nothing is computed of a family, a sentence each."""
    return tuple(
        f"Accuracy at equal latency, of {family.name}: {family.reason.rstrip('.')}."
        for family in terms.families
        if family.reason
    )


def _point_row(point: Point, on_front: bool) -> tuple[str, ...]:
    ends = NOTHING if point.accuracy is None else bounds(point.accuracy.low, point.accuracy.high)
    return (
        point.arm,
        points(point.difference) if point.accuracy else NOTHING,
        ends,
        with_interval(point.speed) if point.speed else "1",
        with_interval(point.tokens_per_s),
        "yes" if on_front else "no",
    )


def _family_blocks(terms: EqualTerms, family: Family) -> Iterator[Block]:
    phase = terms.tradeoff.phase
    through = f"{family.name}, through {len(family.arms)} measured points"
    if family.at_speeds:
        yield Block(
            title=f"accuracy at equal latency: {through}",
            columns=(f"{phase} speedup", f"{_time(phase)} ms", "points", "95 % interval"),
            rows=tuple(
                (
                    f"{each.speedup:.4g}",
                    digits(1e3 * each.seconds),
                    points(each.difference.value),
                    _ends(each.difference, points),
                )
                for each in family.at_speeds
            ),
            notes=(_ASSUMED,),
        )
    if family.at_drops:
        yield Block(
            title=f"latency at equal accuracy: {through}",
            columns=("loss, points", f"{phase} speedup", "95 % interval"),
            rows=tuple(map(_drop_row, family.at_drops)),
            notes=(_REACHED,),
        )


_ASSUMED = (
    "Read between measured points, by straight lines over latency; intervals by drawing rounds and "
    "documents anew for all models together."
)
_REACHED = (
    "The speed-up at which the curve first falls so low, coming from the baseline; "
    f"{_OPEN} is an end that lies beyond the fastest measured model."
)


def _drop_row(each: AtDrop) -> tuple[str, ...]:
    loss = percent(each.drop)
    if each.speedup is None:
        return loss, "not reached", NOTHING
    return loss, _two(each.speedup.value), _ends(each.speedup, _two)


def _versus_block(terms: EqualTerms) -> Block:
    phase = terms.tradeoff.phase
    return Block(
        title="families at equal latency and at equal accuracy",
        columns=(
            "",
            "other family",
            "its points at this latency",
            "95 % interval",
            f"its {phase} speedup at this accuracy",
            "95 % interval",
        ),
        rows=tuple(map(_versus_row, terms.versus)),
        notes=(
            "Points above 0 and speed-ups above 1 are in favour of the other family. "
            f"{NOTHING} is where it wasn't measured, {_OPEN} an end that lies beyond what was; "
            "nothing is extrapolated.",
            _ASSUMED,
        ),
        folds=True,
    )


def _versus_row(each: Versus) -> tuple[str, ...]:
    there, faster = each.difference, each.speedup
    return (
        each.arm,
        each.family,
        points(there.value) if there else NOTHING,
        _ends(there, points) if there else NOTHING,
        _two(faster.value) if faster else NOTHING,
        _ends(faster, _two) if faster else NOTHING,
    )


def _ends(reading: Reading, shown: Callable[[float], str]) -> str:
    low, high = (_OPEN if end is None else shown(end) for end in (reading.low, reading.high))
    return f"[{low}, {high}]"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _time(phase: str) -> str:
    return "tpot" if phase == "decode" else "ttft"
