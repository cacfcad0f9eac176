"""What tests of whole runs share: a terminal that keeps its lines, copies, recorded keys."""

import json
import shutil
from contextlib import contextmanager


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

    def start(self, tokens):
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
