"""One failure ends all: a thread a rank that beats, and looks whether the others still do.

Collectives can't be relied on to notice a dead peer: NCCL waits, and a stopped process keeps its
sockets open. So each rank counts up a key in the shared store every second, and looks at those of
the others. A rank that fails leaves its message there. Whoever finds a message, a peer that has
stopped, or no store any more, ends its own process, whatever its main thread is waiting for.

Rank 0 isn't judged by its beat, since it may hold the interpreter for long, such as by searching a
text. When it ends, the store or the control group's connection ends with it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from torch.distributed import Store

BEAT_SECONDS = 1.0
# A rank is given up when its key hasn't moved for so long. With the beat and the grace that
# follow, everything has ended within 15 seconds.
STALE_SECONDS = 10.0
# The main thread knows more about an error than the watch; it gets this long to report it.
GRACE_SECONDS = 2.0

_FAILURE = "failure"


class Watch:
    """The thread of one rank.

    Args:
        store: A connection to the group's store that nobody else uses.
        rank: Own rank.
        size: Number of ranks.
        ended: Says which child process has ended, if one has.
        on_end: Called before the process is ended, such as to end its children.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        ended: Callable[[], str | None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._ended = ended
        self._on_end = on_end
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        # The first beat comes before anything else: who has never beaten isn't missed.
        store.set(_beat_key(rank), "0")
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()

    def fail(self, message: str) -> None:
        """Leave a message for all ranks, unless one stands there already."""
        with suppress(Exception), self._lock:
            self._store.compare_set(_FAILURE, "", f"rank {self._rank}: {message}")

    def failure(self) -> str | None:
        """The first message that a rank has left, if any."""
        with suppress(Exception), self._lock:
            if self._store.check([_FAILURE]):
                return str(self._store.get(_FAILURE).decode())
        return None

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        self._thread.join(timeout=BEAT_SECONDS + 1)

    def _watch(self) -> None:
        seen: dict[int, tuple[bytes, float]] = {}
        beats = 0
        while not self._stopped.wait(BEAT_SECONDS):
            beats += 1
            try:
                reason = self._beat(beats, seen) or self._ended()
            except Exception:  # whatever the store raises, it is gone
                reason = "rank 0 has ended"
            if reason is not None and not self._stopped.wait(GRACE_SECONDS):
                self._end(reason)

    def _beat(self, beats: int, seen: dict[int, tuple[bytes, float]]) -> str | None:
        """Beat, look at the others, and return a reason to end."""
        now = time.monotonic()
        with self._lock:
            self._store.set(_beat_key(self._rank), str(beats))
            if self._store.check([_FAILURE]):
                return str(self._store.get(_FAILURE).decode())
            for rank in range(1, self._size):
                if rank == self._rank or not self._store.check([_beat_key(rank)]):
                    continue
                beat = self._store.get(_beat_key(rank))
                if rank not in seen or seen[rank][0] != beat:
                    seen[rank] = (beat, now)
                elif now - seen[rank][1] > STALE_SECONDS:
                    return f"rank {rank} has not answered for {STALE_SECONDS:.0f} seconds"
        return None

    def _end(self, reason: str) -> None:
        self.fail(reason)
        sys.stderr.write(f"ladder-eval: {reason}\n")
        sys.stderr.flush()
        self._on_end()
        os._exit(1)


def _beat_key(rank: int) -> str:
    return f"beat/{rank}"
