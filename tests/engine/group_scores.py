"""Score models at several tp_sizes with real processes: JSON in, JSON out.

A program of its own, since the driver of a group ends its process when another rank dies.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from ladder_eval.distributed.launch import alone, drive
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.ranks import Driver
from ladder_eval.engine.scoring import NotFiniteError, score
from ladder_eval.errors import CheckpointError
from ladder_eval.models.checkpoint import read_config

CPU = torch.device("cpu")


def answer(driver, job):
    config = replace(
        read_config(Path(job["folder"])),
        ladder_layers=tuple(job.get("ladder_layers", ())),
        topology=job.get("topology", "standard"),
    )
    config = replace(config, **job.get("changes", {}))
    dtype = getattr(torch, job.get("dtype", "float32"))
    requests = [ScoringRequest(tuple(c), tuple(t)) for c, t in job["requests"]]
    try:
        sizes = driver.load(Path(job["folder"]), config, dtype)
        found = {}
        for batch in plan(requests, BatchLimits(tokens=64, rows=4)):
            found |= score(driver.score, batch, requests)
    except (CheckpointError, NotFiniteError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    answers = [found[i] for i in range(len(requests))]
    return {
        "logprobs": [a.logprob for a in answers],
        "greedy": [a.is_greedy for a in answers],
        "bytes": sizes,
    }


def main(jobs, sizes):
    result = {}
    for size in sizes:
        with alone(CPU) if size == 1 else drive(size, CPU, "ladder_eval.engine.worker") as team:
            driver = Driver(team)
            result[size] = {name: answer(driver, job) for name, job in jobs.items()}
            memory = driver.peak_memory()
            result[size]["group"] = {"backend": team.backend, "peak_memory": memory}
    return result


if __name__ == "__main__":
    jobs, sizes = json.load(sys.stdin)
    json.dump(main(jobs, sizes), sys.stdout)
