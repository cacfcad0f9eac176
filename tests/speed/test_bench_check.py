"""A machine that was measured, and predictions beside a bench whose times are known."""

import types
from dataclasses import replace

import pytest
import torch

from ladder_eval.errors import UsageError
from ladder_eval.models.choice import with_residual
from ladder_eval.models.registry import MODELS
from ladder_eval.results.speed_records import (
    Estimate,
    LinkRecord,
    PhaseRecord,
    SpeedRecord,
    SpeedRow,
    Workload,
)
from ladder_eval.speed.bench_check import check, check_rows
from ladder_eval.speed.constants import Calibrated
from ladder_eval.speed.measured_machine import Reached, description, measured_machine, reached
from ladder_eval.speed.predict import Setting, predict

REACHED = [
    Reached(flops=4e10, bandwidth=8e9, kernel=2e-6),
    Reached(flops=3e10, bandwidth=9e9, kernel=3e-6),
]


def test_a_machine_is_its_slowest_rank():
    machine, calibration = description(REACHED, ranks=2, threads=1, dtype="float32")
    assert (machine.flops, machine.memory_bandwidth) == ({"float32": 3e10}, 8e9)
    assert calibration.constants.kernel_seconds == 3e-6
    assert calibration.constants.contention == 0
    assert calibration.machine == machine.name


def test_what_this_process_reaches_is_plausible():
    found = reached(torch.float32, seconds=0.01)
    assert 1e7 < found.flops < 1e14
    assert 1e7 < found.bandwidth < 1e13
    assert 1e-8 < found.kernel < 1e-2


@pytest.mark.parametrize("wrong", [(0, 1, "float32"), (1, 0, "float32"), (1, 1, "int8")])
def test_what_can_not_be_measured_is_one_sentence(wrong):
    with pytest.raises(UsageError, match=r"whole numbers from 1|Unknown dtype"):
        measured_machine(*wrong)


def estimate(value):
    return Estimate(value=value, low=value / 2, high=value * 2, confidence=0.95, rounds=9)


def row(arm, role, speedup, residual=None, ladder_layers=()):
    phase = PhaseRecord(
        seconds=estimate(0.01),
        speedup=None if role == "baseline" else estimate(speedup),
        comm=None,
        bound=None,
        efficiency=None,
    )
    return SpeedRow(
        arm=arm,
        role=role,
        residual=residual or arm,
        ladder_layers=ladder_layers,
        comm_name="hidden_comm",
        prefill=phase,
        decode=phase,
        total=phase,
        itl=None,
        tokens_per_s=estimate(1.0),
    )


RECORD = SpeedRecord(
    model="smollm2_135m",
    weights="random",
    workload=Workload(batch_size=2, prompt_len=32, output_len=8),
    tp_size=2,
    link=LinkRecord(
        name="virtual link", mode="serial", latency=3e-4, latency_ratio=0.5, bandwidth=1e11
    ),
    device="cpu",
    dtype="float32",
    threads=1,
    num_hidden_layers=4,
    all_hidden_layers=30,
    vocab_size=4096,
    all_vocab_size=49152,
    heads_per_rank=(6, 3),
    kv_heads_per_rank=(2, 1),
    weight_bytes_per_rank=(1, 1),
    peak_memory_bytes=(1, 1),
    warm_up=1,
    rounds=9,
    rounds_asked=9,
    attention_seconds=(1e-3, 1e-3),
    mlp_seconds=(1e-3, 1e-3),
    copied_bytes_per_second=1e10,
    read_bytes_per_second=1e10,
    driver_share=0.01,
    rows=(
        row("standard", "baseline", 1.0),
        row("ladder", "candidate", 1.25, "ladder", (0, 1, 2, 3)),
        row("no-comm", "bound", 1.5),
        row("standard again", "control", 1.0, "standard"),
    ),
)


def run_of(*records):
    """All that is read of a result."""
    return types.SimpleNamespace(run_id="bench", speed=records)


def test_each_arm_is_predicted_with_the_records_link_and_shape():
    machine, calibration = description(REACHED, ranks=2, threads=1, dtype="float32")
    where = Calibrated(machine=machine, calibration=calibration)
    standard, ladder, bound = check(run_of(RECORD), where)
    assert [each.row.arm for each in (standard, ladder, bound)] == ["standard", "ladder", "no-comm"]
    config = replace(MODELS["smollm2_135m"].config, num_hidden_layers=4, vocab_size=4096)
    setting = Setting(
        workload=RECORD.workload,
        tp_size=2,
        all_reduce="300us",
        execution="eager",
        dtype="float32",
    )
    # Messages of 4.6 kB at 1e11 bytes a second hardly add to 300 µs.
    for residual, found in (("standard", standard), ("ladder", ladder), ("no-comm", bound)):
        made = predict(with_residual(config, residual), [setting], where)[0]
        assert found.prediction.decode == pytest.approx(made.decode, rel=1e-3)
    assert ladder.speedup == standard.prediction.seconds / ladder.prediction.seconds
    rows = list(check_rows(iter([standard, ladder])))
    assert rows[0][3:7] == ("standard", "1", "1.000", "—")
    assert rows[1][3:5] == ("ladder", "1.250 [0.625, 2.500]")
    assert rows[1][6] == f"{ladder.speedup / 1.25 - 1:+.1%}"


def test_a_run_without_a_serial_virtual_link_is_one_sentence():
    machine, calibration = description(REACHED, ranks=2, threads=1, dtype="float32")
    where = Calibrated(machine=machine, calibration=calibration)
    pipelined = replace(RECORD, link=replace(RECORD.link, mode="pipelined"))
    for run in (run_of(), run_of(pipelined)):
        with pytest.raises(UsageError, match="no timing over a serial virtual link"):
            list(check(run, where))
