"""Worker processes that rank 0 has started: which has ended, and how all come to an end."""

import subprocess
from collections.abc import Sequence

_LEAVE_SECONDS = 10.0


def killed(children: Sequence[subprocess.Popen[bytes]]) -> str | None:
    """Which worker was killed, if one was: that is a cause, whatever the others say."""
    for rank, child in enumerate(children, start=1):
        code = child.poll() or 0
        if code < 0:
            return f"rank {rank} was killed by signal {-code}"
    return None


def ended(children: Sequence[subprocess.Popen[bytes]]) -> str | None:
    """Which worker has ended before its time, and how."""
    for rank, child in enumerate(children, start=1):
        if child.poll():
            return killed(children) or f"rank {rank} ended with code {child.returncode}"
    return None


def await_end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until workers that have been told to leave have left; only then cut their leash."""
    for child in children:
        try:
            child.wait(timeout=_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()


def kill(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """End all workers at once."""
    for child in children:
        child.kill()
