"""Of an arm, what it gives each user and takes of each device: rates, utilisation, energy."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ladder_eval.results.medians import median
from ladder_eval.results.speed_records import Estimate, Round, SpeedRow, Trial, Work

__all__ = ["utilised"]


def utilised(
    row: SpeedRow,
    rounds: Sequence[Round],
    trials: Sequence[Trial],
    batch_size: int,
    work: Work | None,
) -> SpeedRow:
    """The row with all that follows from its trials and from what a generation asks for.

    Utilisation is taken within a round, as ratios are, by what plain copies and plain matrix
    products reached in it.

    Args:
        row: An arm's row.
        rounds: The rounds.
        trials: The arm's trial in each of them.
        batch_size: Rows of a generation.
        work: What a generation asks for; None where it isn't known.
    """
    tokens = batch_size * (len(trials[0].itl) + 1)
    row = replace(
        row,
        tokens_per_s_per_row=_divided(row.tokens_per_s, batch_size),
        joules_per_token=_estimate([_by(trial.joules, tokens) for trial in trials]),
    )
    if work is None:
        return row
    pairs = list(zip(rounds, trials, strict=True))
    return replace(
        row,
        tokens_per_s_per_rank=_divided(row.tokens_per_s, work.ranks),
        bandwidth_utilisation=_estimate([_bandwidth(work, *pair) for pair in pairs]),
        flop_utilisation=_estimate([_flops(work, *pair) for pair in pairs]),
    )


def _bandwidth(work: Work, each: Round, trial: Trial) -> float | None:
    """(bytes of a decode step / tpot) / bytes a second of a plain copy."""
    if not trial.itl:
        return None
    return work.step_bytes / statistics.fmean(trial.itl) / each.copied_bytes_per_second


def _flops(work: Work, each: Round, trial: Trial) -> float | None:
    """(operations of prefill / ttft) / operations a second of a plain matrix product."""
    return _by(work.prefill_flops / trial.ttft, each.matmul_flops_per_second)


def _by(value: float | None, divisor: float | None) -> float | None:
    return None if value is None or divisor is None else value / divisor


def _estimate(values: Sequence[float | None]) -> Estimate | None:
    """The median, if every round has a value."""
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def _divided(estimate: Estimate, divisor: int) -> Estimate:
    return replace(
        estimate,
        value=estimate.value / divisor,
        low=estimate.low / divisor,
        high=estimate.high / divisor,
    )
