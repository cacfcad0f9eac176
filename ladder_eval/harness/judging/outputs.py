"""Files of outputs, and the join of a model's with the reference's by instruction."""

from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import DataError
from ladder_eval.harness.judging.rows import few, read_rows, text_of

__all__ = ["Outputs", "Pair", "pair_up", "read_outputs", "sole"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """What one model answered.

    Attributes:
        path: The file.
        generator: The model's name.
        texts: Output by instruction, in the order of the file.
    """

    path: Path
    generator: str
    texts: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Both outputs for one instruction.

    Attributes:
        instruction: The instruction.
        reference: The reference's output.
        output: The model's.
    """

    instruction: str
    reference: str
    output: str


def read_outputs(path: Path) -> Outputs:
    """Read rows of instruction, output and generator; without generator, the file's name is it.

    Raises:
        DataError: If the file can't be read, an instruction stands twice, or there are several
            generators.
    """
    rows = read_rows(path, ("instruction", "output"))
    texts: dict[str, str] = {}
    for row in rows:
        instruction = text_of(row, "instruction", path)
        if instruction in texts:
            raise DataError(f"{path} has {few([instruction])} twice; keep one row of it.")
        texts[instruction] = text_of(row, "output", path)
    names = {str(row.get("generator") or path.stem) for row in rows}
    return Outputs(path=path, generator=sole(names, "generator", path), texts=texts)


def sole(names: set[str], column: str, path: Path) -> str:
    """The one name that all rows of a file have in a column.

    Raises:
        DataError: If there are several.
    """
    if len(names) > 1:
        raise DataError(
            f"{path} has several values of {column!r}, {few(sorted(names))}; "
            "give one file a model and reference."
        )
    return next(iter(names))


def pair_up(outputs: Outputs, reference: Outputs) -> list[Pair]:
    """Each of the reference's instructions with both outputs, in the reference's order.

    Raises:
        DataError: If an instruction is in one of the files alone.
    """
    missing = [text for text in reference.texts if text not in outputs.texts]
    unknown = [text for text in outputs.texts if text not in reference.texts]
    if missing or unknown:
        parts = (
            f"lacks {len(missing)} of the {len(reference.texts)} instructions of {reference.path} "
            f"({few(missing)})"
            if missing
            else "",
            f"has {len(unknown)} that are not among them ({few(unknown)})" if unknown else "",
        )
        raise DataError(
            f"{outputs.path} {' and '.join(part for part in parts if part)}; "
            "give an output for each of its instructions, worded as there."
        )
    return [
        Pair(instruction=text, reference=output, output=outputs.texts[text])
        for text, output in reference.texts.items()
    ]
