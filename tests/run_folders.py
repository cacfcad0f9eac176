"""Makes finished runs of made-up answers: records, samples and timed rounds."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd

from ladder_eval.results.records import ModelRecord, Provenance, RunResult, TaskRecord
from ladder_eval.results.samples import SAMPLE_COLUMNS
from ladder_eval.results.speed_records import Round, Trial
from ladder_eval.results.store import RunFolder
from ladder_eval.results.summary import comparisons, scores


def model(name, **changes):
    fields = {
        "name": name,
        "residual": "standard",
        "ladder_layers": (),
        "num_hidden_layers": 16,
        "parameters": 1_000_000,
        "weights": "org/weights",
        "weights_sha256": "0123456789abcdef",
        "tokenizer_sha256": "t",
        "fingerprint": f"fingerprint of {name}",
        "adaptation": "as trained",
        "dtype": "float32",
        "device": "cpu",
        "tp_size": 1,
        "tp_backend": "none",
        "heads_per_rank": (9,),
        "kv_heads_per_rank": (3,),
        "weight_bytes_per_rank": (4_000_000,),
        "tp_check": None,
        "batch_size": 8,
        "bos": "added once",
        "prompts": "as plain text",
        "cut_texts": 0,
        "truncated_requests": 0,
        "scored_requests": 160,
        "reused_requests": 0,
        "scored_tokens": 9000,
        "scoring_seconds": 12.5,
    }
    return ModelRecord(**(fields | changes))


def task(name, metric, documents, whole=None):
    return TaskRecord(
        task=name,
        dataset=f"hub/{name}",
        split="test",
        metric=metric,
        num_fewshot=0,
        version="1",
        documents=documents,
        documents_in_split=whole or documents,
        official_documents=whole or documents,
        source="hub",
        data_sha256="d" * 64,
        prompts_sha256="p" * 64,
    )


def rows(name, task_name, values, *, metric="acc", group=None, prompt="asked", weights=None):
    """Samples of one model on one task: a document each value, or a (group, value) each."""
    return [
        {
            "model": name,
            "task": task_name,
            "group": group[i] if group else None,
            "category": None,
            "filter": "none",
            "is_headline": True,
            "doc_id": i,
            "doc_hash": f"{task_name}-{i}",
            "prompt_hash": f"{prompt} {task_name} {i}",
            "target_hash": "t",
            "metric": metric,
            "value": float(value),
            "weight": float(weights[i]) if weights else 1.0,
            "metrics": json.dumps({metric: float(value)}),
            "target": "A",
            "answers": "[]",
            "document": "{}",
        }
        for i, value in enumerate(values)
    ]


def write_run(folder, samples, *, models, tasks, baseline=None, rounds=()):
    """A finished run's folder."""
    frame = pd.DataFrame(samples, columns=list(SAMPLE_COLUMNS))
    made = Provenance(
        versions={"torch": "2.6"},
        commit=None,
        hardware={},
        command=("ladder-eval", "run"),
        started_at="2026-01-31T12:00:00+00:00",
        seconds=1.0,
        peak_memory_bytes=(),
    )
    result = RunResult(
        run_id=folder.name,
        suite="made-up",
        limit=None,
        seed=0,
        baseline=baseline,
        provenance=made,
        models=tuple(models),
        tasks=tuple(tasks),
        scores=scores(frame) if len(frame) else (),
        comparisons=comparisons(baseline, frame) if len(frame) else (),
    )
    with RunFolder.open(folder) as opened:
        opened.write_samples(frame)
        opened.write_result(result)
        for each in rounds:
            opened.append("rounds.jsonl", each)
    return folder


def timed(speedups, *, candidate, baseline, noise=0.01, seed=0, output_len=16):
    """Lines of `rounds.jsonl`: a second a generation of the baseline, divided for the candidate."""
    rng = np.random.default_rng(seed)
    lines = []
    for number, speedup in enumerate(speedups, 1):
        seconds = {candidate: 1 / speedup, baseline: 1.0, f"{baseline} again": 1.0}
        trials = tuple(
            Trial(
                arm=arm,
                ttft=0.25 * time * float(np.exp(noise * rng.normal())),
                itl=(0.5 * time, 0.25 * time),
                driver_seconds=0.0,
                prefill_bound=None,
                decode_bound=None,
            )
            for arm, time in seconds.items()
        )
        made = Round(
            number=number,
            latency=None,
            prefill_blocks=(),
            decode_blocks=(),
            copied_bytes_per_second=1e9,
            trials=trials,
        )
        workload = {"batch_size": 1, "prompt_len": 128, "output_len": output_len}
        conditions = {"model": candidate, "weights": "random", "tp_size": 2, "dtype": "float32"}
        conditions |= {"device": "cpu", "backend": "gloo", "link": None, "workload": workload}
        lines.append(conditions | {"round": asdict(made)})
    return lines
