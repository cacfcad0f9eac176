"""Texts as token ids: prompts in batches, each ended by itself, whatever its neighbours do.

Under tensor parallelism every rank mirrors the forwards. Which tokens come next, and when a batch
is done, rank 0 alone decides, since it alone knows about text.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladder_eval.distributed.shares import shares
from ladder_eval.engine.decoding import candidates, decode, leading
from ladder_eval.engine.sampling import GREEDY, Sampling, draw
from ladder_eval.engine.scoring import NotFiniteError
from ladder_eval.models.transformer import Transformer

Stop = Callable[[Sequence[int]], bool]
"""Whether a text, given as the token ids so far, is over. Asked after each token."""

# Room that a cache has at first: most texts end long before they may.
_FIRST_ROOM = 256
# In place of the next token of a text that is over.
_OVER = -1


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt to be continued.

    Attributes:
        prompt: Its token ids.
        max_gen_toks: Most tokens to generate.
        eos: Tokens that end a text; none of them is part of it.
        sampling: How tokens are drawn.

    Raises:
        ValueError: if there is no prompt, or nothing to generate.
    """

    prompt: tuple[int, ...]
    max_gen_toks: int
    eos: tuple[int, ...] = ()
    sampling: Sampling = GREEDY

    def __post_init__(self) -> None:
        if not self.prompt or self.max_gen_toks < 1:
            raise ValueError("a request needs a prompt, and room for at least one token")


@dataclass(frozen=True, slots=True)
class Generated:
    """The answer to a generation request.

    Attributes:
        tokens: What was generated, without the token that ended it.
        ended_by: `eos`, `stop`, or `length` where the text had to be cut.
    """

    tokens: tuple[int, ...]
    ended_by: str


@dataclass(frozen=True, slots=True)
class GeneratedBatch:
    """What one batch has answered: request index → text, and its cost in tokens."""

    answers: dict[int, Generated]
    tokens: int


def generate(
    answer: Callable[[Sequence[GenerationRequest], Sequence[Stop]], list[Generated]],
    requests: Sequence[GenerationRequest],
    stops: Sequence[Stop],
    *,
    batch_size: int,
) -> Iterator[GeneratedBatch]:
    """Continue prompts, batch by batch: those of like lengths together, the longest first.

    Args:
        answer: Continues the prompts of a batch, such as `generate_batch` of a model.
        requests: The prompts.
        stops: What else ends each text.
        batch_size: Prompts in one forward.

    Raises:
        NotFiniteError: if the model gives NaN or infinity.
    """

    def cost(index: int) -> tuple[int, int]:
        return requests[index].max_gen_toks, len(requests[index].prompt)

    order = sorted(range(len(requests)), key=cost, reverse=True)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        try:
            texts = answer([requests[i] for i in batch], [stops[i] for i in batch])
        except NotFiniteError as error:
            raise NotFiniteError(batch[error.request], error.value) from None
        tokens = sum(len(requests[i].prompt) for i in batch) + sum(len(t.tokens) for t in texts)
        yield GeneratedBatch(dict(zip(batch, texts, strict=True)), tokens)


def generate_batch(
    model: Transformer, requests: Sequence[GenerationRequest], stops: Sequence[Stop] = ()
) -> list[Generated]:
    """Continue the prompts of a batch; all ranks of the model's group call this together.

    Args:
        model: One rank's part of a model.
        requests: The prompts, the same on all ranks.
        stops: What else ends each text; only rank 0's count.

    Returns:
        The texts on rank 0; nothing on the others.

    Raises:
        NotFiniteError: on all ranks, if the model gives NaN or infinity.
    """
    device = model.embed_tokens.weight.device
    prompts, lengths = _padded(requests, device)
    room = max(request.max_gen_toks for request in requests)
    cache = model.new_cache(len(requests), prompts.shape[1] + min(room, _FIRST_ROOM))
    paired = zip(requests, stops, strict=model.tp.rank == 0)
    texts = [_Text(request, stop) for request, stop in paired]
    rows = _Rows(model, requests, texts)
    steps = decode(model, prompts, cache, rows.choose, lengths)
    next(steps)
    while rows.are_open:
        steps.send(rows.kept())
    return [Generated(tuple(text.tokens), text.ended_by) for text in texts]


