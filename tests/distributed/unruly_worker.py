"""A worker that does what the variable UNRULY says. It leaves its id in the folder PIDS."""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

COLLECTIVE_TIMEOUT = timedelta(seconds=1)


def on_third_call(act):
    """Let the third batch of this rank end in an act of disobedience."""
    from ladder_eval.engine.ranks import Rank

    real, calls = Rank.score, iter(range(100))

    def score(self, batch):
        if next(calls) == 2:
            act()
        return real(self, batch)

    Rank.score = score


def fail():
    raise ArithmeticError("the third batch is too much")


def be_patient_no_longer():
    """Collectives of the model give up early; what is sent over the control group doesn't."""
    import torch.distributed as dist

    dist.distributed_c10d._set_pg_timeout(COLLECTIVE_TIMEOUT, dist.group.WORLD)


def serve_impatiently(team):
    from ladder_eval.engine.ranks import serve

    be_patient_no_longer()
    serve(team)


def main(way, device):
    if way == "never start":
        raise ImportError("a library is missing")
    if way == "stranger":
        os.environ["LADDER_EVAL_SECRET"] = "guessed"
    if way == "slow start":
        time.sleep(3)
    from ladder_eval.engine import worker

    match way:
        case "fail":
            on_third_call(fail)
        case "exit":
            on_third_call(lambda: os._exit(7))
        case "impatient":
            worker.serve = serve_impatiently
    worker.main(device)


if __name__ == "__main__":
    Path(os.environ["PIDS"], os.environ["RANK"]).write_text(str(os.getpid()))
    main(os.environ["UNRULY"], sys.argv[1])
