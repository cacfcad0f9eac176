"""Makes a small result to report on: two tasks, a dense baseline and a ladder candidate."""

import io

import run_folders
from rich.console import Console
from run_folders import task

from ladder_eval.results.pairing import Pair, compare
from ladder_eval.results.records import Provenance, RunResult, Score
from ladder_eval.results.statistics import exact_binomial_interval


def model(name, residual, ladder_layers):
    return run_folders.model(
        name,
        residual=residual,
        ladder_layers=ladder_layers,
        adaptation="converted without retraining",
        truncated_requests=2,
        reused_requests=5,
    )


def pairs(name, metric, counts):
    gains, losses, both, neither = counts
    values = [(0, 1)] * gains + [(1, 0)] * losses + [(1, 1)] * both + [(0, 0)] * neither
    return [Pair(task=name, metric=metric, baseline=b, candidate=c) for b, c in values]


def score(name, comparison, value):
    interval = exact_binomial_interval(round(value * comparison.n), comparison.n)
    return Score(
        model=name,
        task=comparison.task,
        metric=comparison.metric,
        value=value,
        n=comparison.n,
        stderr=0.0721,
        low=interval.low,
        high=interval.high,
        method=interval.method,
    )


def build(arc, boolq):
    """A result in which the candidate gains and loses as given on two tasks of 40 documents."""
    everything = pairs("arc_easy", "acc_norm", arc) + pairs("boolq", "acc", boolq)
    comparisons = compare("lad|der", "dense", everything)
    values = [(name, each) for each in comparisons[:2] for name in ("dense", "lad|der")]
    return RunResult(
        run_id="run-1",
        suite="commonsense",
        limit=40,
        seed=7,
        baseline="dense",
        provenance=Provenance(
            versions={"ladder-eval": "0.1.0", "numpy": "2"},
            commit="abc123",
            hardware={"cpu": "Some [CPU]", "gpus": ["a", "b"]},
            command=("ladder-eval", "run"),
            started_at="2025-01-31T12:00:00+00:00",
            seconds=61.25,
            peak_memory_bytes=(3 * 2**30,),
        ),
        models=(model("dense", "standard", ()), model("lad|der", "ladder", tuple(range(8, 16)))),
        tasks=(task("arc_easy", "acc_norm", 40, 570), task("boolq", "acc", 40, 40)),
        scores=tuple(
            score(name, each, each.baseline_value if name == "dense" else each.candidate_value)
            for name, each in values
        ),
        comparisons=comparisons,
        warnings=("two requests were truncated",),
    )


def printed(table, width=200):
    """What a terminal of a width shows."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    return console.file.getvalue()
