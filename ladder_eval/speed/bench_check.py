"""Predictions beside what `bench` measured over its virtual link."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.selection import peek
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import Estimate, SpeedRecord, SpeedRow
from ladder_eval.speed.constants import Calibrated
from ladder_eval.speed.fitting import with_layers
from ladder_eval.speed.measured_machine import virtual_link
from ladder_eval.speed.predict import Prediction, Setting, predict

_VIRTUAL = "virtual link"
_BASELINE, _CONTROL = "baseline", "control"


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """One arm, measured and predicted.

    Attributes:
        record: What was measured, and under which conditions.
        row: The arm.
        prediction: What the model says of it.
        speedup: Predicted speed-up over the baseline, whole generation.
    """

    record: SpeedRecord
    row: SpeedRow
    prediction: Prediction
    speedup: float


def check(result: RunResult, machine: Calibrated, model: str | None = None) -> Iterator[Checked]:
    """Every arm of every timing over a serial virtual link, the A/A control left out.

    Args:
        result: What `bench` measured.
        machine: Where.
        model: The shape, as `bench` was given it; by default the name that the result has.

    Raises:
        UsageError: if the run has no such timing, or its model has no shape that can be found.
    """
    records = [
        each for each in result.speed if each.link.name == _VIRTUAL and each.link.mode == "serial"
    ]
    if not records:
        raise UsageError(f"{result.run_id} has no timing over a serial virtual link.")
    for record in records:
        yield from _checked(record, machine, model or record.model)


def _checked(record: SpeedRecord, machine: Calibrated, model: str) -> Iterator[Checked]:
    wired, setting = _wired(record, machine), _setting(record)
    dense = _timed_shape(record, model)
    made = {
        row.arm: predict(_with_row(dense, row), [setting], wired)[0]
        for row in record.rows
        if row.role != _CONTROL
    }
    base = next(made[row.arm] for row in record.rows if row.role == _BASELINE)
    for row in record.rows:
        if row.role != _CONTROL:
            own = made[row.arm]
            yield Checked(
                record=record, row=row, prediction=own, speedup=base.seconds / own.seconds
            )


def _wired(record: SpeedRecord, machine: Calibrated) -> Calibrated:
    """The machine with the record's link in place of its own."""
    link = virtual_link(record.link.bandwidth or float("inf"))
    made = machine.calibration
    constants = replace(
        made.constants, p2p_hop=record.link.latency or 0.0, p2p_efficiency=1.0, contention=0.0
    )
    return replace(
        machine,
        machine=replace(machine.machine, links={"p2p": link}),
        calibration=replace(made, constants=constants),
    )


def _setting(record: SpeedRecord) -> Setting:
    return Setting(
        workload=record.workload,
        tp_size=record.tp_size,
        all_reduce="message",
        execution="eager",
        dtype=record.dtype,
    )


def _timed_shape(record: SpeedRecord, model: str) -> ModelConfig:
    whole = peek(model)
    if whole is None:
        raise UsageError(f"{model} has no config.json; give a folder with one, or a name.")
    return replace(
        with_layers(whole.as_standard(), record.num_hidden_layers), vocab_size=record.vocab_size
    )


def _with_row(dense: ModelConfig, row: SpeedRow) -> ModelConfig:
    if row.ladder_layers:
        return dense.with_ladder(row.ladder_layers)
    return replace(dense, topology=row.residual)


CHECK_HEADINGS = (
    "tp_size",
    "batch",
    "latency µs",
    "arm",
    "measured speed-up",
    "predicted speed-up",
    "off by",
    "measured tpot ms",
    "predicted tpot ms",
)


def check_rows(found: Iterator[Checked]) -> Iterator[tuple[object, ...]]:
    """A row an arm, in the columns of CHECK_HEADINGS."""
    for each in found:
        measured = each.row.total.speedup
        load, decode = each.record.workload, each.row.decode
        yield (
            each.record.tp_size,
            load.batch_size,
            f"{(each.record.link.latency or 0.0) * 1e6:.0f}",
            each.row.arm,
            "1" if measured is None else _interval(measured),
            f"{each.speedup:.3f}",
            "—" if measured is None else f"{each.speedup / measured.value - 1:+.1%}",
            "—" if decode is None else f"{decode.seconds.value * 1e3:.2f}",
            "—"
            if load.output_len == 1
            else f"{each.prediction.decode / (load.output_len - 1) * 1e3:.2f}",
        )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
