"""Constants of a machine from timing logs, and how far its predictions are from what was logged.

The fit is a least-squares one, of logarithms, with a soft bound on outliers (scipy's soft_l1):
whole generations, prefill at less weight, and speed-ups at more, since they are what is asked for.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from ladder_eval.errors import DataError
from ladder_eval.speed.hardware import CONSTANTS, Calibrated, Calibration, Constants
from ladder_eval.speed.predict import Prediction, predict
from ladder_eval.speed.timing_logs import LogRow, speedups

LARGEST_BATCH = 64
"""Rows with a larger batch are neither fitted nor judged."""

_PREFILL_WEIGHT = 0.3
_SPEEDUP_WEIGHT = 3.0
_OUTLIER = 0.05  # relative errors beyond this count less than their square
_START = Constants(
    memory_efficiency=0.85,
    matmul_efficiency=0.5,
    kernel_seconds=4e-6,
    p2p_hop=1e-6,
    host_hop=3e-6,
    p2p_efficiency=0.6,
    host_efficiency=0.25,
    contention=0.2,
)
# Shares can't exceed 1, and something has to be left of computing beside an all-reduce.
_SHARES = {"memory_efficiency", "matmul_efficiency", "p2p_efficiency", "host_efficiency"}
_MOST_CONTENTION = 0.95
_MOST_SECONDS = 1e-3


def predictions(rows: Sequence[LogRow], machine: Calibrated) -> list[Prediction]:
    """What the model says of each row."""
    found: dict[int, Prediction] = {}
    for config in {row.config for row in rows}:
        own = [index for index, row in enumerate(rows) if row.config == config]
        made = predict(config, [rows[index].setting for index in own], machine)
        found.update(zip(own, made, strict=True))
    return [found[index] for index in range(len(rows))]


def fit(rows: Sequence[LogRow], machine: Calibrated, source: str, command: str) -> Calibrated:
    """The machine with constants fitted to all rows up to LARGEST_BATCH.

    Args:
        rows: The logs.
        machine: Its description; its constants are not used.
        source: What the logs are, for the record.
        command: What fits them, for the record.

    Raises:
        DataError: if there are fewer rows than constants.
    """
    used = judged(rows)
    if len(used) <= len(CONSTANTS):
        raise DataError(
            f"{len(CONSTANTS)} constants can't be fitted to {len(used)} rows with batch sizes up "
            f"to {LARGEST_BATCH}; give more."
        )
    calibration = Calibration(
        machine=machine.machine.name, source=source, command=command, constants=_START
    )
    start = Calibrated(machine=machine.machine, calibration=calibration)
    found = least_squares(
        lambda logs: _deviations(used, _with(start, logs)),
        np.log(list(asdict(_START).values())),
        bounds=(-np.inf, np.log([_largest(name) for name in CONSTANTS])),
        loss="soft_l1",
        f_scale=_OUTLIER,
        diff_step=1e-3,
        xtol=1e-5,
    )
    return _with(start, found.x)


def judged(rows: Sequence[LogRow]) -> list[LogRow]:
    """The rows up to LARGEST_BATCH."""
    return [row for row in rows if row.setting.workload.batch_size <= LARGEST_BATCH]


def _largest(name: str) -> float:
    if name in _SHARES:
        return 1.0
    return _MOST_CONTENTION if name == "contention" else _MOST_SECONDS


def _with(machine: Calibrated, logs: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Calibrated:
    values = dict(zip(CONSTANTS, np.exp(logs).tolist(), strict=True))
    return replace(
        machine, calibration=replace(machine.calibration, constants=Constants(**values))
    )


def _deviations(rows: Sequence[LogRow], machine: Calibrated) -> list[float]:
    """Logarithms of predicted by logged: totals, prefills, speed-ups; each with its weight."""
    made = predictions(rows, machine)
    logged = speedups(rows, (row.seconds for row in rows))
    predicted = speedups(rows, (each.seconds for each in made))
    return [
        *(math.log(own.seconds / row.seconds) for row, own in zip(rows, made, strict=True)),
        *(
            _PREFILL_WEIGHT * math.log(own.prefill / row.prefill)
            for row, own in zip(rows, made, strict=True)
        ),
        *(_SPEEDUP_WEIGHT * math.log(predicted[index] / logged[index]) for index in logged),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Sizes of relative errors.

    Attributes:
        count: How many there are.
        median: Their median.
        ninth: Their 90th percentile.
        largest: The largest.
    """

    count: int
    median: float
    ninth: float
    largest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Fitted on some models' rows, judged on others'.

    Speed-ups are of rows on several ranks over standard in the same setting (model, tp_size,
    batch size, link, mode); an error is |predicted / logged - 1|. The medians are a predictor
    without physics: the median speed-up of the fitted rows of the same residual, tp_size and link.

    Attributes:
        fitted: Models whose rows were fitted.
        tested: The others.
        constants: What was fitted.
        speedup: Errors of the model's speed-ups.
        medians: Errors of the medians, on the same rows.
        tokens_per_s: Errors of the model's tokens/s, of rows on several ranks.
    """

    fitted: tuple[str, ...]
    tested: tuple[str, ...]
    constants: Constants
    speedup: Errors
    medians: Errors
    tokens_per_s: Errors


def splits(rows: Sequence[LogRow], machine: Calibrated) -> Iterator[Split]:
    """For each model of the logs: fitted on its rows alone, judged on all others'."""
    models = list(dict.fromkeys(row.model for row in rows))
    for model in models if len(models) > 1 else ():
        own = [row for row in judged(rows) if row.model == model]
        others = [row for row in judged(rows) if row.model != model]
        fitted = fit(own, machine, source="", command="")
        speedup, medians = _speedup_errors(own, others, fitted)
        yield Split(
            fitted=(model,),
            tested=tuple(other for other in models if other != model),
            constants=fitted.constants,
            speedup=speedup,
            medians=medians,
            tokens_per_s=_token_errors(others, fitted),
        )


