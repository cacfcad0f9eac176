"""Samples in evalplus' format: JSON lines of a task and a solution or completion."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.errors import DataError, brief
from ladder_eval.harness.code.extraction import program
from ladder_eval.harness.code.problems import Problems
from ladder_eval.plain_json import parse_json

__all__ = ["Sample", "read_samples"]


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer to a problem.

    Attributes:
        task_id: The problem.
        place: How many samples of the same problem stand before it.
        code: The program found in it.
    """

    task_id: str
    place: int
    code: str


def read_samples(path: Path, problems: Problems) -> list[Sample]:
    """The samples of a file, each as a program.

    Raises:
        DataError: If a line is no sample of one of these problems, or there is none.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"{path} can't be read ({brief(error)}); name a file of JSON lines."
        ) from error
    seen: Counter[str] = Counter()
    samples = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            samples.append(_sample(line, f"Line {number} of {path}", problems, seen))
    if not samples:
        raise DataError(f"{path} holds no samples; write one a line, with task_id and solution.")
    return samples


def _sample(line: str, where: str, problems: Problems, seen: Counter[str]) -> Sample:
    try:
        row = parse_json(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("task_id"), str):
        raise DataError(f"{where} is no JSON object with a task_id; correct it.")
    task_id = row["task_id"]
    problem = problems.by_id.get(task_id)
    if problem is None:
        raise DataError(
            f"{where} answers {brief(task_id)}, which {problems.dataset} doesn't have; "
            "take the line out, or name the other data set."
        )
    text, continues = _answer(row, where)
    seen[task_id] += 1
    return Sample(task_id, seen[task_id] - 1, program(text, problem, continues=continues))


def _answer(row: Mapping[str, Any], where: str) -> tuple[str, bool]:
    """The text, and whether it may continue the prompt; a solution goes first, as in evalplus."""
    for name, continues in (("solution", False), ("completion", True)):
        if name in row:
            if not isinstance(row[name], str):
                raise DataError(f"{where} has a {name} that is no string; repeat the task_id.")
            return row[name], continues
    raise DataError(f"{where} has neither solution nor completion; give it one of them.")
