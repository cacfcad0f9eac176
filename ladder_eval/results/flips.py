"""Flips: the documents on which a candidate does better or worse than its baseline."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ladder_eval.results.cells import as_data
from ladder_eval.results.files import atomic_write
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.pairing import Pair

__all__ = ["FLIPS_NAME", "flips", "write_flips"]

FLIPS_NAME: Final = "flips.csv"
"""Name of the file with a row a changed document, in the candidate's run folder."""

_COLUMNS: Final = ("task", "subject", "doc_id", "doc_hash", "baseline", "candidate", "change")


def flips(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Pairs whose values differ, of metrics that are fractions: perplexities change everywhere."""
    return tuple(p for p in pairs if is_fraction(p.metric) and p.candidate != p.baseline)


def write_flips(folder: Path, candidate: str, baseline: str, changed: Sequence[Pair]) -> Path:
    """Write the changed documents, a gain or a loss each, over those of an earlier comparison.

    `doc_id` is the row in the split of the task, or of its
    subject; `samples.parquet` has the document and both answers under the same `doc_hash`.

    Raises:
        RecordError: If the file can't be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_COLUMNS, "candidate_model", "baseline_model"))
    for each in changed:
        subject = "" if each.source == each.doc_hash else each.source
        change = "gain" if each.candidate > each.baseline else "loss"
        values = (each.doc_id, each.doc_hash, each.baseline, each.candidate, change)
        writer.writerow(map(as_data, (each.task, subject, *values, candidate, baseline)))
    atomic_write(folder / FLIPS_NAME, text.getvalue())
    return folder / FLIPS_NAME
