"""Log-likelihoods of continuations: one forward a batch, logits only where they are needed.

Under tensor parallelism each rank has the logits of its part of the vocabulary. They are never
gathered: four numbers a target and rank are enough.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladder_eval.engine.batching import Batch, ScoringRequest, batches, pack
from ladder_eval.engine.decoding import leading
from ladder_eval.models.transformer import Transformer

# Logits are computed in slices of at most this many bytes of float32, since a long document
# with a large vocabulary would otherwise need more memory than the model.
LOGITS_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class LogLikelihood:
    """The answer to a scoring request.

    Attributes:
        logprob: Sum of the natural log-probabilities of the continuation's tokens.
        is_greedy: Whether each of these tokens was the most likely one.
    """

    logprob: float
    is_greedy: bool


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """What one forward has answered: request index → log-likelihood, and its cost in tokens."""

    answers: dict[int, LogLikelihood]
    tokens: int


class NotFiniteError(ArithmeticError):
    """The model's log-likelihood of a request is NaN or infinite.

    Attributes:
        request: Index of the first such request.
    """

    def __init__(self, request: int, value: float) -> None:
        super().__init__(f"the log-likelihood of request {request} is {value}")
        self.request = request
        self.value = value

    def __reduce__(self) -> tuple[type["NotFiniteError"], tuple[int, float]]:
        """What pickle makes it of again, on another rank."""
        return type(self), (self.request, self.value)


def count_tokens(requests: Sequence[ScoringRequest]) -> int:
    """Number of tokens that the model reads to score the requests, without padding."""
    return sum(row.length for row in pack(requests))


def score(
    answer: Callable[[Sequence[Batch]], Iterable[tuple[Batch, dict[int, LogLikelihood]]]],
    requests: Sequence[ScoringRequest],
    *,
    batch_size: int,
) -> Iterator[ScoredBatch]:
    """Score requests, batch by batch, the longest first.

    Args:
        answer: Scores batches, in an order of its own, such as `score_batches` of a model.
        requests: What to score. Those with equal contexts share its forward.
        batch_size: Rows, that is different contexts, in one forward.

    Raises:
        NotFiniteError: if the model gives NaN or infinity.
    """
    for batch, answers in answer(list(batches(pack(requests), batch_size))):
        yield ScoredBatch(answers, batch.tokens)


def score_batches(
    model: Transformer, batches: Iterable[Batch]
) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
    """Score batches one after the other, as `score_batch`."""
    return ((batch, score_batch(model, batch)) for batch in batches)


@torch.inference_mode()
def score_batch(model: Transformer, batch: Batch) -> dict[int, LogLikelihood]:
    """Score a batch; all ranks of the model's group call this together, with equal batches.

    Raises:
        NotFiniteError: if the model gives NaN or infinity.
    """
    device = model.embed_tokens.weight.device
    mask = None if batch.mask is None else batch.mask.to(device)
    hidden = model(batch.ids.to(device), positions=batch.positions.to(device), mask=mask)
    hidden = hidden.flatten(0, 1)[batch.sources.to(device)]  # [targets, hidden]
    logprobs, greedy = _target_logprobs(model, hidden, batch.targets.to(device))
    return _by_request(batch, logprobs.cpu(), greedy.cpu())


def _target_logprobs(model: Transformer, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and whether it is the most likely token, both [targets]."""
    # From the largest share, so that ranks with uneven ones cut alike and meet in every gather.
    largest = math.ceil(model.config.vocab_size / model.tp.size)
    rows = max(1, LOGITS_BYTES // (4 * largest))
    pieces = [
        _combine(model.tp.all_gather(_summary(model.logits(states), tokens, model.vocabulary)))
        for states, tokens in zip(hidden.split(rows), targets.split(rows), strict=True)
    ]
    logprobs, best = torch.cat([p for p, _ in pieces]), torch.cat([b for _, b in pieces])
    return logprobs, best == targets


def _summary(logits: Tensor, targets: Tensor, vocabulary: range) -> Tensor:
    """What a rank knows of each target, [targets, 4], float32.

    The target's log-probability among the rank's own tokens (-inf for another rank's target), the
    log of the sum of exponentials of its logits, its largest logit, and the token that has it. A
    float32 holds every whole number up to 16,777,216, which is more than any vocabulary.
    """
    largest, best = logits.max(1)
    # lm-eval's `hf` model takes log_softmax, too, and so has the same rounding: over a long
    # continuation that of log_softmax and logsumexp differ by up to 1e-3.
    logprobs = logits.log_softmax(1)
    log_sum = largest - logprobs.gather(1, best[:, None]).squeeze(1)
    mine = (targets >= vocabulary.start) & (targets < vocabulary.stop)
    column = (targets - vocabulary.start).where(mine, 0)
    own = logprobs.gather(1, column[:, None]).squeeze(1).where(mine, -math.inf)
    return torch.stack((own, log_sum, largest, best + vocabulary.start), dim=1)


def _combine(summaries: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and most likely token, [targets], from all ranks' summaries, [tp, ...]."""
    own, log_sum, largest, best = summaries.unbind(2)  # each [tp, targets]
    if len(summaries) == 1:
        return own[0], best[0].long()
    # A rank's own tokens have exp(log_sum - total) of all probability.
    total = log_sum.logsumexp(0)
    logprobs = (own + (log_sum - total)).amax(0)
    return logprobs, leading(largest, best)


def _by_request(batch: Batch, logprobs: Tensor, greedy: Tensor) -> dict[int, LogLikelihood]:
    sums: dict[int, list[float]] = {}
    all_greedy: dict[int, bool] = {}
    rows = zip(batch.requests.tolist(), logprobs.tolist(), greedy.tolist(), strict=True)
    for request, logprob, is_greedy in rows:
        if not math.isfinite(logprob):
            raise NotFiniteError(request, logprob)
        sums.setdefault(request, []).append(logprob)
        all_greedy[request] = all_greedy.get(request, True) and is_greedy
    return {i: LogLikelihood(math.fsum(sums[i]), all_greedy[i]) for i in sums}
