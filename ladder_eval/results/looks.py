"""Looks at a claim: each is recorded, and what they may err is shared among them.

Who looks, finds a claim undecided and goes on with more documents has two chances to be wrong. So
the looks of a claim share one level: a look takes four fifths of what earlier ones left, or all of
it if it is declared the last. By Bonferroni's inequality the probability of any wrong PASS at the
margin is at most the sum, `LEVEL`, however the looks depend on each other, how many there are, and
why one went on. With a 5 % level that is 4 %, 0.8 %, 0.16 % and so on.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from ladder_eval.errors import RecordError, UsageError, brief
from ladder_eval.plain_json import parse_json
from ladder_eval.results.claims import LEVEL
from ladder_eval.results.decoding import decode

__all__ = [
    "LOOKS_NAME",
    "SHARE",
    "Look",
    "Looking",
    "digest",
    "now",
    "read_looks",
    "record",
    "spend",
]

LOOKS_NAME: Final = "claims.jsonl"
"""File of looks, in the folder that holds the candidate's run: more documents make another run."""

SHARE: Final = 0.8
"""What a look takes of the level that is left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One look at a claim.

    Attributes:
        claim: Hash of what is claimed: candidate, baseline and the tasks of the endpoint.
        documents_sha256: Hash of the documents and prompts that were looked at.
        documents: How many.
        level: The one-sided level that it was given.
        margin: The tolerated drop, a fraction.
        verdict: What it said.
        looked_at: When, ISO 8601 with an offset from UTC.
    """

    claim: str
    documents_sha256: str
    documents: int
    level: float
    margin: float
    verdict: str
    looked_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Looking:
    """What a look is given.

    Attributes:
        number: Which look at the claim it is, from 1.
        level: Its one-sided level.
        left: What is left for later ones.
        margins: Other margins that earlier looks had: only the first was chosen unseen.
    """

    number: int
    level: float
    left: float
    margins: tuple[float, ...] = ()


def digest(parts: Sequence[str]) -> str:
    """SHA-256, in hex, of texts."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def spend(
    earlier: Sequence[Look], claim: str, documents_sha256: str, margin: float, *, last: bool
) -> Looking:
    """The level of a look; one at the same documents is the same look as before.

    Raises:
        UsageError: If an earlier look was declared the last, and left nothing.
    """
    own = [look for look in earlier if look.claim == claim]
    taken: dict[str, float] = {}
    for look in own:
        known = taken.get(look.documents_sha256, 0.0)
        taken[look.documents_sha256] = max(known, look.level)
    numbers = list(taken)
    if documents_sha256 not in taken:
        numbers.append(documents_sha256)
    left = LEVEL - sum(level for key, level in taken.items() if key != documents_sha256)
    level = left if last else taken.get(documents_sha256, SHARE * left)
    if level < LEVEL * 1e-9:
        raise UsageError(
            f"an earlier look at this claim, at other documents, was its last (--last), and left "
            f"nothing of its {100 * LEVEL:g} %; with a further one, verdicts would err more often. "
            "Judge by that look."
        )
    number = numbers.index(documents_sha256) + 1
    others = tuple(dict.fromkeys(look.margin for look in own if look.margin != margin))
    return Looking(number=number, level=level, left=max(0.0, left - level), margins=others)


def read_looks(file: Path) -> tuple[Look, ...]:
    """All looks in a file, none if there's no file.

    Raises:
        RecordError: If a line isn't a look.
    """
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        values = [parse_json(line) for line in lines]
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{file} can't be read ({brief(error)}), so that earlier looks are unknown; restore it."
        ) from None
    found = (decode(Look, value, f"{file}, line {i}") for i, value in enumerate(values, 1))
    return tuple(cast("Look", each) for each in found)


def record(file: Path, looks: Sequence[Look], look: Look) -> None:
    """Add a look to its file, on disk before this returns, unless it says nothing new.

    Raises:
        RecordError: If the file can't be written.
    """
    if any(_same(each, look) for each in looks):
        return
    try:
        with file.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(look)) + "\n")
            log.flush()
            os.fsync(log.fileno())
    except OSError as error:
        raise RecordError(
            f"this look can't be recorded in {file} ({error.strerror or error}); make its folder "
            "writable, or copy the run to another one."
        ) from None


def now() -> str:
    """The time, as looks are dated."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _same(look: Look, other: Look) -> bool:
    def said(each: Look) -> tuple[object, ...]:
        return each.claim, each.documents_sha256, each.level, each.margin, each.verdict

    return said(look) == said(other)
