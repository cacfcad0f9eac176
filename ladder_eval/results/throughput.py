"""What rounds of two engines say: how much faster one is, how near to the machine's limit."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from ladder_eval.results.medians import median
from ladder_eval.results.speed_records import Estimate
from ladder_eval.results.throughput_records import (
    OURS,
    STOCK,
    Agreement,
    RequestWork,
    ThroughputResult,
    ThroughputRound,
    ThroughputSummary,
)

__all__ = [
    "CHOICES_MOST",
    "NEAR_TIE",
    "RESULT_NAME",
    "ROLLING_MOST",
    "disagreements",
    "least_seconds",
    "same_metrics",
    "summarised",
    "to_json",
]

RESULT_NAME = "throughput.json"
"""The file of a run's folder with the `ThroughputResult`."""

# Float32 sums in another order differ by about 1e-7 of their terms. Log-likelihoods of choices are
# sums of a few hundred logits' worth at most, whole texts are long.
CHOICES_MOST = 5e-4
"""Most by which log-likelihoods of the same continuation may differ."""

ROLLING_MOST = 1e-5
"""Most by which those of a whole text may, as a share of it."""

NEAR_TIE = 1e-3
"""Logits that are nearer to each other than this may change places by rounding alone."""


def least_seconds(work: RequestWork, each: ThroughputRound) -> float:
    """Seconds that the machine needs at least for the requests, by what it gave in a round.

    Reading takes as long as its operations do at the pace of the model's matrix products alone.
    Writing can't be faster than its operations at that pace, nor than a plain copy brings in what
    it reads: the roofline (Williams, Waterman, Patterson, CACM 52(4), 2009).
    """
    pace = each.products_flops_per_second
    writing = max(work.write_flops / pace, work.write_bytes / each.copied_bytes_per_second)
    return work.read_flops / pace + writing


def summarised(work: RequestWork, rounds: Sequence[ThroughputRound]) -> ThroughputSummary:
    """Medians over rounds; ratios are taken within a round.

    Raises:
        ValueError: if there are no rounds.
    """

    def over(value: Callable[[ThroughputRound], float]) -> Estimate:
        return median([value(each) for each in rounds])

    def ours(each: ThroughputRound) -> float:
        return each.trial(OURS).seconds

    return ThroughputSummary(
        seconds=over(ours),
        stock_seconds=over(lambda each: each.trial(STOCK).seconds),
        times_as_fast=over(lambda each: each.trial(STOCK).seconds / ours(each)),
        flops_per_second=over(lambda each: work.flops / ours(each)),
        of_limit=over(lambda each: least_seconds(work, each) / ours(each)),
    )


def disagreements(agreement: Agreement) -> list[str]:
    """What of the answers differs by more than rounding can explain, in words; [] if nothing."""
    found = [] if same_metrics(agreement) else ["metrics differ"]
    if agreement.choices is not None and not agreement.choices <= CHOICES_MOST:
        found.append(f"log-likelihoods differ by up to {agreement.choices:.2g}")
    if agreement.rolling is not None and not agreement.rolling <= ROLLING_MOST:
        found.append(f"log-likelihoods of whole texts differ by up to {agreement.rolling:.2g}")
    if far := sum(not each.gap <= NEAR_TIE for each in agreement.differences):
        found.append(f"{far} texts differ where there is no near-tie")
    return found


def same_metrics(agreement: Agreement) -> bool:
    """Whether both engines' answers give the same metrics.

    Accuracies are counts, and have to be equal. Perplexities follow log-likelihoods: where these
    differ by a share d, a perplexity differs by d times its logarithm, which is below 10 for any
    model of use.
    """
    if agreement.rolling is None:
        return all(pair.ours == pair.theirs for pair in agreement.metrics)
    most = 10 * ROLLING_MOST
    return all(
        abs(pair.ours - pair.theirs) <= most * abs(pair.theirs) for pair in agreement.metrics
    )


def to_json(result: ThroughputResult) -> str:
    """The result as indented JSON with a final newline."""
    return json.dumps(asdict(result), indent=2, allow_nan=False) + "\n"