class _Rows:
    """The rows that are computed: those whose texts go on, and a few whose texts are over.

    Args:
        model: One rank's part of a model.
        requests: What each row continues.
        texts: What each row has so far, on rank 0 alone.
    """

    def __init__(
        self, model: Transformer, requests: Sequence[GenerationRequest], texts: Sequence["_Text"]
    ) -> None:
        self._model = model
        self._texts = texts
        self._sampled = any(not request.sampling.is_greedy for request in requests)
        self._order = list(range(len(requests)))  # the request of each row
        self._open = [True] * len(requests)

    @property
    def are_open(self) -> bool:
        """Whether any text goes on."""
        return any(self._open)

    def choose(self, hidden: Tensor) -> Tensor:
        """The next token of each row, [rows], after final hidden states, [rows, hidden]."""
        texts = [self._texts[index] for index in self._order] if self._texts else []
        for text, token in zip(texts, self._tokens(hidden, texts), strict=False):
            text.add(token)
        # Rank 0 alone knows where a text ends, and tells it by a token that there isn't.
        newest = [_OVER if text.ended_by else text.tokens[-1] for text in texts]
        sent = torch.tensor(newest or [_OVER] * len(self._order), device=hidden.device)
        tokens = self._model.tp.from_first(sent)
        self._open = [token != _OVER for token in tokens.tolist()]
        return tokens.clamp(min=0)

    def kept(self) -> Tensor | None:
        """The rows to go on with, [rows], if half of them or more can be left out; else None."""
        going = [row for row, is_open in enumerate(self._open) if is_open]
        if 2 * len(going) > len(self._order):
            return None
        self._order = [self._order[row] for row in going]
        return torch.tensor(going, device=self._model.embed_tokens.weight.device)

    def _tokens(self, hidden: Tensor, texts: Sequence["_Text"]) -> list[int]:
        try:
            if self._sampled:
                logits = _whole_logits(self._model, hidden)
                return [text.draw(own) for text, own in zip(texts, logits, strict=False)]
            largest, best = candidates(self._model, hidden)
            _require_finite(largest.amax(0))
        except NotFiniteError as error:
            raise NotFiniteError(self._order[error.request], error.value) from None
        tokens: list[int] = leading(largest, best).tolist()
        return tokens


@dataclass(slots=True)
class _Text:
    """One row on rank 0: what it has so far, and whether it is over."""

    request: GenerationRequest
    stop: Stop
    tokens: list[int] = field(default_factory=list)
    ended_by: str = ""
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.request.sampling.seed)

    def draw(self, logits: Tensor) -> int:
        """The next token after logits of the whole vocabulary, [vocab]."""
        sampling = self.request.sampling
        if sampling.is_greedy:
            return int(logits.argmax())
        return draw(logits, sampling, self.chance.random())

    def add(self, token: int) -> None:
        """Go on with a token; after the end nothing is added."""
        if self.ended_by:
            return
        if token in self.request.eos:
            self.ended_by = "eos"
            return
        self.tokens.append(token)
        if self.stop(self.tokens):
            self.ended_by = "stop"
        elif len(self.tokens) == self.request.max_gen_toks:
            self.ended_by = "length"


def _padded(
    requests: Sequence[GenerationRequest], device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Prompts, [batch, prompt_len], padded on the right, and their lengths if these differ."""
    lengths = [len(request.prompt) for request in requests]
    rows = [torch.tensor(request.prompt) for request in requests]
    prompts = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
    even = len(set(lengths)) == 1
    return prompts, None if even else torch.tensor(lengths, device=device)


def _whole_logits(model: Transformer, hidden: Tensor) -> Tensor:
    """Float32 logits of the whole vocabulary on every rank, [batch, vocab]."""
    parts = [share.vocabulary for share in shares(model.config.shape, model.tp.size)]
    own = model.logits(hidden)  # [batch, vocab/tp]
    widest = max(map(len, parts))
    gathered = model.tp.all_gather(functional.pad(own, (0, widest - own.shape[1])))
    pieces = [piece[:, : len(part)] for piece, part in zip(gathered, parts, strict=True)]
    logits = torch.cat(pieces, dim=1)
    _require_finite(logits.amax(1))
    return logits


def _require_finite(largest: Tensor) -> None:
    """Refuse rows, [batch], whose largest logit is NaN or infinite: their weights are broken."""
    for row, value in enumerate(largest.tolist()):
        if not math.isfinite(value):
            raise NotFiniteError(row, value)
