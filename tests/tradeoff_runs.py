"""Makes runs that score several models and time them in the same rounds."""

import json
from dataclasses import asdict, replace

import numpy as np
from run_folders import model, rows, task, write_run

from ladder_eval.results.records import to_json
from ladder_eval.results.speed import TimedArm, speed_rows
from ladder_eval.results.speed_records import LinkRecord, Round, SpeedRecord, Trial, Workload
from ladder_eval.results.store import read_result

BASELINE = "dense_x"
LADDERS = ("ladder_4l_x", "ladder_8l_x", "ladder_x")
WORKLOAD = Workload(batch_size=1, prompt_len=128, output_len=3)


def arm(name, residual="hybrid ladder", role="candidate"):
    return TimedArm(name=name, role=role, residual=residual, ladder_layers=(0,))


def rounds_of(speedups, count=9, noise=0.01, seed=0):
    """Rounds in which each arm decodes a token in 10 ms by its speed-up, with noise."""
    rng = np.random.default_rng(seed)
    return [
        Round(
            number=number,
            latency=1e-4,
            prefill_blocks=(),
            decode_blocks=(),
            copied_bytes_per_second=1e9,
            trials=tuple(
                _trial(name, 0.01 / speedup * float(np.exp(noise * rng.normal())))
                for name, speedup in speedups.items()
            ),
        )
        for number in range(1, count + 1)
    ]


def _trial(name, tpot):
    return Trial(
        arm=name,
        ttft=0.1,
        itl=(tpot, tpot),
        driver_seconds=0.0,
        prefill_bound=None,
        decode_bound=None,
    )


def speed_record(arms, rounds, **changes):
    fields = {
        "model": "x",
        "weights": "org/weights",
        "workload": WORKLOAD,
        "tp_size": 2,
        "link": LinkRecord(
            name="virtual link", mode="serial", latency=1e-4, latency_ratio=None, bandwidth=1e11
        ),
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "num_hidden_layers": 16,
        "all_hidden_layers": 16,
        "vocab_size": 99,
        "all_vocab_size": 99,
        "heads_per_rank": (4, 4),
        "kv_heads_per_rank": (2, 2),
        "weight_bytes_per_rank": (1, 1),
        "peak_memory_bytes": (1, 1),
        "warm_up": 1,
        "rounds": len(rounds),
        "rounds_asked": len(rounds),
        "attention_seconds": (),
        "mlp_seconds": (),
        "copied_bytes_per_second": 1e9,
        "read_bytes_per_second": None,
        "driver_share": 0.0,
        "rows": speed_rows(arms, rounds, 1),
    }
    return SpeedRecord(**(fields | changes))


def traded(folder, candidates, *, count=9, noise=0.01, **changes):
    """A finished run of two tasks.

    Args:
        folder: Where.
        candidates: Of each its residual, its speed-up, and how many of 50 documents each of the two
            tasks loses; the baseline has all right.
        count: Rounds.
        noise: Standard deviation of the logarithm of times.
        changes: Of the speed record.
    """
    losses = {BASELINE: (0, 0)} | {name: lost for name, (_, _, lost) in candidates.items()}
    samples = [
        row
        for name, lost in losses.items()
        for which, number in zip(("arc", "sciq"), lost, strict=True)
        for row in rows(name, which, [0] * number + [1] * (50 - number))
    ]
    speedups = {BASELINE: 1.0, "no-comm": 2.0}
    speedups |= {name: faster for name, (_, faster, _) in candidates.items()}
    rounds = rounds_of(speedups, count, noise)
    arms = [arm(BASELINE, "standard", "baseline"), arm("no-comm", "no-comm", "bound")]
    arms += [arm(name, residual) for name, (residual, _, _) in candidates.items()]
    lines = [{"tp_size": 2, "round": asdict(each)} for each in rounds]
    write_run(
        folder,
        samples,
        models=[model(BASELINE), *(model(name, adaptation="converted") for name in candidates)],
        tasks=[task("arc", "acc", 50), task("sciq", "acc", 50)],
        baseline=BASELINE,
        rounds=lines,
    )
    result = replace(read_result(folder), speed=(speed_record(arms, rounds, **changes),))
    (folder / "results.json").write_text(to_json(result))
    return folder


def three_ladders(folder, **changes):
    """Speed-ups 1.25, 1.6 and 2; losses of 2, 6 and 10 points of the mean."""
    found = zip(LADDERS, (1.25, 1.6, 2.0), ((1, 1), (2, 4), (5, 5)), strict=True)
    return traded(folder, {name: ("hybrid ladder", *each) for name, *each in found}, **changes)


def last_rounds(folder):
    """The lines of `rounds.jsonl`."""
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
