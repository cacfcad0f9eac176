"""Timing logs of others as rows: a CSV with one configuration a line."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.errors import DataError, brief
from ladder_eval.models.choice import with_residual
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.registry import MODELS
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.predict import Setting
from ladder_eval.speed.roofline import EXECUTIONS

COLUMNS = ("residual", "model", "tp_size", "batch_size", "p2p", "mode", "prefill_s", "decode_s")

# What the Ladder-Residual authors' logs call the models and residuals that have a name here.
_MODELS = {"llama-3-8b": "standard_8b", "llama-3-70b": "standard_70b"}
_RESIDUALS = {
    "dense": "standard",
    "desync2x": "desync-2x",
    "desync4x": "desync-4x",
    "no_comm": "no-comm",
}
_LINKS = {"on": "p2p", "off": "host"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRow:
    """One timed configuration.

    Attributes:
        model: What the file calls the model.
        residual: Its residual, as it is called here.
        config: Its shape with this residual.
        setting: How it was timed.
        prefill: Seconds of the prompt.
        decode: Seconds of the tokens after the first.
    """

    model: str
    residual: str
    config: ModelConfig
    setting: Setting
    prefill: float
    decode: float

    @property
    def seconds(self) -> float:
        """Of the whole generation."""
        return self.prefill + self.decode


def read_logs(path: Path, prompt_len: int, output_len: int) -> list[LogRow]:
    """The rows of a file with the columns of COLUMNS, others being left alone.

    `p2p` is on or off, `mode` a name of `roofline.EXECUTIONS`.

    Raises:
        DataError: if the file can't be read, lacks a column, or has a value that makes no sense.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                raise DataError(f"{path} has no column {', '.join(lacking)}.")
            return [
                _row(values, f"{path}, line {number}", prompt_len, output_len)
                for number, values in enumerate(reader, start=2)
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} can't be read: {brief(error)}.") from None


def _row(values: Mapping[str, Any], place: str, prompt_len: int, output_len: int) -> LogRow:
    model, residual = values["model"], _RESIDUALS.get(values["residual"], values["residual"])
    name = _MODELS.get(model, model)
    if name not in MODELS:
        raise DataError(f"{place}: model {brief(repr(model))} isn't one of `ladder-eval models`.")
    if values["p2p"] not in _LINKS:
        raise DataError(f"{place}: p2p is on or off, not {brief(repr(values['p2p']))}.")
    if values["mode"] not in EXECUTIONS:
        raise DataError(
            f"{place}: mode {brief(repr(values['mode']))} is none of {', '.join(EXECUTIONS)}."
        )
    workload = Workload(
        batch_size=_positive(int, values, "batch_size", place),
        prompt_len=prompt_len,
        output_len=output_len,
    )
    return LogRow(
        model=model,
        residual=residual,
        config=with_residual(MODELS[name].config, residual),
        setting=Setting(
            workload=workload,
            tp_size=_positive(int, values, "tp_size", place),
            link=_LINKS[values["p2p"]],
            execution=values["mode"],
        ),
        prefill=_positive(float, values, "prefill_s", place),
        decode=_positive(float, values, "decode_s", place),
    )


def _positive(kind: Callable[[str], Any], values: Mapping[str, Any], name: str, place: str) -> Any:
    try:
        number = kind(values[name])
    except (TypeError, ValueError):
        number = 0
    if not 0 < number < float("inf"):
        raise DataError(f"{place}: {name} is a positive number, not {brief(repr(values[name]))}.")
    return number


def speedups(rows: Sequence[LogRow], seconds: Iterable[float]) -> dict[int, float]:
    """By index of a row with another residual, standard's seconds in the same setting by its own.

    Rows on one rank and those without a standard row beside them are left out.
    """
    taken = list(seconds)
    base = {
        (row.model, row.setting): own
        for row, own in zip(rows, taken, strict=True)
        if row.residual == "standard"
    }
    return {
        index: base[row.model, row.setting] / own
        for index, (row, own) in enumerate(zip(rows, taken, strict=True))
        if row.residual != "standard"
        and row.setting.tp_size > 1
        and (row.model, row.setting) in base
    }
