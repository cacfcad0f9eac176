"""The process of a rank other than 0, as the driver starts it: `python -m ... DEVICE`."""

import os
import sys

import torch

from ladder_eval.distributed.launch import hold_leash, join
from ladder_eval.engine.ranks import serve
from ladder_eval.errors import WorkerError


def main(device: str) -> None:
    """Join the group that the environment names, and serve until the driver is done."""
    hold_leash()
    try:
        with join(torch.device(device)) as team:
            serve(team)
    except WorkerError:
        sys.exit(1)  # another rank's failure is told by that rank, or by the driver
    except Exception as error:
        first = str(error).partition("\n")[0]
        sys.stderr.write(
            f"ladder-eval: rank {os.environ.get('RANK')}: {type(error).__name__}: {first}\n"
        )
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
