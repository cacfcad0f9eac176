"""Answers of a model to the same requests, by teams of several shapes: JSON in, JSON out.

A program of its own, since the driver of a team ends its process when another rank dies.
"""

import json
import os
import sys
from pathlib import Path

import torch
from replica_worker import write_down
from transformers import AutoTokenizer

from ladder_eval.distributed.launch import drive
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.generation import GenerationRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.sampling import Sampling
from ladder_eval.engine.scoring import NotFiniteError, score
from ladder_eval.harness.stopping import TextEnd
from ladder_eval.models.checkpoint import read_config


def load(driver, folder):
    return driver.load(Path(folder), read_config(Path(folder)), torch.float32)


def scores(driver, job):
    requests = [
        ScoringRequest(tuple(context), tuple(target)) for context, target in job["requests"]
    ]
    found = {}
    batches = plan(requests, BatchLimits(tokens=512, rows=2))
    for _, answers in score(driver.score, batches, requests):
        found |= answers
    return [[found[i].logprob, found[i].is_greedy] for i in range(len(requests))]


def texts(driver, job):
    tokenizer = AutoTokenizer.from_pretrained(job["folder"])
    prompts = [
        GenerationRequest(tuple(prompt), 12, (), Sampling(temperature=float(i % 2), seed=i))
        for i, prompt in enumerate(job["prompts"])
    ]
    stops = [TextEnd(tokenizer, job["until"]).watch() for _ in prompts]
    found = dict(driver.generate(prompts, stops, batch_size=2))
    return [[found[i].tokens, found[i].ended_by] for i in range(len(prompts))]


def broken(driver, job):
    """Which request is named where one of them gives NaN."""
    load(driver, job["broken"])
    try:
        scores(driver, job)
    except NotFiniteError as error:
        return error.request


def answers(job, tp_size, replicas):
    with drive(tp_size, torch.device("cpu"), "replica_worker", replicas) as team:
        driver = Driver(team)
        return {
            "bytes": load(driver, job["folder"]),
            "scores": scores(driver, job),
            "texts": texts(driver, job),
            "broken": broken(driver, job),
        }


def main(job, seen, teams):
    found = []
    for tp_size, replicas in teams:
        os.environ["SEEN"] = f"{seen}/{tp_size}-{replicas}"
        Path(os.environ["SEEN"]).mkdir()
        found.append(answers(job, tp_size, replicas))
    return found


if __name__ == "__main__":
    write_down()
    json.dump(main(*json.load(sys.stdin)), sys.stdout)
