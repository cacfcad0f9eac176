"""Problems and tests, from the release files of HumanEval+ and MBPP+."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from evalplus.data.humaneval import HUMANEVAL_PLUS_VERSION
from evalplus.data.mbpp import MBPP_PLUS_VERSION, mbpp_deserialize_inputs
from evalplus.data.utils import CACHE_DIR, get_dataset_metadata
from evalplus.eval import MBPP_OUTPUT_NOT_NONE_TASKS

from ladder_eval.errors import DataError, UsageError

__all__ = ["DATASETS", "DatasetName", "Level", "Problem", "Problems", "read_problems"]

DatasetName = Literal["humaneval", "mbpp"]
Level = Literal["base", "plus"]

DATASETS: Final[Mapping[str, tuple[str, str]]] = {
    "humaneval": ("HumanEvalPlus", HUMANEVAL_PLUS_VERSION),
    "mbpp": ("MbppPlus", MBPP_PLUS_VERSION),
}
"""Name of the release file, and the version that the installed evalplus takes."""


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


def read_problems(dataset: str, data: Path | None) -> Problems:
    """Read a release file: the one given, one in the folder given, or evalplus' own copy.

    Raises:
        UsageError: If there's no such data set.
        DataError: If the file is absent, damaged, or something else.
    """
    if dataset not in DATASETS:
        raise UsageError(f"There's no data set {dataset!r}; take {' or '.join(DATASETS)}.")
    place = _find(dataset, data)
    content = _content(place)
    name: DatasetName = "mbpp" if dataset == "mbpp" else "humaneval"
    try:
        rows = [json.loads(line) for line in io.BytesIO(content) if line.strip()]
        by_id = {row["task_id"]: _problem(name, row) for row in rows}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{place} isn't evalplus' {DATASETS[dataset][0]} ({type(error).__name__}: {error}); "
            f"get it again from {_url(dataset)}."
        ) from error
    if not by_id:
        raise DataError(f"{place} is empty; get it again from {_url(dataset)}.")
    return Problems(name, hashlib.sha256(content).hexdigest(), by_id)


def _find(dataset: str, data: Path | None) -> Path:
    if data is not None and data.is_file():
        return data
    title, version = DATASETS[dataset]
    if data is None:
        places: Iterable[Path] = [Path(CACHE_DIR) / f"{title}-{version}.jsonl"]
    else:
        names = [f"{title}{part}.jsonl{end}" for part in ("", f"-{version}") for end in ("", ".gz")]
        folders = (data, data / "evalplus", data / "evalplus_native")
        places = [folder / name for folder in folders for name in names]
    for place in places:
        if place.is_file():
            return place
    where = f"{data} has no" if data else "evalplus' cache has no"
    raise DataError(
        f"{where} {title}.jsonl.gz; get it from {_url(dataset)}, and name it with --data."
    )


def _url(dataset: str) -> str:
    title, version = DATASETS[dataset]
    return str(get_dataset_metadata(title, version, False)[0])


def _content(place: Path) -> bytes:
    try:
        content = place.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{place} can't be read ({error}); get it again.") from error


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
