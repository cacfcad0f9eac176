"""Answers by request: taken from the log, or computed batch by batch and recorded there."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ladder_eval.engine.batching import Batch, ScoringRequest
from ladder_eval.engine.budget import Budget
from ladder_eval.engine.generation import Generated, GenerationRequest, Stop
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError, TooLargeError, score
from ladder_eval.errors import CheckpointError, ScoringError
from ladder_eval.harness.stopping import TextEnd
from ladder_eval.results.recorded_work import (
    PrefixPiece,
    RecordedBatch,
    ScoredRow,
    WrittenText,
    batch_key,
)
from ladder_eval.results.requests import Answer, RequestLog, request_key

# Part of every request's key: raise it when a change of the engine may change an answer.
ENGINE_VERSION = 3

Request = TypeVar("Request")
Asked_contra = TypeVar("Asked_contra", contravariant=True)


class Engine(Protocol):
    """What computes answers: a loaded model on all its ranks."""

    def score(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """Batches and their log-likelihoods, in the order in which they are computed."""

    def batch_tokens(self) -> int:
        """How many tokens a batch should have."""

    def generate(
        self, requests: Sequence[GenerationRequest], stops: Sequence[Stop], *, batch_size: int
    ) -> Iterator[tuple[int, Generated]]:
        """What follows prompts, by their index, each as soon as it is over."""


class Progress(Protocol):
    """Who is told how far the computing has come."""

    def start(self, tokens: int, share: float) -> None:
        """So many more tokens are going to be computed, at most.

        Args:
            tokens: How many.
            share: How much is announced so far of what belongs together; 1 where it is all.
        """

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


@dataclass(frozen=True, slots=True)
class Computed:
    """What has been computed together.

    Attributes:
        answers: By index of the request.
        tokens: Tokens that were read or written.
        cost: How much of what was expected that is.
        record: What was computed, in lengths.
    """

    answers: dict[int, Answer]
    tokens: int
    cost: int
    record: RecordedBatch


@dataclass(frozen=True, slots=True)
class Work:
    """What is going to be computed.

    Attributes:
        cost: Tokens that it takes at most.
        computed: Computes it, piece by piece.
    """

    cost: int
    computed: Iterator[Computed]


class Kind(Protocol[Asked_contra]):
    """A kind of request, and how it is answered."""

    def is_sound(self, answer: Answer) -> bool:
        """Whether a recorded value is an answer, and not something damaged."""

    def ids(self, request: Asked_contra) -> Sequence[int]:
        """All token ids of a request."""

    def work(self, engine: Engine, requests: Sequence[Asked_contra], missing: Set[int]) -> Work:
        """How the answers that are missing, by index, are computed."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Continuations: [log-likelihood, is_greedy].

    Attributes:
        rows: Rows in one forward.
        budget: Tokens in one forward.
    """

    rows: int
    budget: Budget

    def is_sound(self, answer: Answer) -> bool:
        """As `Kind.is_sound`."""
        match answer:
            case [float(logprob), bool()]:
                return math.isfinite(logprob)
        return False

    def ids(self, request: ScoringRequest) -> Sequence[int]:
        """As `Kind.ids`."""
        return request.context + request.continuation

    def work(self, engine: Engine, requests: Sequence[ScoringRequest], missing: Set[int]) -> Work:
        """As `Kind.work`."""
        read = sum(len(request.read) for request in requests)
        tokens = self.budget.tokens(read, engine.batch_tokens)
        batches = plan(requests, BatchLimits(tokens=tokens, rows=self.rows), missing)
        return Work(
            sum(batch.tokens for batch in batches), self._computed(engine, batches, requests)
        )

    def _computed(
        self, engine: Engine, batches: Sequence[Batch], requests: Sequence[ScoringRequest]
    ) -> Iterator[Computed]:
        for batch, scored in score(engine.score, batches, requests):
            answers: dict[int, Answer] = {
                index: [found.logprob, found.is_greedy] for index, found in scored.items()
            }
            yield Computed(answers, batch.tokens, batch.tokens, _record(batch))


def _record(batch: Batch) -> RecordedBatch:
    return RecordedBatch(
        prefix=tuple(
            PrefixPiece(request_key("prefix", piece)[:16], len(piece)) for piece in batch.prefix
        ),
        scored=tuple(
            ScoredRow(
                tokens=len(row.ids),
                sources=len({target.column for target in row.targets}),
                targets=len(row.targets),
                requests=len(row.requests),
            )
            for row in batch.rows
        ),
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

    def work(self, engine: Engine, requests: Sequence[TextRequest], missing: Set[int]) -> Work:
        """As `Kind.work`."""
        wanted = {index: requests[index] for index in sorted(missing)}
        return Work(sum(map(_most, wanted.values())), self._computed(engine, wanted))

    def _computed(self, engine: Engine, requests: Mapping[int, TextRequest]) -> Iterator[Computed]:
        indexes, asked = list(requests), list(requests.values())
        prompts = [request.prompt for request in asked]
        stops = [request.end.watch() for request in asked]
        try:
            for i, text in engine.generate(prompts, stops, batch_size=self.batch_size):
                yield _computed(indexes[i], asked[i], text)
        except NotFiniteError as error:
            raise NotFiniteError(indexes[error.request], error.value) from None


def _computed(index: int, request: TextRequest, text: Generated) -> Computed:
    prompt_len, tokens = len(request.prompt.prompt), len(text.tokens)
    # The EOS token that ended a text was computed as well.
    written = WrittenText(prompt_len, tokens + (text.ended_by == "eos"))
    return Computed(
        answers={index: [request.end.cut(text.tokens), tokens, text.ended_by]},
        tokens=prompt_len + tokens,
        cost=_most(request),
        record=RecordedBatch(written=(written,)),
    )


def _most(request: TextRequest) -> int:
    """Tokens that a text takes at most."""
    return len(request.prompt.prompt) + request.prompt.max_gen_toks


class AnswerBook:
    """The answers of one model.

    Every answer is in the log before anything else is computed, and what is in the log is never
    computed again. The model is loaded when the first request needs it.

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
        self, requests: Mapping[str, Request], kind: Kind[Request], share: float = 1.0
    ) -> Mapping[str, Request]:
        """Compute and record what the log lacks, and return these requests.

        Args:
            requests: The requests by key.
            kind: What they are.
            share: Where they come in parts, how much has come with this one; 1 with the last.

        Raises:
            CheckpointError: if the model doesn't know a token.
            ScoringError: if the model gives NaN or infinity.
        """
        keys, asked = list(requests), list(requests.values())
        missing = {i for i, key in enumerate(keys) if not kind.is_sound(self._log.get(key))}
        self.tally.reused_requests += len(requests) - len(missing)
        if missing:
            self._compute(keys, asked, missing, kind, share)
        return {keys[i]: asked[i] for i in sorted(missing)}

    def _compute(
        self,
        keys: Sequence[str],
        requests: Sequence[Request],
        missing: Set[int],
        kind: Kind[Request],
        share: float,
    ) -> None:
        self._require_known_tokens([max(kind.ids(requests[i])) for i in missing])
        engine, clock = self._loaded(), time.perf_counter()
        work = kind.work(engine, requests, missing)
        self._progress.start(work.cost, share)
        try:
            for done in work.computed:
                if self._batches is not None:
                    # Before the answers: computed again after a crash, the batch has the same key.
                    key = batch_key([keys[i] for i in done.answers])
                    self._batches.append({key: done.record.as_answer()})
                self._log.append({keys[i]: answer for i, answer in done.answers.items()})
                self.tally.scored_requests += len(done.answers)
                self.tally.scored_tokens += done.tokens
                self.tally.seconds += time.perf_counter() - clock
                clock = time.perf_counter()
                self._progress.advance(done.cost)
        except NotFiniteError as error:
            text = self._decode(kind.ids(requests[error.request]))
            raise ScoringError(
                f"The model gave {error.value} as a log-likelihood for {text[-200:]!r}; its "
                "weights or dtype are broken, and nothing it says can be scored."
            ) from None

        except TooLargeError as error:
            request = requests[error.request]
            ids, text = kind.ids(request), self._decode(kind.ids(request))
            raise ScoringError(
                f"A request of {len(ids)} tokens, {text[:100]!r}..., takes more memory than there "
                "is; spread the model over more ranks (--tp), or leave its task out."
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
