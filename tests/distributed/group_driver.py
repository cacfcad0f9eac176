"""A driver that scores one batch again and again: FOLDER TP_SIZE STEPS PAUSE."""

import os
import sys
import time
from pathlib import Path

import torch
from unruly_worker import be_patient_no_longer

from ladder_eval.distributed import watch
from ladder_eval.distributed.launch import drive
from ladder_eval.engine.batching import ScoringRequest, batches, pack
from ladder_eval.engine.ranks import Driver
from ladder_eval.errors import WorkerError
from ladder_eval.models.checkpoint import read_config


def say(word):
    print(word, flush=True)  # noqa: T201


def main(folder, tp_size, steps, pause):
    (batch,) = batches(pack([ScoringRequest((1, 2, 3), (4, 5))]), 1)
    with drive(tp_size, torch.device("cpu"), worker="unruly_worker") as team:
        if os.environ.get("UNRULY") == "impatient":
            be_patient_no_longer()
        driver = Driver(team)
        driver.load(folder, read_config(folder), torch.float32)
        for step in range(steps):
            driver.score([batch])
            say(f"step {step + 1}")
            time.sleep(pause)
    say("done")


if __name__ == "__main__":
    say("started")
    watch.STALE_SECONDS = float(os.environ["STALE"])
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    except WorkerError as error:
        say(f"WorkerError: {error}")
        sys.exit(error.exit_code)
