"""What predictions are asked: speed-ups in each setting, and where a residual pays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from ladder_eval.models.config import ModelConfig
from ladder_eval.speed.constants import Calibrated
from ladder_eval.speed.grid import BOUND, STANDARD, Grid
from ladder_eval.speed.predict import Prediction, Setting, fits, predict

_LARGEST_BATCH = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One residual in one setting.

    Attributes:
        residual: Its name; `ladder-N` are the last N layers.
        setting: The conditions.
        prediction: Its times.
        speedup: Standard's seconds of the whole generation by its own.
        fits: Whether weights and cache fit into memory.
    """

    residual: str
    setting: Setting
    prediction: Prediction
    speedup: float
    fits: bool


def answers(dense: ModelConfig, asked: Grid, machine: Calibrated) -> list[Answer]:
    """Setting after setting, standard first and the bound last.

    Raises:
        UsageError: if the model can't be divided, or the machine lacks what is asked for.
    """
    asked.require_nodes(machine.machine)
    arms, settings = asked.arms(dense), list(asked.settings())
    made = {name: predict(config, settings, machine) for name, config in arms.items()}
    return [
        Answer(
            residual=name,
            setting=setting,
            prediction=made[name][index],
            speedup=made[STANDARD][index].seconds / made[name][index].seconds,
            fits=fits(dense, setting, machine),
        )
        for index, setting in enumerate(settings)
        for name in arms
    ]


ANSWER_HEADINGS = (
    "tp_size",
    "batch",
    "prompt",
    "output",
    "link",
    "all-reduce",
    "residual",
    "prefill ms",
    "tpot ms",
    "tokens/s",
    "speed-up",
)


def answer_rows(found: Sequence[Answer]) -> Iterator[tuple[object, ...]]:
    """A row an answer, in the columns of ANSWER_HEADINGS."""
    for each in found:
        load, steps = each.setting.workload, each.setting.workload.output_len - 1
        tokens = load.batch_size * load.output_len / each.prediction.seconds
        yield (
            each.setting.tp_size,
            load.batch_size,
            load.prompt_len,
            load.output_len,
            each.setting.link,
            each.setting.all_reduce,
            each.residual,
            f"{each.prediction.prefill * 1e3:.1f}",
            f"{each.prediction.decode / steps * 1e3:.3f}" if steps else "—",
            f"{tokens:,.0f}",
            f"{each.speedup:.3f}" + ("" if each.fits else " (doesn't fit)"),
        )


def plain(found: Sequence[Answer], machine: Calibrated) -> list[dict[str, Any]]:
    """The answers as JSON values, each with its conditions."""
    return [
        {
            "kind": "predicted",
            "machine": machine.machine.name,
            "status": machine.status,
            "residual": each.residual,
            "setting": asdict(each.setting),
            "prefill_seconds": each.prediction.prefill,
            "decode_seconds": each.prediction.decode,
            "speedup": each.speedup,
            "fits": each.fits,
        }
        for each in found
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """Where a residual pays, over batch sizes 1, 2, 4, ... that fit into memory.

    Attributes:
        residual: Its name.
        setting: The conditions; their batch size is the largest that was tried.
        first: Its speed-up over standard at batch size 1.
        last: The same at the largest batch size.
        pays_at: First and last batch size of each run at which the speed-up is what was asked.
        leads_at: The same of runs at which it is as fast as parallel.
        removed: Share of what no-comm would save that it saves, at batch size 1.
    """

    residual: str
    setting: Setting
    first: float
    last: float
    pays_at: tuple[tuple[int, int], ...]
    leads_at: tuple[tuple[int, int], ...]
    removed: float


def crossovers(
    dense: ModelConfig, asked: Grid, machine: Calibrated, least: float
) -> Iterator[Crossover]:
    """For each tp_size, link, all-reduce and length: where each residual pays.

    Args:
        dense: The model.
        asked: The conditions; its batch sizes aren't used.
        machine: Where.
        least: The speed-up from which a residual is said to pay.
    """
    asked.require_nodes(machine.machine)
    single = replace(asked, batch_size=(1,))
    arms = single.arms(dense) | replace(single, residual=("parallel",)).arms(dense)
    for setting in single.settings():
        tried = _batches(dense, setting, machine)
        made = {name: predict(config, tried, machine) for name, config in arms.items()}
        for name in asked.residual if tried else ():
            yield _crossover(name, tried, made, least)


def _batches(dense: ModelConfig, setting: Setting, machine: Calibrated) -> list[Setting]:
    sizes = [2**power for power in range(_LARGEST_BATCH.bit_length())]
    every = [
        replace(setting, workload=replace(setting.workload, batch_size=size)) for size in sizes
    ]
    return [each for each in every if fits(dense, each, machine)]


def _crossover(
    name: str,
    tried: Sequence[Setting],
    made: Mapping[str, Sequence[Prediction]],
    least: float,
) -> Crossover:
    own, base, bound = made[name], made[STANDARD], made[BOUND]
    over = [b.seconds / o.seconds for b, o in zip(base, own, strict=True)]
    lead = [p.seconds / o.seconds for p, o in zip(made["parallel"], own, strict=True)]
    saved, most = base[0].seconds - own[0].seconds, base[0].seconds - bound[0].seconds
    return Crossover(
        residual=name,
        setting=tried[-1],
        first=over[0],
        last=over[-1],
        pays_at=_runs(tried, [value >= least for value in over]),
        leads_at=_runs(tried, [value >= 1 for value in lead]),
        removed=saved / most if most > 0 else 0.0,
    )


def _runs(tried: Sequence[Setting], holds: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    """First and last batch size of each run of settings at which something holds."""
    sizes = [each.workload.batch_size for each in tried]
    runs = groupby(zip(sizes, holds, strict=True), key=itemgetter(1))
    found = [[size for size, _ in run] for holding, run in runs if holding]
    return tuple((run[0], run[-1]) for run in found)


CROSSOVER_HEADINGS = (
    "tp_size",
    "prompt",
    "output",
    "link",
    "all-reduce",
    "residual",
    "speed-up at 1",
    "hidden or saved",
    "largest batch",
    "speed-up there",
    "pays at batch",
    "ahead of parallel at",
)


def crossover_rows(found: Sequence[Crossover]) -> Iterator[tuple[object, ...]]:
    """A row a crossover, in the columns of CROSSOVER_HEADINGS."""
    for each in found:
        load = each.setting.workload
        yield (
            each.setting.tp_size,
            load.prompt_len,
            load.output_len,
            each.setting.link,
            each.setting.all_reduce,
            each.residual,
            f"{each.first:.3f}",
            f"{each.removed:.0%}",
            load.batch_size,
            f"{each.last:.3f}",
            _in_words(each.pays_at),
            _in_words(each.leads_at),
        )


def _in_words(runs: Sequence[tuple[int, int]]) -> str:
    words = (str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return ", ".join(words) or "never"
