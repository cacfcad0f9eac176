"""Answers by request: taken from the log, or computed batch by batch and recorded there."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from ladder_eval.engine.batching import Batch, ScoringRequest, pack
from ladder_eval.engine.generation import Generated, GenerationRequest, Stop
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError, count_tokens, score
from ladder_eval.errors import CheckpointError, ScoringError
from ladder_eval.harness.stopping import TextEnd
from ladder_eval.results.recorded_work import RecordedBatch, ScoredRow, WrittenText, batch_key
from ladder_eval.results.requests import Answer, RequestLog, request_key

# Part of every request's key: raise it when a change of the engine may change an answer.
ENGINE_VERSION = 3

Request = TypeVar("Request")
Asked_contra = TypeVar("Asked_contra", contravariant=True)


class Engine(Protocol):
    """What computes answers: a loaded model on all its ranks."""

    def score(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """Batches and their log-likelihoods, in the order in which they are computed."""

    def generate(
        self, requests: Sequence[GenerationRequest], stops: Sequence[Stop], *, batch_size: int
    ) -> Iterator[tuple[int, Generated]]:
        """What follows prompts, by their index, each as soon as it is over."""


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
    """A kind of request, and how it is answered.

    Attributes:
        together: Answers of `compute` that stand for requests computed together.
    """

    @property
    def together(self) -> int:
        """As above."""

    def is_sound(self, answer: Answer) -> bool:
        """Whether a recorded value is an answer, and not something damaged."""

    def ids(self, request: Asked_contra) -> Sequence[int]:
        """All token ids of a request."""

    def cost(self, requests: Sequence[Asked_contra]) -> int:
        """Tokens that answering them takes at most."""

    def compute(
        self, engine: Engine, requests: Sequence[Asked_contra]
    ) -> Iterator[tuple[dict[int, Answer], int, int]]:
        """Answers by index, tokens computed, and how much of the cost that is, as they come."""

    def lengths(self, requests: Sequence[Asked_contra], answers: Sequence[Answer]) -> RecordedBatch:
        """How long the requests of a batch were, and their answers."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Continuations: [log-likelihood, is_greedy]."""

    batch_size: int

    @property
    def together(self) -> int:
        """As `Kind.together`: a batch's answers come at once."""
        return 1

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

    @property
    def together(self) -> int:
        """As `Kind.together`: so many texts are written at a time, and each ends by itself."""
        return self.batch_size

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
        for i, text in engine.generate(prompts, stops, batch_size=self.batch_size):
            answer = requests[i].end.cut(text.tokens), len(text.tokens), text.ended_by
            tokens = len(prompts[i].prompt) + len(text.tokens)
            yield {i: answer}, tokens, self.cost([requests[i]])

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
        lengths = _Lengths(self._batches, kind, keys, requests)
        engine, clock = self._loaded(), time.perf_counter()
        try:
            for answers, tokens, cost in kind.compute(engine, requests):
                # Before the answers: computed again after a crash, a batch has the same key.
                lengths.add(answers)
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
        finally:
            lengths.write()

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


class _Lengths:
    """Writes down how long requests were that are computed together.

    Args:
        log: Where to; None for nowhere.
        kind: What the requests are.
        keys: Of the requests.
        requests: These.
    """

    def __init__(
        self,
        log: RequestLog | None,
        kind: Kind[Request],
        keys: Sequence[str],
        requests: Sequence[Request],
    ) -> None:
        self._log = log
        self._kind = kind
        self._keys = keys
        self._requests = requests
        self._pieces: list[Mapping[int, Answer]] = []

    def add(self, answers: Mapping[int, Answer]) -> None:
        """Note answers by index, and write as soon as those of a batch are there."""
        self._pieces.append(answers)
        if len(self._pieces) == self._kind.together:
            self.write()

    def write(self) -> None:
        """Write what has been noted, as one batch."""
        answers = {i: answer for piece in self._pieces for i, answer in piece.items()}
        self._pieces = []
        if self._log is None or not answers:
            return
        batch = self._kind.lengths([self._requests[i] for i in answers], list(answers.values()))
        self._log.append({batch_key([self._keys[i] for i in answers]): batch.as_answer()})
