"""Accuracy at equal latency and latency at equal accuracy, as tables and sentences."""

from collections.abc import Iterator, Sequence

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.speed import digits, speed_title
from ladder_eval.report.words import points
from ladder_eval.results.curves import Reading
from ladder_eval.results.equal_terms import EqualTerms, Family, Versus
from ladder_eval.results.tradeoff import DECODE

__all__ = ["equal_blocks", "equal_sentences"]

_METHOD = (
    "Read off straight lines between measured points, over time: 95 % intervals of joint draws of "
    "rounds and of documents. A dash stands for what lies beyond the measured points."
)


def equal_sentences(found: Sequence[EqualTerms]) -> tuple[str, ...]:
    """Why a family has no numbers at equal terms, a sentence a family."""
    return tuple(
        f"{family.name} at equal terms: {family.reason}."
        for each in found
        for family in each.families
        if family.reason
    )


def equal_blocks(found: Sequence[EqualTerms]) -> tuple[Block, ...]:
    """What families have at equal speed-up, at equal loss, and beside each other."""
    blocks = [block for each in found for block in _blocks(each)]
    return tuple(block for block in blocks if block.rows)


def _blocks(found: EqualTerms) -> Iterator[Block]:
    title, time = speed_title(found.tradeoff.record), _time(found)
    yield Block(
        title=f"accuracy at equal latency; {title}",
        columns=("family", "speedup", time, "difference, points", "95 % interval"),
        rows=tuple(row for family in found.families for row in _at_speeds(family)),
        notes=(_METHOD,),
    )
    yield Block(
        title=f"latency at equal accuracy; {title}",
        columns=("family", "loss, points", "speedup", "95 % interval"),
        rows=tuple(row for family in found.families for row in _at_drops(family)),
        notes=(_METHOD,),
    )
    yield Block(
        title=f"another family at a model's own latency, and at its own accuracy; {title}",
        columns=(
            "model",
            "other family",
            "its gain, points",
            "95 % interval",
            "its speedup over the model",
            "95 % interval",
        ),
        rows=tuple(map(_versus_row, found.versus)),
        notes=(_METHOD,),
    )


def _time(found: EqualTerms) -> str:
    return "tpot ms" if found.tradeoff.phase == DECODE else "ttft ms"


def _at_speeds(family: Family) -> Iterator[tuple[str, ...]]:
    for each in family.at_speeds:
        time = digits(1e3 * each.seconds)
        yield family.name, f"{each.speedup:.2f}", time, *_difference(each.difference)


def _at_drops(family: Family) -> Iterator[tuple[str, ...]]:
    for each in family.at_drops:
        yield family.name, f"{100 * each.drop:g}", *_speedup(each.speedup)


def _versus_row(each: Versus) -> tuple[str, ...]:
    return each.arm, each.family, *_difference(each.difference), *_speedup(each.speedup)


def _difference(found: Reading | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, NOTHING
    low, high = (NOTHING if end is None else points(end) for end in (found.low, found.high))
    return points(found.value), f"[{low}, {high}]"


def _speedup(found: Reading | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, NOTHING
    low, high = (NOTHING if end is None else f"{end:.2f}" for end in (found.low, found.high))
    return f"{found.value:.2f}", f"[{low}, {high}]"
