"""Verdicts as rows, in the columns of AlpacaEval's files of annotations."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import DataError, brief
from ladder_eval.harness.judging.outputs import Outputs, sole
from ladder_eval.harness.judging.rows import Row, few, read_rows, text_of
from ladder_eval.results.files import atomic_write

__all__ = ["Annotation", "Annotations", "read_annotations", "write_annotations"]

COLUMNS = ("instruction", "output_1", "generator_1", "output_2", "generator_2", "preference")


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotation:
    """One instruction and its verdict.

    Attributes:
        instruction: The instruction.
        reference: The reference's output, AlpacaEval's output_1.
        output: The model's, AlpacaEval's output_2.
        preference: From 1, the reference, to 2, the model; 0 for a draw; None without a verdict.
    """

    instruction: str
    reference: str
    output: str
    preference: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """All verdicts on one model against one reference.

    Attributes:
        model: Name of the model.
        reference: Name of the reference.
        annotator: Name of the judge.
        rows: The verdicts.
        expected: Instructions that should have one.
    """

    model: str
    reference: str
    annotator: str
    rows: tuple[Annotation, ...]
    expected: int


def read_annotations(path: Path, reference: Outputs | None) -> Annotations:
    """Read a file of annotations; with a reference, of its instructions alone.

    An instruction of the reference that has no row counts as one without a verdict, as in some
    published files.

    Raises:
        DataError: If the file can't be read, isn't of one model and one reference, has an
            instruction twice or one that the reference lacks, or a preference that is none.
    """
    raw = read_rows(path, COLUMNS)
    rows = {row.instruction: row for row in (_annotation(one, path) for one in raw)}
    if len(rows) < len(raw):
        raise DataError(f"{path} has instructions twice; keep one row of each.")
    if reference is not None:
        unknown = [text for text in rows if text not in reference.texts]
        if unknown:
            raise DataError(
                f"{path} has {len(unknown)} instructions that {reference.path} lacks "
                f"({few(unknown)}); give the reference that was annotated."
            )
    model, other, annotator = (_name(raw, path, name) for name in _NAMES)
    expected = len(rows) if reference is None else len(reference.texts)
    return Annotations(
        model=model,
        reference=other,
        annotator=annotator,
        rows=tuple(rows.values()),
        expected=expected,
    )


def write_annotations(path: Path, annotations: Annotations) -> None:
    """Write verdicts as AlpacaEval does, those without one left out.

    Raises:
        RecordError: If the file can't be written.
    """
    rows = [
        {
            "instruction": row.instruction,
            "output_1": row.reference,
            "generator_1": annotations.reference,
            "output_2": row.output,
            "generator_2": annotations.model,
            "annotator": annotations.annotator,
            "preference": row.preference,
        }
        for row in annotations.rows
        if row.preference is not None
    ]
    atomic_write(path, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


_NAMES = ("generator_2", "generator_1", "annotator")


def _name(rows: Sequence[Row], path: Path, column: str) -> str:
    return sole({str(row.get(column) or "unnamed") for row in rows}, column, path)


def _annotation(row: Row, path: Path) -> Annotation:
    return Annotation(
        instruction=text_of(row, "instruction", path),
        reference=text_of(row, "output_1", path),
        output=text_of(row, "output_2", path),
        preference=_preference(row["preference"], path),
    )


def _preference(value: object, path: Path) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) and (value == 0 or 1 <= value <= 2):
        return float(value)
    raise DataError(f"{path} has the preference {brief(repr(value))}; it lies between 1 and 2.")
