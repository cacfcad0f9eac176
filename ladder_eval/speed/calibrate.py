"""Constants of a machine from timing logs.

The fit is a least-squares one, of logarithms, with a soft bound on outliers (scipy's soft_l1):
whole generations, prefill at less weight, and speed-ups at more, since they are what is asked for.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
from scipy.optimize import least_squares

from ladder_eval.errors import DataError
from ladder_eval.speed.constants import CONSTANTS, Calibrated, Calibration, Constants
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


def _with(
    machine: Calibrated, logs: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
) -> Calibrated:
    values = dict(zip(CONSTANTS, np.exp(logs).tolist(), strict=True))
    return replace(machine, calibration=replace(machine.calibration, constants=Constants(**values)))


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
