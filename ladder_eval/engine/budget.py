"""How many tokens a forward should have: found by trying, and remembered.

A machine remembers it in its cache. A run keeps what it began with, since the last digits of its
answers depend on it.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ladder_eval.engine.batching import Batch, Branch, Row, Target
from ladder_eval.errors import RecordError
from ladder_eval.results.files import atomic_write
from ladder_eval.results.requests import RequestLog

LEAST_TOKENS: Final = 512
"""What a forward has where it isn't worth trying: little less than the best on CPUs."""

_ROW_TOKENS = 128
# So many small batches are worth a search for how large they should be.
_MUCH = 32
# Beyond this many tokens no device was seen to gain.
_MOST_TOKENS = 16_384
# More tokens in a forward must gain this much in tokens a second, or they only cost memory.
_WORTH = 1.05


def best_tokens(seconds: Callable[[int], float]) -> int:
    """The fewest tokens with which forwards are about as fast, a token, as with twice as many.

    Args:
        seconds: Seconds of a forward of so many tokens; MemoryError if there is no room for it.
    """
    tokens, pace = LEAST_TOKENS, seconds(LEAST_TOKENS) / LEAST_TOKENS
    while tokens < _MOST_TOKENS:
        try:
            faster = seconds(2 * tokens) / (2 * tokens)
        except MemoryError:
            break
        if faster * _WORTH > pace:
            break
        tokens, pace = 2 * tokens, faster
    return tokens


def remembered(file: Path, key: str, find: Callable[[], int]) -> int:
    """What was found under a key before, or is found now and written down.

    A file that can't be read or written costs nothing but another search.
    """
    found = _read(file)
    if key not in found:
        found[key] = find()
        with suppress(RecordError, OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(file, json.dumps(found, indent=2) + "\n")
    return found[key]


def _read(file: Path) -> dict[str, int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return _sound(found)


def _sound(found: object) -> dict[str, int]:
    """Numbers of tokens by key; what is something else counts for nothing."""
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if type(value) is int and value > 0}


class Budget:
    """How many tokens a batch has at most: settled once, and the same ever after.

    Requests that are few aren't worth a search, so that there may be two numbers: one for `little`
    work, and one for `much`. Models of one size share them, as a candidate and its baseline do, so
    that no difference between the two is one of batches.

    Args:
        size: What is the same of models that share the numbers.
        log: Where they are kept, by that; None where nothing goes on later.
    """

    def __init__(self, size: str, log: RequestLog | None = None) -> None:
        self._size, self._log = size, log
        self._settled = _sound(log.get(size) if log is not None else None)

    @property
    def settled(self) -> tuple[int, ...]:
        """What batches had, ascending; empty before there were any."""
        return tuple(sorted(set(self._settled.values())))

    def tokens(self, work: int, find: Callable[[], int]) -> int:
        """How many a batch has, on disk before this returns.

        Args:
            work: Tokens of all requests, those that have been answered among them.
            find: Finds the number where there is much to compute, and none is settled.

        Raises:
            RecordError: if it can't be written.
        """
        amount = "much" if work > _MUCH * LEAST_TOKENS else "little"
        if amount not in self._settled:
            self._settled[amount] = find() if amount == "much" else LEAST_TOKENS
            if self._log is not None:
                self._log.append({self._size: self._settled})
        return self._settled[amount]


def made_up_batch(tokens: int) -> Batch:
    """A batch of so many tokens, in rows as long as those of a short question."""
    row = Row(
        (0,) * _ROW_TOKENS,
        tuple(range(_ROW_TOKENS)),
        (Branch(0, ()),),
        (Target(0, _ROW_TOKENS - 1, 0),),
    )
    return Batch((), (row,) * (tokens // _ROW_TOKENS))
