"""What ranks send to rank 0 whenever they have something, while all of them go on computing.

It goes through the store: a collective would make each of them wait for the others.
"""

from collections import Counter
from typing import Any

from torch.distributed import Store

from ladder_eval.distributed import sealing


class Mailbox:
    """One rank's end of it.

    Args:
        store: A connection to the group's store that nobody else uses.
        rank: Own rank.
        secret: The run's secret, under which messages are sealed.
    """

    def __init__(self, store: Store, rank: int, secret: str) -> None:
        self._store = store
        self._rank = rank
        self._secret = secret
        self._sent = 0
        self._read: Counter[int] = Counter()

    def post(self, message: object) -> None:
        """Leave a message for rank 0, of at most 8 MiB: the store takes no more."""
        sealed = sealing.seal(message, self._secret)
        self._store.set(_key(self._rank, self._sent), sealed)  # type: ignore[arg-type]
        self._sent += 1

    def new(self, rank: int) -> list[Any]:
        """Rank 0: what a rank has posted since this was last asked, in that order.

        Raises:
            WorkerError: if a message isn't sealed with the secret.
        """
        found = list[Any]()
        while self._store.check([key := _key(rank, self._read[rank])]):
            found.append(sealing.unseal(self._store.get(key), self._secret))
            self._store.delete_key(key)
            self._read[rank] += 1
        return found


def _key(rank: int, number: int) -> str:
    return f"mail/{rank}/{number}"