def _speedup_errors(
    own: Sequence[LogRow], others: Sequence[LogRow], machine: Calibrated
) -> tuple[Errors, Errors]:
    table = medians(own)
    logged = speedups(others, (row.seconds for row in others))
    made = speedups(others, (each.seconds for each in predictions(others, machine)))
    # Both are judged where both have an answer.
    common = [index for index in logged if _group(others[index]) in table]
    return (
        _errors([made[index] / logged[index] - 1 for index in common]),
        _errors([table[_group(others[index])] / logged[index] - 1 for index in common]),
    )


def _token_errors(rows: Sequence[LogRow], machine: Calibrated) -> Errors:
    several = [row for row in rows if row.setting.tp_size > 1]
    made = predictions(several, machine)
    # Tokens a second are inverse to seconds.
    pairs = zip(several, made, strict=True)
    return _errors([row.seconds / own.seconds - 1 for row, own in pairs])


def medians(rows: Sequence[LogRow]) -> Mapping[tuple[str, int, str], float]:
    """The median logged speed-up by residual, tp_size and link."""
    groups: dict[tuple[str, int, str], list[float]] = {}
    for index, value in speedups(rows, (row.seconds for row in rows)).items():
        groups.setdefault(_group(rows[index]), []).append(value)
    return {group: statistics.median(values) for group, values in groups.items()}


def _group(row: LogRow) -> tuple[str, int, str]:
    return row.residual, row.setting.tp_size, row.setting.link


def _errors(values: Sequence[float]) -> Errors:
    sizes = np.abs(values)
    return Errors(
        count=len(sizes),
        median=float(np.median(sizes)),
        ninth=float(np.quantile(sizes, 0.9)),
        largest=float(sizes.max()),
    )


SPLIT_HEADINGS = (
    "fitted on",
    "tested on",
    "predictor",
    "of",
    "rows",
    "median %",
    "90th percentile %",
    "largest %",
)


def split_rows(found: Sequence[Split]) -> Iterator[tuple[object, ...]]:
    """Three rows a split, in the columns of SPLIT_HEADINGS."""
    for each in found:
        for predictor, what, errors in (
            ("model", "speed-up", each.speedup),
            ("medians", "speed-up", each.medians),
            ("model", "tokens/s", each.tokens_per_s),
        ):
            sizes = (errors.median, errors.ninth, errors.largest)
            yield (
                ", ".join(each.fitted),
                ", ".join(each.tested),
                predictor,
                what,
                errors.count,
                *(f"{size:.1%}".removesuffix("%") for size in sizes),
            )


CONSTANT_HEADINGS = ("constant", "all rows")


def constant_rows(constants: Constants, found: Sequence[Split]) -> Iterator[tuple[str, ...]]:
    """A row a constant: fitted to all rows, and to each split's, in SI units."""
    every = [asdict(constants), *(asdict(split.constants) for split in found)]
    for name in CONSTANTS:
        yield (name, *(f"{values[name]:.3g}" for values in every))
