"""What the page shows, as tables for other programs: numbers with all their digits, in CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

import pandas as pd

from ladder_eval.report.board_columns import SCORE_COLUMNS, kinds
from ladder_eval.report.board_rows import score_rows
from ladder_eval.report.page.content import Run
from ladder_eval.report.speed import link_words
from ladder_eval.results.mean_difference import candidates, mean_difference
from ladder_eval.results.records import Comparison, RunResult
from ladder_eval.results.speed_records import Estimate, SpeedRecord, SpeedRow

__all__ = ["MEAN", "frames"]

MEAN = "mean of tasks"
"""The task of a row of differences.csv with a candidate's mean difference."""

_Row = dict[str, object]


def frames(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Scores, differences and speed, those that there are; by the name of their file.

    Scores are `board_columns.SCORE_COLUMNS`, differences the fields of `Comparison` after the run;
    fractions are fractions, times are in ms as their columns say.
    """
    results = [run.result for run in runs]
    scores = pd.DataFrame([row for r in results for row in score_rows(r)], columns=_SCORES)
    found = {
        "scores": scores.astype(kinds(SCORE_COLUMNS)),
        "differences": _counted(pd.DataFrame([d for r in results for d in _differences(r)])),
        "speed": pd.DataFrame([row for r in results for row in _speed(r)]),
    }
    return {name: frame for name, frame in found.items() if len(frame)}


_SCORES = [column.name for column in SCORE_COLUMNS]


def _counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with counts as whole numbers, though some are missing."""
    return frame.astype({name: "Int64" for name in ("n", "gains", "losses") if name in frame})


def _differences(result: RunResult) -> Iterator[_Row]:
    """A row a comparison, and one a candidate for its mean over tasks."""
    for candidate in candidates(result):
        for each in result.comparisons:
            if each.candidate == candidate:
                values = {field.name: getattr(each, field.name) for field in fields(Comparison)}
                yield {"run_id": result.run_id, **values}
        mean = mean_difference(result, candidate)
        if mean is not None:
            yield {
                "run_id": result.run_id,
                "candidate": candidate,
                "baseline": mean.baseline,
                "task": MEAN,
                "n": mean.n,
                "difference": mean.difference,
                "low": mean.interval.low,
                "high": mean.interval.high,
                "confidence": mean.confidence,
                "method": mean.interval.method,
                "decided": mean.decided,
            }


def _speed(result: RunResult) -> Iterator[_Row]:
    for record in result.speed:
        for row in record.rows:
            yield {"run_id": result.run_id, **_setting(record), **_times(row)}


def _setting(record: SpeedRecord) -> _Row:
    return {
        "model": record.model,
        "kind": record.kind,
        "weights": record.weights,
        "tp_size": record.tp_size,
        "link": link_words(record.link),
        "link_latency_us": None if record.link.latency is None else 1e6 * record.link.latency,
        "batch_size": record.workload.batch_size,
        "prompt_len": record.workload.prompt_len,
        "output_len": record.workload.output_len,
        "device": record.device,
        "dtype": record.dtype,
        "layers": record.num_hidden_layers,
        "rounds": record.rounds,
    }


def _times(row: SpeedRow) -> _Row:
    phases = {"prefill": row.prefill, "decode": row.decode, "e2e": row.total}
    found: _Row = {"arm": row.arm, "role": row.role, "residual": row.residual}
    for name, phase in zip(("ttft", "tpot", "e2e_latency"), phases.values(), strict=True):
        found |= _estimate(f"{name}_ms", phase.seconds if phase else None, 1e3)
    found |= _estimate("tokens_per_s", row.tokens_per_s)
    for name, phase in phases.items():
        found |= _estimate(f"{name}_speedup", phase.speedup if phase else None)
    found["comm_name"] = row.comm_name
    for name, phase in phases.items():
        found |= _estimate(f"{name}_comm", phase.comm if phase else None)
    return found


def _estimate(name: str, found: Estimate | None, factor: float = 1.0) -> _Row:
    """A median and its interval's ends, in columns of their own."""
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {
        f"{name}{end}": None if found is None else factor * getattr(found, field)
        for end, field in ends.items()
    }
