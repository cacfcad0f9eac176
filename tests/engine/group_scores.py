"""Score models at several tp_sizes with real processes: JSON in, JSON out.

A program of its own, since the driver of a group ends its process when another rank dies.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from ladder_eval.distributed.launch import drive
from ladder_eval.distributed.team import alone
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.generation import GenerationRequest
from ladder_eval.engine.planning import BatchLimits, plan
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
        batches = plan(requests, BatchLimits(tokens=64, rows=4))
        for _, answers in score(driver.score, batches, requests):
            found |= answers
    except (CheckpointError, NotFiniteError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    answers = [found[i] for i in range(len(requests))]
    return {
        "logprobs": [a.logprob for a in answers],
        "greedy": [a.is_greedy for a in answers],
        "bytes": sizes,
    }


def written(driver, job):
    """Texts after prompts of which some begin alike, three at a time, each ended after its own."""
    driver.load(Path(job["folder"]), read_config(Path(job["folder"])), torch.float32)
    prompts = [(*range(70), 1), (*range(70), 2, 3), (7, 8, 9), (3,)]
    requests = [GenerationRequest(prompt, 8) for prompt in prompts]
    stops = [lambda tokens, most=i + 2: len(tokens) == most for i in range(len(prompts))]
    texts = dict(driver.generate(requests, stops, batch_size=3))
    return [texts[i].tokens for i in range(len(prompts))]


def main(jobs, sizes):
    result = {}
    for size in sizes:
        with alone(CPU) if size == 1 else drive(size, CPU, "ladder_eval.engine.worker") as team:
            driver = Driver(team)
            result[size] = {name: answer(driver, job) for name, job in jobs.items()}
            memory, texts = driver.peak_memory(), written(driver, jobs["uneven standard"])
            result[size]["group"] = {
                "backend": team.backend,
                "peak_memory": memory,
                "texts": texts,
            }
    return result


if __name__ == "__main__":
    jobs, sizes = json.load(sys.stdin)
    json.dump(main(jobs, sizes), sys.stdout)
