"""What `bench throughput` is asked to do. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.errors import UsageError, flag
from ladder_eval.options import DTYPES, FEWSHOT

_ONE_OR_MORE = ("parts", "limit", "rounds", "batch_size", "hf_documents")
_FOLDERS = ("model_dir", "data_dir")


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputOptions:
    """The options of `bench throughput`; the names are those of the command line.

    Attributes:
        model: A dense model: a named one, a checkpoint folder, a GGUF file or a Hub id.
        tasks: Tasks, each timed by itself.
        suite: The suite that they are asked as in; by default as their own files have them.
        parts: Keep so many of a task's parts, such as MMLU's subjects, in alphabetical order.
        limit: Documents a task, drawn by the seed; of each part the first, with `stock` examples.
        seed: Seed of the choice of documents and examples.
        fewshot: Draw examples for each document by itself, or as lm-eval does.
        rounds: Rounds of each task.
        batch_size: Of this package's engine, as `run` takes it.
        hf_batch_size: Batch sizes of `hf` that are tried; the fastest is timed.
        hf_documents: Documents that they are tried on, spread over the task's.
        dtype: By default bfloat16 on CUDA, float32 elsewhere.
        device: By default cuda where there is one, else cpu.
        model_dir: A folder with the weights of named models.
        data_dir: A folder with benchmark data.
        prefer_hub: Ask the Hugging Face Hub before the package index.
        output_dir: Where run folders are made.

    Raises:
        UsageError: if a value makes no sense.
    """

    model: str = "smollm2_135m"
    tasks: tuple[str, ...] = ("arc_easy",)
    suite: str | None = None
    parts: int | None = None
    limit: int | None = None
    seed: int = 0
    fewshot: str = FEWSHOT[0]
    rounds: int = 3
    batch_size: int = 32
    hf_batch_size: tuple[int, ...] = (1, 8, 32)
    hf_documents: int = 32
    dtype: str | None = None
    device: str | None = None
    model_dir: Path | None = None
    data_dir: Path | None = None
    prefer_hub: bool = False
    output_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        for name in _ONE_OR_MORE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{flag(name)} {value} must be 1 or more.")
        if min(self.hf_batch_size) < 1:
            raise UsageError("--hf-batch-size takes whole numbers from 1, such as 1,8,32.")
        if self.fewshot not in FEWSHOT:
            raise UsageError(f"--fewshot must be {' or '.join(FEWSHOT)}, not {self.fewshot!r}.")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"Unknown dtype {self.dtype!r}; known are {', '.join(DTYPES)}.")
        for name in _FOLDERS:
            folder = getattr(self, name)
            if folder is not None and not folder.exists():
                raise UsageError(f"{folder} doesn't exist; correct {flag(name)}.")


def throughput_options(given: Mapping[str, Any]) -> ThroughputOptions:
    """Options from the command line, where lists are texts such as `1,8`.

    Raises:
        UsageError: if a value makes no sense.
    """
    values = {name: value for name, value in given.items() if value is not None}
    if "tasks" in values:
        values["tasks"] = _parts("tasks", values["tasks"])
    if "hf_batch_size" in values:
        sizes = _parts("hf_batch_size", values["hf_batch_size"])
        if not all(part.isdecimal() for part in sizes):
            raise UsageError(
                f"--hf-batch-size takes whole numbers with commas, not {values['hf_batch_size']!r}."
            )
        values["hf_batch_size"] = tuple(map(int, sizes))
    return ThroughputOptions(**values)


def _parts(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in found:
        raise UsageError(f"{flag(name)} takes a list with commas, not {text!r}.")
    return found
