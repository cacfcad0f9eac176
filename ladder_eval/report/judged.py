"""Judgements as a block: raw and length-controlled win rate and both lengths, side by side."""

from itertools import groupby

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.words import percent
from ladder_eval.results.records import JudgementRecord, RunResult

__all__ = ["judged_blocks", "waiting_sentence"]


def judged_blocks(result: RunResult) -> list[Block]:
    """A block a judged task."""
    return [_block(name, list(found)) for name, found in groupby(result.judgements, _task)]


def waiting_sentence(result: RunResult) -> str:
    """What has to be done for the scores that are missing; empty if none is."""
    if not result.pending_tasks:
        return ""
    names = " and ".join(result.pending_tasks)
    verb = "waits" if len(result.pending_tasks) == 1 else "wait"
    return (
        f"{names} {verb} for a judge: `ladder-eval judge` with this run's folder, --judge-url and "
        "--judge-model finishes it."
    )


def _task(judgement: JudgementRecord) -> str:
    return judgement.task


def _block(task: str, found: list[JudgementRecord]) -> Block:
    first = found[0]
    notes = [
        f"Against {first.reference} on {first.documents} instructions; judge {first.judge} at "
        f"{first.url}, prompt {first.prompt}, order by seed {first.seed}."
    ]
    notes += dict.fromkeys(
        f"No length-controlled win rate: it {each.why_not}." for each in found if each.why_not
    )
    prices = [each.price for each in found if each.price is not None]
    if prices:
        notes.append(f"The verdicts cost {sum(prices):.4g}.")
    return Block(
        title=f"{task}: what the judge preferred",
        columns=("", "win rate %", "length-controlled %", "mean length", "the reference's"),
        rows=tuple(_row(each) for each in found),
        notes=tuple(notes),
    )


def _row(judgement: JudgementRecord) -> tuple[str, ...]:
    return (
        judgement.model,
        _rate(judgement.win_rate, judgement.win_rate_stderr),
        _rate(judgement.lc_win_rate, judgement.lc_win_rate_stderr),
        f"{judgement.mean_length:.0f}",
        f"{judgement.reference_mean_length:.0f}",
    )


def _rate(value: float | None, stderr: float | None) -> str:
    if value is None:
        return NOTHING
    return percent(value) + (f" ± {percent(stderr)}" if stderr is not None else "")
