"""Where the gap between a traced forward and its simulation goes, as a block."""

from collections.abc import Sequence

from ladder_eval.report.block import Block
from ladder_eval.report.speed import speed_title
from ladder_eval.results.speed_records import GapRecord, SpeedRecord

__all__ = ["gap_blocks"]


def gap_blocks(records: Sequence[SpeedRecord]) -> list[Block]:
    """A block for each record that has gaps."""
    return [_block(record) for record in records if any(row.gap for row in record.rows)]


def _block(record: SpeedRecord) -> Block:
    """Milliseconds of each part, and its share of the gap."""
    # The control says nothing of its own here.
    rows = [(row.arm, row.gap) for row in record.rows if row.gap and row.role != "control"]
    what = "decode step" if record.workload.output_len > 1 else "prompt"
    return Block(
        title=f"where a {what} takes longer than its simulation, ms (% of the gap); "
        f"{speed_title(record)}",
        columns=("", "traced", "simulated", "gap", *_PARTS),
        rows=tuple(
            (
                arm,
                _ms(gap.measured),
                _ms(gap.simulated),
                _ms(gap.measured - gap.simulated),
                *(_part(gap, getattr(gap, name)) for name in _PARTS.values()),
            )
            for arm, gap in rows
        ),
        notes=(
            "One traced generation of each arm, means over ranks: chance isn't told apart. Skew: "
            "waiting for later ranks. Wake-up: from arrivals to the ends of waits. Link: waiting "
            "for the wire. Blocks: slower than no-comm's, such as by shared memory bandwidth. "
            "Between: sending, adding, Python.",
        ),
    )


_PARTS = {
    "skew": "skew",
    "wake-up": "wake_up",
    "link": "link",
    "blocks": "compute",
    "between": "between",
}


def _part(gap: GapRecord, seconds: float) -> str:
    """A part, and its share where the gap is a time that can be shared."""
    whole = gap.measured - gap.simulated
    if whole <= 0:
        return _ms(seconds)
    return f"{_ms(seconds)} ({100 * seconds / whole:.0f})".replace("-", "−")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}".replace("-", "−")
