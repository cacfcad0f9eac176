"""Log-likelihoods of continuations: one forward a batch, logits only where they are needed.

Under tensor parallelism each rank has the logits of its part of the vocabulary. They are never
gathered: four numbers a target and rank are enough.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladder_eval.engine.batching import Batch, PackedBatch, ScoringRequest, Tokens, packed
from ladder_eval.engine.decoding import leading
from ladder_eval.engine.memory import OutOfMemoryError, is_out_of_memory, together
from ladder_eval.engine.planning import BatchLimits, common_pieces, plan
from ladder_eval.models.cache import KeyValueCache
from ladder_eval.models.transformer import Transformer

# Logits are computed in slices of at most this many bytes of float32, since a long document
# with a large vocabulary would otherwise need more memory than the model.
LOGITS_BYTES = 256 * 2**20

_ALONE = BatchLimits(tokens=1, rows=1)


@dataclass(frozen=True, slots=True)
class LogLikelihood:
    """The answer to a scoring request.

    Attributes:
        logprob: Sum of the natural log-probabilities of the continuation's tokens.
        is_greedy: Whether each of these tokens was the most likely one.
    """

    logprob: float
    is_greedy: bool


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


class TooLargeError(ArithmeticError):
    """A request alone takes more memory than there is.

    Attributes:
        request: Its index.
    """

    def __init__(self, request: int) -> None:
        super().__init__(f"request {request} takes more memory than there is")
        self.request = request


def score(
    answer: Callable[[Sequence[Batch]], Iterable[tuple[Batch, dict[int, LogLikelihood]]]],
    batches: Sequence[Batch],
    requests: Sequence[ScoringRequest],
) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
    """Batches and the log-likelihoods of their requests, as they come.

    Args:
        answer: Computes them, such as `BatchScorer.scored`.
        batches: Those of a plan of the requests.
        requests: The requests.

    Raises:
        NotFiniteError: with the first request for which the model alone gives NaN or infinity.
    """
    try:
        yield from answer(batches)
    except NotFiniteError as error:
        # What is masked spoils what can't look at it, if it is NaN: alone, each answers for itself.
        together = next(b.requests for b in batches if error.request in b.requests)
        for index in sorted(together):
            for _ in answer(plan(requests, _ALONE, {index})):
                pass
        raise


class BatchScorer:
    """A model that scores batches, and keeps the prefix of the last one.

    Under tensor parallelism all ranks of the model's group score equal batches together.

    Args:
        model: One rank's part of a model.
        sets_aside: Whether several ranks make sure, by a message more a batch, that each of them
            has the memory for it. Where forwards are timed they don't.
    """

    def __init__(self, model: Transformer, *, sets_aside: bool = True) -> None:
        self._model = model
        self._sets_aside = sets_aside and model.tp.size > 1
        self._cache: KeyValueCache | None = None
        self._prefix: tuple[Tokens, ...] = ()

    @torch.inference_mode()
    def score(self, batch: Batch) -> dict[int, LogLikelihood]:
        """Log-likelihoods of a batch's requests.

        Raises:
            NotFiniteError: if the model gives NaN or infinity.
            OutOfMemoryError: on all ranks alike, if one of them hasn't enough memory for it.
        """
        try:
            return self._score(batch)
        except (RuntimeError, MemoryError) as error:
            alone = self._model.tp.size == 1
            if not (isinstance(error, OutOfMemoryError) or (alone and is_out_of_memory(error))):
                raise
        self.forget()  # outside of the handler, which would keep alive what there was
        if self._model.embed_tokens.weight.is_cuda:
            torch.cuda.empty_cache()
        raise OutOfMemoryError("a batch takes more memory than there is")

    def _score(self, batch: Batch) -> dict[int, LogLikelihood]:
        model, rows = self._model, packed(batch.rows)
        device = model.embed_tokens.weight.device
        if self._sets_aside:
            # One rank that ran out of memory amid a forward would leave others in a collective.
            together(model.tp, device, lambda: _set_aside(model, rows, batch.prefix))
        memory = model.packed_rows(rows.layout, self._after(batch.prefix))
        hidden = model(rows.ids.to(device), positions=rows.positions.to(device), cache=memory)
        sources = hidden[0].index_select(0, rows.sources.to(device))  # [sources, hidden]
        predicted_by, targets = rows.predicted_by.to(device), rows.targets.to(device)
        logprobs, greedy = _target_logprobs(model, sources, predicted_by, targets)
        return _by_request(rows.requests, logprobs.cpu(), greedy.cpu())

    def scored(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """Batches and their log-likelihoods, one after the other."""
        return ((batch, self.score(batch)) for batch in batches)

    def forget(self) -> None:
        """Give the memory of the kept prefix back."""
        self._cache, self._prefix = None, ()

    def _after(self, prefix: tuple[Tokens, ...]) -> KeyValueCache | None:
        """Keys and values of a prefix, of which only what isn't kept is computed."""
        if not prefix:
            self.forget()
            return None
        if self._cache is None:
            self._cache = self._model.new_cache(1, sum(map(len, prefix)))
        cache, common = self._cache, len(common_pieces(self._prefix, prefix))
        cache.length = sum(map(len, prefix[:common]))
        self._prefix = prefix[:common]
        for piece in prefix[common:]:
            cache.reserve(len(piece))
            self._model(torch.tensor([piece], device=cache.device), cache=cache)
            self._prefix += (piece,)
        return cache


