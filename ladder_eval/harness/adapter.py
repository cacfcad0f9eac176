"""The model that lm-eval talks to: text requests in, recorded answers out."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from transformers import PreTrainedTokenizerBase

from ladder_eval.engine.batching import Batch, ScoringRequest
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError, count_tokens, score
from ladder_eval.errors import CheckpointError, ScoringError, UsageError
from ladder_eval.results.requests import RequestLog, request_key

# Part of every request's key: raise it when a change of the engine may change an answer.
ENGINE_VERSION = 1

# Requests that are repeated at another tp_size.
SPOT_CHECKS = 32


class Progress(Protocol):
    """Who is told how far scoring has come."""

    def start(self, tokens: int) -> None:
        """Scoring of this many tokens begins."""

    def advance(self, tokens: int) -> None:
        """This many more tokens are scored, and their answers are on disk."""


@dataclass(slots=True)
class Tally:
    """What a model has been asked so far."""

    scored_requests: int = 0
    reused_requests: int = 0
    truncated_requests: int = 0
    scored_tokens: int = 0
    seconds: float = 0.0


class LadderLM(TemplateLM):  # type: ignore[misc]
    """A model of this package as lm-eval's language model, for log-likelihoods.

    Every batch's answers are in the request log before the next batch is scored, and what is in
    the log is never scored again. The model is loaded when the first request needs it.

    Args:
        identity: What makes this model's answers its own: weights, configuration, dtype.
        load: Loads the model and returns what scores a batch with it.
        tokenizer: Its tokenizer; no padding token is needed.
        max_length: Longest text in tokens that the model can read.
        vocab_size: Number of tokens that the model knows.
        log: Where answers are recorded.
        batch_size: Different contexts in one forward.
        progress: Who is told how far scoring has come.
    """

    def __init__(
        self,
        *,
        identity: Sequence[str],
        load: Callable[[], Callable[[Batch], dict[int, LogLikelihood]]],
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        vocab_size: int,
        log: RequestLog,
        batch_size: int,
        progress: Progress,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._vocab_size = vocab_size
        self.tally = Tally()
        self._identity = tuple(identity)
        self._load = load
        self._answer: Callable[[Batch], dict[int, LogLikelihood]] | None = None
        self._spot_checks: dict[str, ScoringRequest] = {}
        self._log = log
        self._batch_size = batch_size
        self._progress = progress
        self._adds_bos = self._starts_with_bos(tokenizer.encode("text"))

    @property
    def bos_policy(self) -> str:
        """What is done about the beginning-of-sequence token, in words."""
        return "once, by the tokenizer" if self._adds_bos else "none: the tokenizer adds none"

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, as lm-eval asks for it."""
        return str(self.tokenizer.name_or_path)

    @property
    def eot_token_id(self) -> int:
        """The end-of-text token."""
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        """The token that stands before a text without context: BOS, else the end-of-text token."""
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else int(bos)

    def spot_check(self, answer: Callable[[Batch], dict[int, LogLikelihood]]) -> float | None:
        """Largest difference of a few log-likelihoods from another computation's.

        Only of those that have been computed here; None if all were found in the log.
        """
        keys, requests = list(self._spot_checks), list(self._spot_checks.values())
        differences = [
            abs(found.logprob - self._recorded(keys[index])[0])
            for batch in score(answer, requests, batch_size=self._batch_size)
            for index, found in batch.answers.items()
        ]
        return max(differences, default=None)

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_: Any
    ) -> list[int]:
        """Token ids of a text, with BOS once if the tokenizer adds it."""
        if add_special_tokens is None:
            bos = self.tokenizer.bos_token
            add_special_tokens = not (bos and string.startswith(bos))
        ids: list[int] = self.tokenizer.encode(string, add_special_tokens=add_special_tokens)
        return ids

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> list[tuple[float, bool]]:
        """Log-probability of each continuation given its context, and whether it is greedy."""
        answers: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
        return answers

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> list[float]:
        """Log-probability of each whole text, every token predicted once."""
        windows = [self._windows(request.args[0]) for request in requests]
        answers = iter(self._answers([window for text in windows for window in text]))
        return [sum(next(answers)[0] for _ in text) for text in windows]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Not offered.

        Raises:
            UsageError: always.
        """
        raise UsageError("Tasks that generate text can't be run; choose tasks that score choices.")

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        return self._answers([self._fit(context, target) for _, context, target in requests])

    def _windows(self, text: str) -> list[ScoringRequest]:
        windows = get_rolling_token_windows(
            # The prefix token stands for BOS, which must not come twice.
            token_list=self.tok_encode(text, add_special_tokens=False),
            prefix_token=self.prefix_token_id,
            max_seq_len=self.max_length,
            context_len=1,
        )
        pairs = map(make_disjoint_window, windows)
        return [ScoringRequest(tuple(context), tuple(target)) for context, target in pairs]

    def _fit(self, context: list[int], target: list[int]) -> ScoringRequest:
        """The request, its context cut on the left to what the model can read, BOS kept."""
        context = context or [self.prefix_token_id]  # such as when it was nothing but spaces
        room = self.max_length + 1 - len(target)
        if room < 1:
            raise ScoringError(
                f"A continuation of {len(target)} tokens is longer than the {self.max_length} "
                "that the model can read; leave its task out."
            )
        if len(context) > room:
            self.tally.truncated_requests += 1
            bos = context[:1] if self._starts_with_bos(context) and room > 1 else []
            context = bos + context[len(context) - room + len(bos) :]
        return ScoringRequest(tuple(context), tuple(target))

    def _starts_with_bos(self, ids: list[int]) -> bool:
        return bool(ids) and ids[0] == self.tokenizer.bos_token_id

    def _answers(self, requests: list[ScoringRequest]) -> list[tuple[float, bool]]:
        """Answers from the log, after those that it lacks have been scored and recorded."""
        keys = [self._key(request) for request in requests]
        missing = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if not _is_answer(self._log.get(key))
        }
        self.tally.reused_requests += len(set(keys)) - len(missing)
        if missing:
            self._score(missing)
            self._keep_spot_checks(missing)
        return [self._recorded(key) for key in keys]

    def _recorded(self, key: str) -> tuple[float, bool]:
        logprob, is_greedy = cast("list[Any]", self._log.get(key))
        return float(logprob), bool(is_greedy)

    def _keep_spot_checks(self, scored: dict[str, ScoringRequest]) -> None:
        # Keys are hashes, so that the smallest of them are a sample.
        candidates = self._spot_checks | scored
        self._spot_checks = {key: candidates[key] for key in sorted(candidates)[:SPOT_CHECKS]}

    def _key(self, request: ScoringRequest) -> str:
        return request_key(
            "loglikelihood", ENGINE_VERSION, *self._identity, request.context, request.continuation
        )

    def _score(self, missing: dict[str, ScoringRequest]) -> None:
        keys, requests = list(missing), list(missing.values())
        self._require_known_tokens(requests)
        self._progress.start(count_tokens(requests))
        answer, clock = self._loaded(), time.perf_counter()
        try:
            for batch in score(answer, requests, batch_size=self._batch_size):
                answers = {keys[i]: [a.logprob, a.is_greedy] for i, a in batch.answers.items()}
                self._log.append(answers)
                self.tally.scored_requests += len(answers)
                self.tally.scored_tokens += batch.tokens
                self.tally.seconds += time.perf_counter() - clock
                clock = time.perf_counter()
                self._progress.advance(batch.tokens)
        except NotFiniteError as error:
            raise self._not_finite(requests[error.request], error.value) from None

    def _require_known_tokens(self, requests: list[ScoringRequest]) -> None:
        largest = max(max(request.context + request.continuation) for request in requests)
        if largest >= self._vocab_size:
            raise CheckpointError(
                f"The tokenizer gives the token {largest}, but the model knows only "
                f"{self._vocab_size} tokens; they don't belong together."
            )

    def _loaded(self) -> Callable[[Batch], dict[int, LogLikelihood]]:
        if self._answer is None:
            self._answer = self._load()
        return self._answer

    def _not_finite(self, request: ScoringRequest, value: float) -> ScoringError:
        text = self.tokenizer.decode(list(request.context + request.continuation))
        return ScoringError(
            f"The model gave {value} as the log-likelihood of {text[-200:]!r}; its weights or "
            "dtype are broken, and nothing it says can be scored."
        )


def _is_answer(recorded: object) -> bool:
    """Whether a recorded value is a finite log-likelihood and a flag, and not something damaged."""
    match recorded:
        case [float(logprob), bool()]:
            return math.isfinite(logprob)
    return False
