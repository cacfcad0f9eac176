"""How long a run's requests were, and which of them were computed together.

A run keeps a record a batch beside its answers, so that the same work can be timed later. A log has
those that a killed run had computed as well as those with which it went on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ladder_eval.errors import RecordError
from ladder_eval.results.requests import Answer, request_key

__all__ = ["RecordedBatch", "ScoredRow", "WrittenText", "batch_key", "recorded_batches"]

_SCORED, _WRITTEN = "scored", "written"


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A context, and the continuations that were scored after it, in tokens.

    Attributes:
        context_len: Tokens of the context.
        continuation_lens: Tokens of each continuation, the last of which is never read.
    """

    context_len: int
    continuation_lens: tuple[int, ...]

    @property
    def prompt_len(self) -> int:
        """Tokens that are read."""
        return self.context_len + sum(self.continuation_lens) - len(self.continuation_lens)

    @property
    def output_len(self) -> int:
        """A row that is scored is over with its first forward."""
        return 1

    @property
    def requests(self) -> int:
        """Requests that the row answers."""
        return len(self.continuation_lens)


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
    """

    scored: tuple[ScoredRow, ...] = ()
    written: tuple[WrittenText, ...] = ()

    @property
    def rows(self) -> tuple[ScoredRow | WrittenText, ...]:
        """Either of them."""
        return self.scored or self.written

    @property
    def requests(self) -> int:
        """Requests that the batch answers."""
        return sum(row.requests for row in self.rows)

    def as_answer(self) -> Answer:
        """The batch as a value of a `RequestLog`."""
        if self.scored:
            return {_SCORED: [[row.context_len, *row.continuation_lens] for row in self.scored]}
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
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise RecordError(
            f"the lengths of a batch can't be read ({error}); run the evaluation again."
        ) from error


def _batch(answer: Mapping[str, Any]) -> RecordedBatch:
    if rows := answer.get(_SCORED):
        return RecordedBatch(scored=tuple(ScoredRow(row[0], tuple(row[1:])) for row in rows))
    return RecordedBatch(written=tuple(WrittenText(*text) for text in answer[_WRITTEN]))
