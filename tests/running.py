"""What tests of whole runs share: a terminal, copies, what a run wrote, and runs as processes."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import ladder_eval
from ladder_eval.results.store import read_samples

ROOT = str(Path(ladder_eval.__file__).parents[1])
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Quiet:
    """A terminal that keeps its lines, and can break off after some batches."""

    def __init__(self, stop_after=None):
        self.lines, self.advanced, self._stop_after = [], [], stop_after

    def say(self, line):
        self.lines.append(line)

    @contextmanager
    def working(self, on):
        yield

    @contextmanager
    def scoring(self, model):
        yield self

    @contextmanager
    def rounds(self, total):
        yield Quiet()

    @contextmanager
    def programs(self, total):
        yield Quiet()

    @contextmanager
    def judging(self):
        yield lambda total: lambda: None

    def start(self, tokens, share):
        pass

    def advance(self, tokens):
        self.advanced.append(tokens)
        if len(self.advanced) == self._stop_after:
            raise KeyboardInterrupt


def copy_of(checkpoint, folder, **changes):
    """A checkpoint elsewhere, with other values in its config.json."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def recorded(folder):
    """Keys in the logs of answers, by file, in order."""
    return {
        log.stem: [json.loads(line)["key"] for line in log.read_text().splitlines()]
        for log in (folder / "requests").iterdir()
    }


def logprobs(folder):
    return [
        logprob for answers in read_samples(folder).answers for logprob, _ in json.loads(answers)
    ]


def files(folder):
    """Relative paths, but for the times in lm-eval's names."""
    times = r"\d{4}-\d\d-\d\dT\S+?\.json"
    paths = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(re.sub(times, "TIME.json", path) for path in paths)


def command(ask, output, **changes):
    options = {
        "--model": ask.model[0],
        "--ladder-layers": "2",
        "--tasks": "piqa",
        "--limit": "3",
        "--data-dir": ask.data_dir,
        "--output-dir": output,
        "--device": "cpu",
    }
    given = options | {f"--{name}".replace("_", "-"): value for name, value in changes.items()}
    return ["run", *(str(word) for pair in given.items() for word in pair)]


def environment(**variables):
    kept = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
    own = {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return kept | own | {name: str(value) for name, value in variables.items()}


def start(arguments, cwd, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
        start_new_session=True,
    )


def finish(process, seconds=90):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"not done after {seconds} seconds: {out}{err}")
    return out, err


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
