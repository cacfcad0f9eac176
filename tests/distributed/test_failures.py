"""One failure ends all: real processes that fail, are killed, stopped or never come."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ladder_eval
from ladder_eval.distributed import watch

HERE = Path(__file__).parent
ROOT = Path(ladder_eval.__file__).parents[1]
LIMIT = 15  # seconds from a failure to the end of all processes
MANY = 1_000_000


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may have asked for the exit code of an orphan: such a process has ended, too.
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return sys.platform != "linux"


class Group:
    """A driver in a process of its own, and its workers."""

    def __init__(
        self, folder, pids, unruly, *, tp_size=2, replicas=1, steps=MANY, pause=0.05, stale=10
    ):
        self._pids = pids
        self._size = tp_size * replicas
        numbers = (tp_size, replicas, steps, pause)
        self.process = subprocess.Popen(
            [sys.executable, HERE / "group_driver.py", folder, *map(str, numbers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ
            | {
                "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}",
                "PIDS": str(pids),
                "UNRULY": unruly,
                "STALE": str(stale),
                "OMP_NUM_THREADS": "1",
            },
        )

    def wait_for(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return
        raise AssertionError(f"no {word}: {self.process.stderr.read()}")

    def workers(self):
        """Ids of all workers, once they have begun."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = [file.read_text() for file in self._pids.iterdir()]
            if len(found) == self._size - 1 and all(found):
                return [int(pid) for pid in found]
            time.sleep(0.02)
        raise AssertionError("the workers have not begun")

    def end(self):
        """What the driver still says, its exit code, and the seconds until it and all ended."""
        clock = time.monotonic()
        try:
            out, err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the driver is still there after {LIMIT} seconds")
        while left := [pid for pid in self.workers() if is_alive(pid)]:
            assert time.monotonic() - clock < LIMIT, f"{left} are still there"
            time.sleep(0.02)
        return out, err, self.process.returncode

    def clean_up(self):
        for file in self._pids.iterdir():
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tiny_checkpoint, tmp_path):
    groups = []

    def start(unruly="", **settings):
        groups.append(Group(tiny_checkpoint, tmp_path, unruly, **settings))
        groups[-1].wait_for("started")
        return groups[-1]

    yield start
    for group in groups:
        group.clean_up()


def test_a_process_without_the_secret_is_not_admitted(start):
    out, _, code = start("stranger").end()
    assert out.startswith("WorkerError: a process without this run's secret has taken a rank's")
    assert code == 1


REPLICA = {"tp_size": 1, "replicas": 2}  # rank 1 is the second replica


@pytest.mark.parametrize("shape", [{}, REPLICA], ids=str)
def test_an_exception_in_a_worker_is_raised_by_the_driver(start, shape):
    group = start("fail", **shape)
    group.wait_for("step 2")
    out, err, code = group.end()
    assert out == "WorkerError: rank 1: ArithmeticError: the third batch is too much\n"
    assert code == 1
    assert "Traceback" not in err


def test_a_worker_that_leaves_without_a_word_is_told(start):
    group = start("exit")
    group.wait_for("step 2")
    out, _, code = group.end()
    assert out.startswith("WorkerError: rank 1")
    assert code == 1


@pytest.mark.parametrize("word", ["step 5", "started"], ids=["while scoring", "while starting"])
def test_a_worker_that_is_killed_is_told_by_the_driver(start, word):
    group = start()
    (worker,) = group.workers()
    if word != "started":
        group.wait_for(word)
    os.kill(worker, signal.SIGKILL)
    out, err, code = group.end()
    assert "rank 1 was killed by signal 9" in out + err
    assert code == 1


def test_a_worker_that_never_starts_is_told_by_the_driver(start):
    group = start("never start")
    out, err, code = group.end()
    assert "rank 1" in out.replace("started", "") + err
    assert "a library is missing" in err
    assert code == 1


def test_a_replica_that_is_killed_is_told_by_the_driver(start):
    group = start(**REPLICA)
    group.wait_for("step 2")
    (worker,) = group.workers()
    os.kill(worker, signal.SIGKILL)
    out, err, code = group.end()
    assert "rank 1 was killed by signal 9" in out + err
    assert code == 1


def test_a_worker_that_is_stopped_is_given_up(start):
    """A stopped process keeps its connections open: only its heartbeat tells."""
    group = start(stale=2)
    group.wait_for("step 2")
    (worker,) = group.workers()
    os.kill(worker, signal.SIGSTOP)
    out, err, code = group.end()
    assert "rank 1 has not answered for 2 seconds" in out + err
    assert code == 1


def test_giving_up_takes_less_than_the_limit():
    assert watch.STALE_SECONDS + 2 * watch.BEAT_SECONDS + watch.GRACE_SECONDS < LIMIT


def test_no_worker_survives_the_driver(start):
    group = start()
    group.wait_for("step 2")
    os.kill(group.process.pid, signal.SIGKILL)
    group.end()


def test_no_worker_survives_a_driver_that_is_killed_while_they_start(start):
    group = start()
    group.workers()
    os.kill(group.process.pid, signal.SIGKILL)
    group.end()


@pytest.mark.parametrize("word", ["step 2", "started"], ids=["while scoring", "while starting"])
def test_ctrl_c_ends_all(start, word):
    group = start("slow start" if word == "started" else "")
    group.workers()
    if word != "started":
        group.wait_for(word)
    os.kill(group.process.pid, signal.SIGINT)
    out, err, _ = group.end()
    assert "done" not in out
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_a_pause_between_operations_trips_nothing(start):
    """The driver does something else for longer than a collective would wait."""
    group = start("impatient", steps=2, pause=2.5)
    group.wait_for("step 1")
    out, _, code = group.end()
    assert out.splitlines() == ["step 2", "done"]
    assert code == 0


def test_a_group_that_is_done_leaves_no_process(start):
    group = start(tp_size=4, steps=3, pause=0)
    group.wait_for("step 1")
    clock = time.monotonic()
    out, err, code = group.end()
    assert (out.splitlines()[-1], err, code) == ("done", "", 0)
    assert time.monotonic() - clock < 9  # who does not leave by itself is killed after ten
