"""How long a run's requests were, and which of them were computed together.

A run keeps a record a batch beside its answers, so that the same work can be timed later. A log has
those that a killed run had computed as well as those with which it went on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ladder_eval.errors import RecordError, brief
from ladder_eval.results.requests import Answer, request_key

__all__ = [
    "PrefixPiece",
    "RecordedBatch",
    "ScoredRow",
    "WrittenText",
    "batch_key",
    "recorded_batches",
]

_SCORED, _WRITTEN, _PREFIX = "scored", "written", "prefix"
_LONGEST = 2**31  # tokens: more than any model reads


@dataclass(frozen=True, slots=True)
class PrefixPiece:
    """A piece of what stands before all rows of a batch, and is computed once for many.

    Attributes:
        digest: What tells it from others of the same length.
        tokens: Its length.
    """

    digest: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row that was scored, in tokens.

    Attributes:
        tokens: Tokens that are read.
        sources: Of them, those after which something is predicted.
        targets: Tokens that are predicted, often several after the same.
        requests: Requests that the row answers.
    """

    tokens: int
    sources: int
    targets: int
    requests: int


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A prompt and the text after it, in tokens.

    Attributes:
        prompt_len: Tokens of the prompt.
        output_len: Tokens generated, with the one that ended the text, if one did.
    """

    prompt_len: int
    output_len: int

    @property
    def requests(self) -> int:
        """Requests that the text answers."""
        return 1


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """What was computed together: rows that were scored, or texts that were written.

    Attributes:
        scored: The rows; empty for texts.
        written: The texts; empty for rows.
        prefix: What stands before all rows.
    """

    scored: tuple[ScoredRow, ...] = ()
    written: tuple[WrittenText, ...] = ()
    prefix: tuple[PrefixPiece, ...] = ()

    @property
    def requests(self) -> int:
        """Requests that the batch answers."""
        return sum(row.requests for row in self.scored or self.written)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Tokens in and tokens out of each row or text, the prefix counted for each."""
        before = sum(piece.tokens for piece in self.prefix)
        read = [(before + row.tokens, 1) for row in self.scored]
        return read + [(text.prompt_len, text.output_len) for text in self.written]

    def new_prefix(self, before: "RecordedBatch | None") -> int:
        """Tokens of the prefix that the batch before it doesn't have."""
        known = before.prefix if before else ()
        pairs = zip(known, self.prefix, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return sum(piece.tokens for piece in self.prefix[common:])

    def as_answer(self) -> Answer:
        """The batch as a value of a `RequestLog`."""
        if self.scored:
            return {
                _SCORED: [
                    [row.tokens, row.sources, row.targets, row.requests] for row in self.scored
                ],
                _PREFIX: [[piece.digest, piece.tokens] for piece in self.prefix],
            }
        return {_WRITTEN: [[text.prompt_len, text.output_len] for text in self.written]}


def batch_key(keys: Sequence[str]) -> str:
    """The key of a batch, from those of its requests."""
    return request_key("batch", *keys)


def recorded_batches(records: Iterable[Mapping[str, Any]]) -> list[RecordedBatch]:
    """The batches in the lines of a log, each of which is {"key": ..., "answer": ...}.

    Raises:
        RecordError: if one of them is damaged.
    """
    try:
        return [_batch(answer) for answer in {r["key"]: r["answer"] for r in records}.values()]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"the lengths of a batch can't be read ({brief(error)}); run the evaluation again."
        ) from error


def _batch(answer: Mapping[str, Any]) -> RecordedBatch:
    if rows := answer.get(_SCORED):
        return RecordedBatch(
            scored=tuple(ScoredRow(*_lengths(row)) for row in rows),
            prefix=tuple(_piece(*piece) for piece in answer[_PREFIX]),
        )
    return RecordedBatch(written=tuple(WrittenText(*_lengths(text)) for text in answer[_WRITTEN]))


def _piece(digest: Any, tokens: Any) -> PrefixPiece:
    if not isinstance(digest, str):
        raise ValueError("a digest is no text")
    return PrefixPiece(digest, *_lengths([tokens]))


def _lengths(values: Sequence[Any]) -> Sequence[int]:
    if not all(type(value) is int and 0 <= value <= _LONGEST for value in values):
        raise ValueError("a length is no number of tokens")
    return values
