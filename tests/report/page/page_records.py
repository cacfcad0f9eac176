"""Makes runs to report on: measurements by hand, and answers in a folder."""

from dataclasses import replace
from pathlib import Path

from ladder_eval.report.page.content import Run
from ladder_eval.results.speed_records import (
    Estimate,
    LinkRecord,
    PhaseRecord,
    SpeedRecord,
    SpeedRow,
    Workload,
)


def about(value, spread=0.02, rounds=9):
    return Estimate(
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        confidence=0.96,
        rounds=rounds,
    )


def phase(seconds, speedup=None):
    return PhaseRecord(
        seconds=about(seconds),
        speedup=None if speedup is None else about(speedup),
        comm=None,
        bound=None,
        efficiency=None,
    )


def row(arm, role, speedup, residual="standard"):
    of = None if role == "baseline" else speedup
    return SpeedRow(
        arm=arm,
        role=role,
        residual=residual,
        ladder_layers=(),
        comm_name="hidden_comm",
        prefill=phase(0.2 / speedup, of),
        decode=phase(0.04 / speedup, of),
        total=phase(0.8 / speedup, of),
        itl=about(0.04 / speedup),
        tokens_per_s=about(20 * speedup),
    )


def record(candidates, *, baseline="dense", control=1.0, rounds=9, **changes):
    """A measurement of candidates, a speed-up each; medians ± 2 %."""
    rows = [row(baseline, "baseline", 1.0)]
    rows += [row(arm, "candidate", value, "ladder") for arm, value in candidates.items()]
    rows += [row("no-comm", "bound", 1.6), row(f"{baseline} again", "control", control)]
    made = SpeedRecord(
        model="model",
        weights="org/weights",
        workload=Workload(batch_size=1, prompt_len=128, output_len=16),
        tp_size=2,
        link=LinkRecord(
            name="virtual link", mode="serial", latency=1e-4, latency_ratio=None, bandwidth=1e11
        ),
        device="cpu",
        dtype="float32",
        threads=1,
        num_hidden_layers=16,
        all_hidden_layers=16,
        vocab_size=49152,
        all_vocab_size=49152,
        heads_per_rank=(6, 3),
        kv_heads_per_rank=(2, 1),
        weight_bytes_per_rank=(1, 1),
        peak_memory_bytes=(1, 1),
        warm_up=1,
        rounds=rounds,
        rounds_asked=rounds,
        attention_seconds=(0.001, 0.001),
        mlp_seconds=(0.001, 0.001),
        copied_bytes_per_second=1e9,
        read_bytes_per_second=1e9,
        driver_share=0.01,
        rows=tuple(rows),
    )
    return replace(made, **changes)


def run_of(result, folder=Path("nowhere")):
    return Run(folder=folder, result=result)
