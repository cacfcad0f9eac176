"""A judgement as rows of a table and lines below it."""

from collections.abc import Iterator
from typing import Final

from ladder_eval.harness.judging.costs import Costs
from ladder_eval.harness.judging.judgement import Judgement, Provenance, Rates
from ladder_eval.results.win_rates import Rate

__all__ = ["HEADINGS", "lines", "rows", "title"]

HEADINGS: Final = ("measure", "value", "standard error")

LISTED: Final = 10
"""Failures that are printed; judgement.json has all of them."""


def title(judgement: Judgement) -> str:
    """Who was judged against whom, and on how many of the instructions."""
    judged = judgement.judged
    share = f"{judged.documents} instructions" if judged.complete else judged.status
    return f"{judgement.model} against {judgement.reference}, {share}"


def rows(judgement: Judgement) -> list[tuple[str, str, str]]:
    """All figures; where verdicts are missing, each says so itself."""
    if judgement.rates is None:
        return []
    of = "" if judgement.judged.complete else f" ({judgement.judged.status})"
    return [(f"{name}{of}", value, error) for name, value, error in _figures(judgement.rates)]


def lines(judgement: Judgement) -> Iterator[str]:
    """Judge, prompt, costs, notes and failures."""
    yield from _about(judgement.provenance)
    yield from judgement.notes
    failures = judgement.judged.failures
    if failures:
        yield f"{len(failures)} without a verdict; the same command asks them again:"
    for instruction, reason in list(failures.items())[:LISTED]:
        yield f"  {' '.join(instruction.split())[:60]!r}: {reason}"


def _figures(rates: Rates) -> Iterator[tuple[str, str, str]]:
    yield ("win rate, %", *_cells(rates.win_rate))
    controlled = rates.length_controlled
    if controlled is None:
        yield ("length-controlled win rate, %", f"— ({rates.why_not})", "—")
    else:
        yield ("length-controlled win rate, %", *_cells(controlled.rate))
    yield "mean length, characters", f"{rates.mean_length:.1f}", "—"
    yield "the reference's", f"{rates.reference_mean_length:.1f}", "—"


def _cells(rate: Rate) -> tuple[str, str]:
    return f"{rate.percent:.2f}", "—" if rate.stderr is None else f"{rate.stderr:.2f}"


def _about(provenance: Provenance) -> Iterator[str]:
    if provenance.url is None:
        yield f"verdicts of {provenance.judge}, read from a file"
        return
    short = (provenance.prompt_sha256 or "")[:12]
    yield (
        f"judge {provenance.judge} at {provenance.url}; prompt {provenance.prompt} ({short}); "
        f"order by seed {provenance.seed}"
    )
    if provenance.costs is not None:
        yield _costs(provenance.costs)


def _costs(costs: Costs) -> str:
    least = f" (at least: {costs.uncounted} weren't counted)" if costs.uncounted else ""
    price = "cost unknown" if costs.price is None else f"cost {costs.price:.4g}"
    return (
        f"{costs.responses} responses, {costs.prompt_tokens:,} tokens in and "
        f"{costs.completion_tokens:,} out{least}; {price}"
    )
