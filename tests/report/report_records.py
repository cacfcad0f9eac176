"""Makes a small result to report on: two tasks, a dense baseline and a ladder candidate."""

import io

from rich.console import Console

from ladder_eval.results.pairing import Pair, compare
from ladder_eval.results.records import ModelRecord, Provenance, RunResult, Score, TaskRecord
from ladder_eval.results.statistics import exact_binomial_interval


def model(name, residual, ladder_layers):
    return ModelRecord(
        name=name,
        residual=residual,
        ladder_layers=ladder_layers,
        num_hidden_layers=16,
        parameters=1_000_000,
        weights="org/weights",
        weights_sha256="0123456789abcdef",
        tokenizer_sha256="t",
        fingerprint=f"fingerprint of {name}",
        adaptation="converted without retraining",
        dtype="float32",
        device="cpu",
        tp_size=1,
        tp_backend="none",
        heads_per_rank=(9,),
        kv_heads_per_rank=(3,),
        weight_bytes_per_rank=(4_000_000,),
        tp_check=None,
        batch_size=8,
        bos="added once",
        prompts="as plain text",
        cut_texts=0,
        truncated_requests=2,
        scored_requests=160,
        reused_requests=5,
        scored_tokens=9000,
        scoring_seconds=12.5,
    )


def task(name, metric, documents, whole):
    return TaskRecord(
        task=name,
        dataset=f"hub/{name}",
        split="test",
        metric=metric,
        num_fewshot=0,
        version="1",
        documents=documents,
        documents_in_split=whole,
        official_documents=whole,
        source="hub",
        data_sha256="d" * 64,
        prompts_sha256="p" * 64,
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
