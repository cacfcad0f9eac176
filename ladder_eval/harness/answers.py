"""Answers by request: taken from the log, or computed batch by batch and recorded there."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from ladder_eval.engine.batching import Batch, ScoringRequest, pack
from ladder_eval.engine.generation import Generated, GenerationRequest, Stop, generate
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError, count_tokens, score
from ladder_eval.errors import CheckpointError, ScoringError
from ladder_eval.harness.stopping import TextEnd
from ladder_eval.results.recorded_work import RecordedBatch, ScoredRow, WrittenText, batch_key
from ladder_eval.results.requests import Answer, RequestLog, request_key

# Part of every request's key: raise it when a change of the engine may change an answer.
ENGINE_VERSION = 2

Request = TypeVar("Request")
Asked_contra = TypeVar("Asked_contra", contravariant=True)


class Engine(Protocol):
    """What computes answers: a loaded model on all its ranks."""

    def score(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """Batches and their log-likelihoods, in the order in which they are computed."""

    def generate(
        self, requests: Sequence[GenerationRequest], stops: Sequence[Stop]
    ) -> list[Generated]:
        """What follows the prompts of a batch."""


class Progress(Protocol):
    """Who is told how far the computing has come."""

    def start(self, tokens: int) -> None:
        """So many more tokens are going to be computed, at most."""

    def advance(self, tokens: int) -> None:
        """So many of them are done, and their answers are on disk."""


@dataclass(slots=True)
class Tally:
    """What a model has been asked so far."""

    scored_requests: int = 0
    reused_requests: int = 0
    truncated_requests: int = 0
    cut_texts: int = 0
    scored_tokens: int = 0
    seconds: float = 0.0


class Kind(Protocol[Asked_contra]):
    """A kind of request, and how it is answered."""

    def is_sound(self, answer: Answer) -> bool:
        """Whether a recorded value is an answer, and not something damaged."""

    def ids(self, request: Asked_contra) -> Sequence[int]:
        """All token ids of a request."""

    def cost(self, requests: Sequence[Asked_contra]) -> int:
        """Tokens that answering them takes at most."""

    def compute(
        self, engine: Engine, requests: Sequence[Asked_contra]
    ) -> Iterator[tuple[dict[int, Answer], int, int]]:
        """Answers by index, tokens computed, and how much of the cost that is; a batch each."""

    def lengths(self, requests: Sequence[Asked_contra], answers: Sequence[Answer]) -> RecordedBatch:
        """How long the requests of a batch were, and their answers."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Continuations: [log-likelihood, is_greedy]."""

    batch_size: int

    def is_sound(self, answer: Answer) -> bool:
        """As `Kind.is_sound`."""
        match answer:
            case [float(logprob), bool()]:
                return math.isfinite(logprob)
        return False

    def ids(self, request: ScoringRequest) -> Sequence[int]:
        """As `Kind.ids`."""
        return request.context + request.continuation

    def cost(self, requests: Sequence[ScoringRequest]) -> int:
        """As `Kind.cost`."""
        return count_tokens(requests)

    def compute(
        self, engine: Engine, requests: Sequence[ScoringRequest]
    ) -> Iterator[tuple[dict[int, Answer], int, int]]:
        """As `Kind.compute`."""
        for batch in score(engine.score, requests, batch_size=self.batch_size):
            answers: dict[int, Answer] = {
                i: [a.logprob, a.is_greedy] for i, a in batch.answers.items()
            }
            yield answers, batch.tokens, batch.tokens

    def lengths(
        self, requests: Sequence[ScoringRequest], answers: Sequence[Answer]
    ) -> RecordedBatch:
        """As `Kind.lengths`."""
        return RecordedBatch(
            scored=tuple(
                ScoredRow(len(row.context), tuple(len(tokens) for _, tokens in row.branches))
                for row in pack(requests)
            )
        )


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt to be continued, and where its text ends."""

    prompt: GenerationRequest
    end: TextEnd


@dataclass(frozen=True, slots=True)
class Generating:
    """Prompts to be continued: [text, number of tokens generated, what ended it]."""

    batch_size: int

    def is_sound(self, answer: Answer) -> bool:
        """As `Kind.is_sound`."""
        match answer:
            case [str(), int(), "eos" | "stop" | "length"]:
                return True
        return False

    def ids(self, request: TextRequest) -> Sequence[int]:
        """As `Kind.ids`."""
        return request.prompt.prompt

    def cost(self, requests: Sequence[TextRequest]) -> int:
        """As `Kind.cost`."""
        return sum(len(r.prompt.prompt) + r.prompt.max_gen_toks for r in requests)

    def compute(
        self, engine: Engine, requests: Sequence[TextRequest]
    ) -> Iterator[tuple[dict[int, Answer], int, int]]:
        """As `Kind.compute`."""
        prompts = [request.prompt for request in requests]
        stops = [request.end.watch() for request in requests]
        for batch in generate(engine.generate, prompts, stops, batch_size=self.batch_size):
            answers: dict[int, Answer] = {
                i: [requests[i].end.cut(text.tokens), len(text.tokens), text.ended_by]
                for i, text in batch.answers.items()
            }
            yield answers, batch.tokens, self.cost([requests[i] for i in answers])

    def lengths(self, requests: Sequence[TextRequest], answers: Sequence[Answer]) -> RecordedBatch:
        """As `Kind.lengths`; the EOS token that ended a text was computed as well."""
        texts = cast("Sequence[tuple[str, int, str]]", answers)
        return RecordedBatch(
            written=tuple(
                WrittenText(len(request.prompt.prompt), tokens + (ended_by == "eos"))
                for request, (_, tokens, ended_by) in zip(requests, texts, strict=True)
            )
        )


class AnswerBook:
    """The answers of one model.

    Every batch's answers are in the log before the next batch is computed, and what is in the log
    is never computed again. The model is loaded when the first request needs it.

    Args:
        identity: What makes this model's answers its own: weights, configuration, dtype.
        load: Loads the model.
        log: Where answers are recorded.
        progress: Who is told how far the computing has come.
        vocab_size: Number of tokens that the model knows.
        decode: The text of token ids, for messages.
        batches: Where it is recorded what was computed together, and how long it was.
    """

    def __init__(
        self,
        *,
        identity: Sequence[str],
        load: Callable[[], Engine],
        log: RequestLog,
        progress: Progress,
        vocab_size: int,
        decode: Callable[[Sequence[int]], str],
        batches: RequestLog | None = None,
    ) -> None:
        self.tally = Tally()
        self._identity = tuple(identity)
        self._load = load
        self._engine: Engine | None = None
        self._log = log
        self._batches = batches
        self._progress = progress
        self._vocab_size = vocab_size
        self._decode = decode

    def key(self, kind: str, *parts: str | int | Sequence[int]) -> str:
        """The key of a request to this model."""
        return request_key(kind, ENGINE_VERSION, *self._identity, *parts)

    def __getitem__(self, key: str) -> Answer:
        return self._log.get(key)

    def complete(
        self, requests: Mapping[str, Request], kind: Kind[Request]
    ) -> Mapping[str, Request]:
        """Compute and record what the log lacks, and return these requests.

        Raises:
            CheckpointError: if the model doesn't know a token.
            ScoringError: if the model gives NaN or infinity.
        """
        missing = {
            key: request
            for key, request in requests.items()
            if not kind.is_sound(self._log.get(key))
        }
        self.tally.reused_requests += len(requests) - len(missing)
        if missing:
            self._compute(missing, kind)
        return missing

    def _compute(self, missing: Mapping[str, Request], kind: Kind[Request]) -> None:
        keys, requests = list(missing), list(missing.values())
        self._require_known_tokens([max(kind.ids(request)) for request in requests])
        self._progress.start(kind.cost(requests))
        engine, clock = self._loaded(), time.perf_counter()
        try:
            for answers, tokens, cost in kind.compute(engine, requests):
                if self._batches is not None:
                    batch = kind.lengths([requests[i] for i in answers], list(answers.values()))
                    # Before the answers: computed again after a crash, the batch has the same key.
                    key = batch_key([keys[i] for i in answers])
                    self._batches.append({key: batch.as_answer()})
                self._log.append({keys[i]: answer for i, answer in answers.items()})
                self.tally.scored_requests += len(answers)
                self.tally.scored_tokens += tokens
                self.tally.seconds += time.perf_counter() - clock
                clock = time.perf_counter()
                self._progress.advance(cost)
        except NotFiniteError as error:
            text = self._decode(kind.ids(requests[error.request]))
            raise ScoringError(
                f"The model gave {error.value} as a log-likelihood for {text[-200:]!r}; its "
                "weights or dtype are broken, and nothing it says can be scored."
            ) from None

    def _require_known_tokens(self, largest: Sequence[int]) -> None:
        if max(largest) >= self._vocab_size:
            raise CheckpointError(
                f"The tokenizer gives the token {max(largest)}, but the model knows only "
                f"{self._vocab_size} tokens; they don't belong together."
            )

    def _loaded(self) -> Engine:
        if self._engine is None:
            self._engine = self._load()
        return self._engine