def _set_aside(model: Transformer, rows: PackedBatch, prefix: Sequence[Tokens]) -> None:
    """Take the memory that rows need, and give it back, to find out whether it is there."""
    size = _workspace_bytes(model, rows, sum(map(len, prefix)))
    torch.empty(size, dtype=torch.uint8, device=model.embed_tokens.weight.device)


def _workspace_bytes(model: Transformer, rows: PackedBatch, prefix: int) -> int:
    """About how much memory one rank takes at a time to score rows after so many cached tokens.

    The widest moments: the inputs and outputs of a layer's MLP or attention, and a slice of logits
    with its log-softmax.
    """
    config, (count, width) = model.config, rows.layout.columns.shape
    ranks, tokens, wide = model.tp.size, rows.ids.shape[1], config.head_dim
    heads, kv_heads = (
        math.ceil(n / ranks) for n in (config.num_attention_heads, config.num_key_value_heads)
    )
    stream = tokens * 6 * config.hidden_size
    inner = tokens * 3 * math.ceil(config.intermediate_size / ranks)
    keys = count * (prefix + width)
    attention = 3 * count * width * heads * wide + 2 * keys * kv_heads * wide + keys * width * heads
    logits = min(LOGITS_BYTES, 4 * len(rows.sources) * math.ceil(config.vocab_size / ranks))
    size = model.embed_tokens.weight.element_size()
    return size * (stream + max(inner, attention)) + 2 * logits


def _target_logprobs(
    model: Transformer, sources: Tensor, predicted_by: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and whether it is the most likely token, both [targets].

    Args:
        model: One rank's part of a model.
        sources: Final hidden states, [sources, hidden].
        predicted_by: Which of them predicts each target, ascending, [targets].
        targets: The tokens, [targets].
    """
    # From the largest share, so that ranks with uneven ones cut alike and meet in every gather.
    largest = math.ceil(model.config.vocab_size / model.tp.size)
    rows = max(1, LOGITS_BYTES // (4 * largest))
    pieces = list[tuple[Tensor, Tensor]]()
    for first in range(0, len(sources), rows):
        states = sources[first : first + rows]
        own = (predicted_by >= first) & (predicted_by < first + rows)
        summary = _summary(
            model.logits(states), predicted_by[own] - first, targets[own], model.vocabulary
        )
        pieces.append(_combine(model.tp.all_gather(summary)))
    logprobs, best = torch.cat([p for p, _ in pieces]), torch.cat([b for _, b in pieces])
    return logprobs, best == targets


def _summary(logits: Tensor, predicted_by: Tensor, targets: Tensor, vocabulary: range) -> Tensor:
    """What a rank knows of each target, [targets, 4], float32.

    The target's log-probability among the rank's own tokens (-inf for another rank's target), the
    log of the sum of exponentials of its logits, its largest logit, and the token that has it. A
    float32 holds every whole number up to 16,777,216, which is more than any vocabulary.

    Args:
        logits: Of the rank's tokens, [sources, vocab/tp].
        predicted_by: Which source predicts each target, [targets].
        targets: The tokens, [targets].
        vocabulary: The rank's tokens.
    """
    largest, best = logits.max(1)
    # lm-eval's `hf` model takes log_softmax, too, and so has the same rounding: over a long
    # continuation that of log_softmax and logsumexp differ by up to 1e-3.
    logprobs = logits.log_softmax(1)
    log_sum = largest - logprobs.gather(1, best[:, None]).squeeze(1)
    mine = (targets >= vocabulary.start) & (targets < vocabulary.stop)
    column = (targets - vocabulary.start).where(mine, 0)
    own = logprobs[predicted_by, column].where(mine, -math.inf)
    of_source = torch.stack((log_sum, largest, best + vocabulary.start), dim=1)
    return torch.cat((own[:, None], of_source[predicted_by]), dim=1)


def _combine(summaries: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and most likely token, [targets], from all ranks' summaries, [tp, ...]."""
    own, log_sum, largest, best = summaries.unbind(2)  # each [tp, targets]
    if len(summaries) == 1:
        return own[0], best[0].long()
    # A rank's own tokens have exp(log_sum - total) of all probability.
    total = log_sum.logsumexp(0)
    logprobs = (own + (log_sum - total)).amax(0)
    return logprobs, leading(largest, best)


def _by_request(requests: Tensor, logprobs: Tensor, greedy: Tensor) -> dict[int, LogLikelihood]:
    sums: dict[int, list[float]] = {}
    all_greedy: dict[int, bool] = {}
    rows = zip(requests.tolist(), logprobs.tolist(), greedy.tolist(), strict=True)
    for request, logprob, is_greedy in rows:
        if not math.isfinite(logprob):
            raise NotFiniteError(request, logprob)
        sums.setdefault(request, []).append(logprob)
        all_greedy[request] = all_greedy.get(request, True) and is_greedy
    return {i: LogLikelihood(math.fsum(sums[i]), all_greedy[i]) for i in sums}
