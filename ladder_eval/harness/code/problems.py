"""Problems and tests, from the release files of HumanEval+ and MBPP+."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evalplus.data.mbpp import mbpp_deserialize_inputs
from evalplus.eval import MBPP_OUTPUT_NOT_NONE_TASKS

from ladder_eval.errors import DataError, UsageError, brief
from ladder_eval.harness.data.releases import RELEASES, Release, read_release

__all__ = ["DatasetName", "Level", "Problem", "Problems", "read_problems", "release_of"]

DatasetName = Literal["humaneval", "mbpp"]
Level = Literal["base", "plus"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A function to be written, and its tests.

    Attributes:
        task_id: Such as HumanEval/32.
        dataset: Which rules of comparison hold.
        prompt: What a model continues; code.
        entry_point: The function's name.
        canonical_solution: What continues the prompt correctly.
        inputs: Arguments of the base tests and of those that evalplus adds.
        atol: Absolute tolerance.
    """

    task_id: str
    dataset: DatasetName
    prompt: str
    entry_point: str
    canonical_solution: str
    inputs: Mapping[Level, Sequence[Sequence[Any]]]
    atol: float

    @property
    def canonical(self) -> str:
        """The program whose results are the expected ones."""
        return self.prompt + self.canonical_solution

    @property
    def only_none_counts(self) -> bool:
        """Whether a result is only held against None (Mbpp's, of match objects)."""
        return self.dataset == "mbpp" and self.entry_point in MBPP_OUTPUT_NOT_NONE_TASKS


@dataclass(frozen=True, slots=True)
class Problems:
    """All problems of a release file, in its order.

    Attributes:
        dataset: humaneval or mbpp.
        sha256: Hash of the unpacked file.
        by_id: The problems.
    """

    dataset: DatasetName
    sha256: str
    by_id: Mapping[str, Problem]


def release_of(dataset: str) -> Release:
    """The release of a data set that is called as evalplus calls it.

    Raises:
        UsageError: If there's no such data set.
    """
    if dataset not in RELEASES:
        raise UsageError(f"There's no data set {dataset!r}; take {' or '.join(RELEASES)}.")
    return RELEASES[dataset]


def read_problems(dataset: str, path: Path) -> Problems:
    """Read a release file.

    Raises:
        UsageError: If there's no such data set.
        DataError: If the file is damaged, or something else.
    """
    release = release_of(dataset)
    content = read_release(path)
    name: DatasetName = "mbpp" if dataset == "mbpp" else "humaneval"
    try:
        rows = [json.loads(line) for line in io.BytesIO(content) if line.strip()]
        by_id = {row["task_id"]: _problem(name, row) for row in rows}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} isn't evalplus' {release.title} ({type(error).__name__}: {brief(error)}); "
            f"get it again from {release.url}."
        ) from error
    if not by_id:
        raise DataError(f"{path} is empty; get it again from {release.url}.")
    return Problems(name, hashlib.sha256(content).hexdigest(), by_id)


def _problem(dataset: DatasetName, row: Mapping[str, Any]) -> Problem:
    base, plus = row["base_input"], row["plus_input"]
    if dataset == "mbpp":  # JSON has no tuples, sets and complex numbers
        base, plus = (mbpp_deserialize_inputs(row["task_id"], inputs) for inputs in (base, plus))
    return Problem(
        task_id=str(row["task_id"]),
        dataset=dataset,
        prompt=str(row["prompt"]),
        entry_point=str(row["entry_point"]),
        canonical_solution=str(row["canonical_solution"]),
        inputs={"base": list(base), "plus": list(plus)},
        atol=float(row["atol"]),
    )
