"""Scores and outcomes as rows and sentences."""

from collections.abc import Iterator

from ladder_eval.harness.code.checking import Checked
from ladder_eval.harness.code.scoring import Score
from ladder_eval.harness.data.releases import RELEASES

__all__ = ["HEADINGS", "rows", "sentences_about", "title"]

HEADINGS = ("tests", "score", "%", "95 % interval")


def title(checked: Checked) -> str:
    """What was scored, and on how much of it."""
    release = RELEASES[checked.problems.dataset]
    scores = checked.scores
    share = f"{scores.problems} of {scores.of}" if scores.subset else f"{scores.of}"
    return f"{release}: {share} problems, {scores.samples} samples"


def rows(checked: Checked) -> list[tuple[str, ...]]:
    """A row a score."""
    return [_row(score) for score in checked.scores.scores]


def sentences_about(checked: Checked) -> Iterator[str]:
    """What doesn't fit into the table: outcomes, and conditions that limit what the scores say."""
    for level, counts in checked.scores.statuses.items():
        found = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        yield f"{'base' if level == 'base' else 'base + plus'}: {found}."
    if checked.scores.subset:
        yield (
            f"Subset: {checked.scores.problems} of {checked.scores.of} problems have samples; "
            "these are no scores of the whole data set."
        )
    if checked.sandbox.kind == "none":
        yield "Unsafe execution: the programs ran with the user's rights, without a sandbox."


def _row(score: Score) -> tuple[str, ...]:
    tests = "base" if score.level == "base" else "base + plus"
    interval = f"[{100 * score.low:.1f}, {100 * score.high:.1f}]"
    return tests, f"pass@{score.k}", f"{100 * score.value:.1f}", interval
