"""What a run is asked to do, from the command line and a configuration file. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ladder_eval.errors import UsageError, brief, flag
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config_values import shown
from ladder_eval.models.hub_id import Place, find_place
from ladder_eval.models.registry import DEFAULT_MODEL

DTYPES = ("float32", "bfloat16", "float16")
FEWSHOT = ("per-document", "stock")

# Options that name what has to be there.
_EXISTING = (
    *("checkpoint", "baseline_checkpoint", "baseline_run"),
    *("models_file", "model_dir", "data_dir"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """The options of a run; the names are those of the command line.

    Attributes:
        model: The candidates: named models, checkpoint folders, GGUF files or Hub ids.
        baseline: The dense model beside them; by default the one that they name.
        no_baseline: Evaluate the candidates alone.
        checkpoint: The only candidate's checkpoint: a folder, GGUF file or Hub id.
        baseline_checkpoint: The baseline's checkpoint.
        baseline_run: A finished run whose answers of the baseline are used again.
        models_file: A YAML file of names and checkpoints.
        residual: The residual to run dense checkpoints with.
        suite: The suite to run, unless tasks are given; by default `quick`.
        tasks: Tasks to run instead of a suite.
        limit: Documents a task; by default what the suite says, or all.
        seed: Seed of the choice of documents and of their examples.
        fewshot: Draw examples for each document by itself, or as lm-eval does.
        apply_chat_template: Ask in the form of the tokenizer's chat template; by default what the
            suite says, or not.
        fewshot_as_multiturn: With it, give solved examples as earlier turns; the same default.
        system_instruction: A text that stands before every prompt.
        think_end_token: What closes a reasoning model's thoughts, which are no part of its answer.
        execute_code: Agree that programs which the models write run on this machine.
        unsafe_execution: Run them without a sandbox.
        judge_url: The judge's server, for tasks that need one; without it they wait for `judge`.
        judge_model: The judge's name there.
        batch_size: Most texts in one forward.
        dtype: By default bfloat16 on CUDA, float32 elsewhere.
        device: By default cuda where there is one, else cpu.
        tp: tp_size; by default 1, or as many as torchrun started for each group.
        dp: dp_size: tensor-parallel groups that answer requests at the same time; by default 1.
        no_tp_check: Don't repeat some requests at tp_size 1.
        no_speed: Don't time the models.
        prompt_len: Tokens of the prompt that is timed.
        output_len: Tokens that are generated after it.
        model_dir: A folder with the weights of named models.
        data_dir: A folder with benchmark data.
        prefer_hub: Ask the Hugging Face Hub before the package index.
        output_dir: Where run folders are made.
        resume: A run's folder, in which it goes on; by default the one named after what is asked.

    Raises:
        UsageError: if a value makes no sense, alone or beside another.
    """

    model: tuple[str, ...] = (DEFAULT_MODEL,)
    baseline: str | None = None
    no_baseline: bool = False
    checkpoint: Place | None = None
    baseline_checkpoint: Place | None = None
    baseline_run: Path | None = None
    models_file: Path | None = None
    residual: ResidualChoice = field(default_factory=ResidualChoice)
    suite: str | None = None
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 0
    fewshot: str = FEWSHOT[0]
    apply_chat_template: bool | None = None
    fewshot_as_multiturn: bool | None = None
    system_instruction: str | None = None
    think_end_token: str | None = None
    execute_code: bool = False
    unsafe_execution: bool = False
    judge_url: str | None = None
    judge_model: str | None = None
    batch_size: int = 32
    dtype: str | None = None
    device: str | None = None
    tp: int | None = None
    dp: int | None = None
    no_tp_check: bool = False
    no_speed: bool = False
    prompt_len: int = 128
    output_len: int = 16
    model_dir: Path | None = None
    data_dir: Path | None = None
    prefer_hub: bool = False
    output_dir: Path = Path("runs")
    resume: Path | None = None

    def __post_init__(self) -> None:
        if not self.model or len(set(self.model)) != len(self.model):
            raise UsageError("--model takes one or more different models.")
        for name in ("baseline", "baseline_checkpoint", "baseline_run"):
            if getattr(self, name) is not None and self.no_baseline:
                raise UsageError(f"{flag(name)} and --no-baseline exclude each other; drop one.")
        if self.checkpoint is not None and len(self.model) > 1:
            raise UsageError("--checkpoint is one model's; use --models-file for several.")
        if self.fewshot not in FEWSHOT:
            raise UsageError(
                f"--fewshot must be {' or '.join(FEWSHOT)}, not {shown(self.fewshot)}."
            )
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {shown(self.seed)} must be between 0 and {2**63 - 1}.")
        for name in ("limit", "batch_size", "tp", "dp", "prompt_len", "output_len"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{flag(name)} {shown(value)} must be 1 or more.")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"Unknown dtype {shown(self.dtype)}; known are {', '.join(DTYPES)}.")
        self._require_judge()
        self._require_places()

    def _require_judge(self) -> None:
        if (self.judge_url is None) != (self.judge_model is None):
            raise UsageError("--judge-url and --judge-model belong together; give both or neither.")

    def _require_places(self) -> None:
        for name in _EXISTING:
            place = getattr(self, name)
            if isinstance(place, Path) and not place.exists():
                raise UsageError(f"{place} doesn't exist; correct {flag(name)}.")


def run_options(given: Mapping[str, Any], file: Path | None) -> RunOptions:
    """Options from the command line, over those of a YAML file, over the defaults.

    Args:
        given: Values by option name; None or an empty list means that the option was not given.
        file: A YAML table of options, such as `model: [ladder_smollm2_135m]`.

    Raises:
        UsageError: if the file can't be read, or an option is unknown or has a wrong value.
    """
    flags = {name: value for name, value in given.items() if value not in (None, [], ())}
    values = _from_file(file) if file is not None else {}
    for source in (values, flags):
        if "suite" in source and "tasks" in source:
            raise UsageError("--suite and --tasks exclude each other; drop one.")
    if "suite" in flags or "tasks" in flags:
        values = {name: values[name] for name in values if name not in ("suite", "tasks")}
    values |= flags
    choice = ResidualChoice(
        residual=values.pop("residual", None),
        ladder_layers=parse_layers(values.pop("ladder_layers", None)),
    )
    converted: dict[str, Any] = {
        name: _CONVERT[name](name, value) for name, value in values.items()
    }
    return RunOptions(residual=choice, **converted)


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"The configuration {file} can't be read: {brief(error)}") from None
    if not isinstance(values, dict):
        raise UsageError(f"The configuration {file} is no table of options, such as `limit: 10`.")
    known = ("residual", "ladder_layers", *_CONVERT)
    if unknown := [_word(name) for name in values if name not in known]:
        raise UsageError(
            f"The configuration {file} has the unknown options {brief(', '.join(unknown))}; "
            f"known are {', '.join(known)}."
        )
    return {name: value for name, value in values.items() if value is not None}


def _word(name: object) -> str:
    return name if isinstance(name, str) else shown(name)


def parse_layers(value: object) -> int | tuple[int, ...] | None:
    """`10` is the last ten layers, `3,7` those two and `7,` that one; lists are lists.

    Raises:
        UsageError: if it is neither.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        parts = [part.strip() for part in value.removesuffix(",").split(",")]
        if parts and all(part.isdecimal() for part in parts):
            numbers = tuple(map(int, parts))
            return numbers if "," in value else numbers[0]
    elif isinstance(value, list) and all(type(part) is int for part in value):
        return tuple(value)
    raise UsageError(
        f"--ladder-layers {shown(value)} must be a number of last layers, or layers such as 3,7."
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "a text")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise _wrong(name, value, "a list of names")
    return tuple(_text(name, item.strip() if isinstance(item, str) else item) for item in items)


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name, value, "a whole number")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def _path(name: str, value: object) -> Path:
    try:
        path = Path(value if isinstance(value, Path) else _text(name, value)).expanduser()
        path.exists()
    except (RuntimeError, ValueError, OSError) as error:  # no such home, a null byte, too long
        raise _wrong(name, value, f"a usable path ({error})") from None
    return path


def _place(name: str, value: object) -> Place:
    path = _path(name, value)
    # What neither exists nor looks like a Hub id is refused beside the other paths.
    return find_place(str(value)) or path


def _wrong(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"{flag(name)} must be {wanted}, not {shown(value)}.")


_CONVERT = {
    "model": _texts,
    "baseline": _text,
    "no_baseline": _boolean,
    "checkpoint": _place,
    "baseline_checkpoint": _place,
    "baseline_run": _path,
    "models_file": _path,
    "suite": _text,
    "tasks": _texts,
    "limit": _number,
    "seed": _number,
    "fewshot": _text,
    "apply_chat_template": _boolean,
    "fewshot_as_multiturn": _boolean,
    "system_instruction": _text,
    "think_end_token": _text,
    "execute_code": _boolean,
    "unsafe_execution": _boolean,
    "judge_url": _text,
    "judge_model": _text,
    "batch_size": _number,
    "dtype": _text,
    "device": _text,
    "tp": _number,
    "dp": _number,
    "no_tp_check": _boolean,
    "no_speed": _boolean,
    "prompt_len": _number,
    "output_len": _number,
    "model_dir": _path,
    "data_dir": _path,
    "prefer_hub": _boolean,
    "output_dir": _path,
}
