"""Log-likelihoods of continuations: one forward a batch, logits only where they are needed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladder_eval.engine.batching import Batch, ScoringRequest, batches, pack
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


def count_tokens(requests: Sequence[ScoringRequest]) -> int:
    """Number of tokens that the model reads to score the requests, without padding."""
    return sum(row.length for row in pack(requests))


def score(
    model: Transformer, requests: Sequence[ScoringRequest], *, batch_size: int
) -> Iterator[ScoredBatch]:
    """Score requests, batch by batch, the longest first.

    Args:
        model: The model; requests go to the device of its weights.
        requests: What to score. Those with equal contexts share its forward.
        batch_size: Rows, that is different contexts, in one forward.

    Raises:
        NotFiniteError: if the model gives NaN or infinity.
    """
    for batch in batches(pack(requests), batch_size):
        yield ScoredBatch(_score(model, batch), batch.tokens)


@torch.inference_mode()
def _score(model: Transformer, batch: Batch) -> dict[int, LogLikelihood]:
    device = model.embed_tokens.weight.device
    mask = None if batch.mask is None else batch.mask.to(device)
    hidden = model(batch.ids.to(device), positions=batch.positions.to(device), mask=mask)
    hidden = hidden.flatten(0, 1)[batch.sources.to(device)]  # [targets, hidden]
    logprobs, greedy = _target_logprobs(model, hidden, batch.targets.to(device))
    return _by_request(batch, logprobs.cpu(), greedy.cpu())


def _target_logprobs(model: Transformer, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and whether it is the most likely token, both [targets]."""
    rows = max(1, LOGITS_BYTES // (4 * model.config.vocab_size))
    logprobs, greedy = [], []
    for states, tokens in zip(hidden.split(rows), targets.split(rows), strict=True):
        logits = model.logits(states)  # [rows, vocab], float32
        # lm-eval's `hf` model takes the same operation, and so the same rounding: over a long
        # continuation that of log_softmax and logsumexp differ by up to 1e-3.
        logprobs.append(logits.log_softmax(1).gather(1, tokens[:, None]).squeeze(1))
        greedy.append(logits.argmax(1) == tokens)
    return torch.cat(logprobs), torch.cat(greedy)


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
