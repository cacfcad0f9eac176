"""A driver that scores one batch again and again: FOLDER TP_SIZE REPLICAS STEPS PAUSE."""

import os
import sys
import time
from pathlib import Path

import torch
from unruly_worker import be_patient_no_longer

from ladder_eval.distributed import watch
from ladder_eval.distributed.launch import drive
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.errors import WorkerError
from ladder_eval.models.checkpoint import read_config


def say(word):
    print(word, flush=True)  # noqa: T201


def main(folder, tp_size, replicas, steps, pause):
    (batch,) = plan([ScoringRequest((1, 2, 3), (4, 5))], BatchLimits(tokens=8, rows=1))
    with drive(tp_size, torch.device("cpu"), "unruly_worker", replicas) as team:
        if os.environ.get("UNRULY") == "impatient":
            be_patient_no_longer()
        driver = Driver(team)
        driver.load(folder, read_config(folder), torch.float32)
        for step in range(steps):
            list(driver.score([batch] * replicas))
            say(f"step {step + 1}")
            time.sleep(pause)
    say("done")


if __name__ == "__main__":
    say("started")
    watch.STALE_SECONDS = float(os.environ["STALE"])
    try:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:5]), float(sys.argv[5]))
    except WorkerError as error:
        say(f"WorkerError: {error}")
        sys.exit(error.exit_code)
