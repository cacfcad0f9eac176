"""What users and devices get, and how well the devices are used, as a block."""

from collections.abc import Iterator, Sequence

from ladder_eval.report.block import Block
from ladder_eval.report.speed import speed_title, with_interval
from ladder_eval.results.speed_records import SpeedRecord, SpeedRow

__all__ = ["utilisation_blocks"]


def utilisation_blocks(records: Sequence[SpeedRecord]) -> list[Block]:
    """A block for each record that knows of it."""
    return [_block(record) for record in records if any(map(_known, record.rows))]


def _known(row: SpeedRow) -> bool:
    return row.tokens_per_s_per_rank is not None


def _block(record: SpeedRecord) -> Block:
    counted = any(row.joules_per_token is not None for row in record.rows)
    return Block(
        title=f"rates and utilisation; {speed_title(record)}",
        columns=(
            "",
            "tokens/s per row",
            "tokens/s per rank",
            "bandwidth utilisation %",
            "FLOP utilisation %",
            *(["J per token"] if counted else []),
        ),
        rows=tuple(
            (
                row.arm,
                with_interval(row.tokens_per_s_per_row),
                with_interval(row.tokens_per_s_per_rank),
                with_interval(row.bandwidth_utilisation, 100),
                with_interval(row.flop_utilisation, 100),
                *([with_interval(row.joules_per_token)] if counted else []),
            )
            for row in record.rows
        ),
        notes=tuple(_notes(record)),
    )


def _notes(record: SpeedRecord) -> Iterator[str]:
    """By what the shares are taken."""
    copied = record.copied_bytes_per_second / 1e9
    yield (
        "Bandwidth utilisation is of decoding: weights and cache read a second, by the "
        f"{copied:.1f} GB/s that a plain copy reads and writes on all ranks at once."
    )
    if record.matmul_flops_per_second is not None:
        yield (
            "FLOP utilisation is of prefill: the model's operations a second, by the "
            f"{record.matmul_flops_per_second / 1e9:.0f} GFLOP/s that a plain matrix product in "
            f"{record.dtype} does on all ranks at once."
        )
