"""Texts as token ids: many at a time, each ended by itself, its place taken at once by the next.

Under tensor parallelism every rank mirrors the forwards. Which tokens come next, and when a text
is over, rank 0 alone decides, since it alone knows about text.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from ladder_eval.distributed.shares import shares
from ladder_eval.engine.decoding import candidates, leading
from ladder_eval.engine.free_memory import free_bytes
from ladder_eval.engine.memory import OutOfMemoryError, is_out_of_memory, together
from ladder_eval.engine.sampling import GREEDY, Sampling, draw
from ladder_eval.engine.schedule import Row, Schedule, Work
from ladder_eval.engine.scoring import NotFiniteError
from ladder_eval.errors import ScoringError
from ladder_eval.models.slots import Reading, SlotCache
from ladder_eval.models.transformer import Transformer

Stop = Callable[[Sequence[int]], bool]
"""Whether a text, given as the token ids so far, is over. Asked after each token."""

Found = TypeVar("Found")

# Tokens of prompts that a forward reads at most: enough to keep a processor busy, few enough that
# what lies between two layers stays small.
PROMPT_TOKENS = 512
# Keys and values of what prompts begin with, on a rank; one beginning may take more.
PREFIX_BYTES = 2**30
# Of a rank's free memory, what keys and values of slots may take at their longest.
SLOT_SHARE = 0.5
# Room for generated tokens that slots have at first: most texts end long before they may.
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


def generate(
    model: Transformer,
    requests: Sequence[GenerationRequest],
    stops: Sequence[Stop] = (),
    *,
    batch_size: int,
) -> Iterator[tuple[int, Generated]]:
    """Continue prompts, so many at a time; all ranks of the model's group call this together.

    What prompts begin with alike is read once. A text that is over is yielded, and the next prompt
    has its place, before anything else is computed.

    Args:
        model: One rank's part of a model.
        requests: The prompts, the same on all ranks.
        stops: What else ends each text; only rank 0's count.
        batch_size: Texts that are written at a time, if their keys and values fit into SLOT_SHARE
            of the memory that is free.

    Yields:
        Index and text of a request whose text is over, on rank 0; nothing on the others.

    Raises:
        NotFiniteError: on all ranks, if the model gives NaN or infinity.
        ScoringError: on all ranks, if memory doesn't suffice for one text at a time.
    """
    run = _Run(model, requests, stops, batch_size)
    while run.goes_on:
        yield from run.step()


class _Run:
    """Texts on their way through a model.

    Args:
        model: One rank's part of a model.
        requests: What is continued.
        stops: What else ends each text, on rank 0 alone.
        batch_size: Texts at a time.
    """

    def __init__(
        self,
        model: Transformer,
        requests: Sequence[GenerationRequest],
        stops: Sequence[Stop],
        batch_size: int,
    ) -> None:
        self._model = model
        self._device = model.embed_tokens.weight.device
        self._requests = requests
        paired = zip(requests, stops, strict=model.tp.rank == 0)
        self._texts = [_Text(request, stop) for request, stop in paired]
        self._schedule = Schedule(
            [request.prompt for request in requests],
            [request.max_gen_toks for request in requests],
            slots=min(batch_size, len(requests)),
            prefix_room=PREFIX_BYTES // _token_bytes(model),
        )
        self._most_columns = 0
        if requests:
            room = max(request.max_gen_toks for request in requests)
            self._most_columns = self._schedule.longest + room
            self._schedule.slots = min(self._schedule.slots, self._slots_that_fit())
        self._cache: SlotCache | None = None

    @property
    def goes_on(self) -> bool:
        """Whether any text isn't over."""
        return self._schedule.goes_on

    def _slots_that_fit(self) -> int:
        """How many slots fit at their longest, the same on all ranks; at least one.

        Not every system says that memory is used up before it ends the process.
        """
        model, tp = self._model, self._model.tp
        free = torch.tensor([free_bytes(self._device, tp.size) / tp.size], device=self._device)
        room = SLOT_SHARE * float(tp.all_gather(free).min())
        return max(1, int(room // (self._most_columns * _token_bytes(model))))

    def step(self) -> list[tuple[int, Generated]]:
        """Read the newest token of each text, and prompts where there is room.

        Returns:
            What is over now, on rank 0.
        """
        try:
            rows, hidden = self._read()
        except (RuntimeError, MemoryError) as error:
            if not self._is_met_by_all(error):
                raise
            hidden = None
        if hidden is None:  # outside of the handler, which would keep tensors alive
            self._make_do_with_less()
            return []
        if not rows:  # all are in the middle of their prompts
            return []
        newest = zip(rows, self._choose(rows, hidden), strict=True)
        return [text for row, token in newest for text in self._go_on(row, token)]

    def _is_met_by_all(self, error: Exception) -> bool:
        """Whether an error means that all ranks, knowingly, have too little memory."""
        alone = self._model.tp.size == 1
        return isinstance(error, OutOfMemoryError) or (alone and is_out_of_memory(error))

    @torch.inference_mode()
    def _read(self) -> tuple[list[Row], Tensor]:
        """One forward: rows that have been read to their ends, and their final hidden states."""
        schedule = self._schedule
        while (row := schedule.next_row()) is not None:
            if schedule.needs_prefix(row):
                self._read_prefix(row)
            schedule.admit(row)
        work = schedule.work(PROMPT_TOKENS)
        cache = self._planned([_reading(each) for each in work])
        hidden = self._model(
            self._one_text([token for each in work for token in each.tokens]),
            positions=self._one_text([place for each in work for place in each.places]),
            cache=cache,
        )
        ends = accumulate(each.count for each in work)
        ready = [(end - 1, each.row) for end, each in zip(ends, work, strict=True) if each.is_last]
        for each in work:
            each.row.read += each.count
        return [row for _, row in ready], hidden[0, [place for place, _ in ready]]

    def _one_text(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor([numbers], device=self._device)

    def _read_prefix(self, row: Row) -> None:
        """Keep what a row and others begin with."""
        model, ids = self._model, self._one_text(row.ids[: row.shared])
        prefix = self._together(lambda: model.new_cache(1, row.shared))
        for piece in ids.split(PROMPT_TOKENS, dim=1):
            model(piece, cache=prefix)
        self._slots().share(cast("int", row.prefix), prefix)

    def _planned(self, readings: Sequence[Reading]) -> SlotCache:
        cache = self._slots()
        columns = max(reading.end for reading in readings)
        if columns > cache.capacity:
            self._together(lambda: cache.reserve(columns, self._most_columns))
        cache.plan(readings)
        return cache

    def _slots(self) -> SlotCache:
        if self._cache is None:
            slots, model = self._schedule.slots, self._model
            room = max(request.max_gen_toks for request in self._requests)
            # For the longest prompt of all, so that too little memory shows at once.
            columns = self._schedule.longest + min(room, _FIRST_ROOM)
            self._cache = self._together(lambda: model.new_slots(slots, columns))
        return self._cache

    def _together(self, attempt: Callable[[], Found]) -> Found:
        return together(self._model.tp, self._device, attempt)

    def _make_do_with_less(self) -> None:
        """Go on with half as many texts at a time, from what each has so far.

        Raises:
            ScoringError: if there was but one.
        """
        schedule, self._cache = self._schedule, None
        if schedule.slots == 1:
            request = self._requests[schedule.first.request]
            raise ScoringError(
                f"A prompt of {len(request.prompt)} tokens with up to {request.max_gen_toks} more "
                "takes more memory than there is; spread the model over more ranks (--tp), or "
                "leave its task out."
            )
        schedule.restart(schedule.slots // 2)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _choose(self, rows: Sequence[Row], hidden: Tensor) -> list[int]:
        """The next token of each row after final hidden states, [rows, hidden]."""
        texts = [self._texts[row.request] for row in rows] if self._texts else []
        for text, token in zip(texts, self._likely(rows, texts, hidden), strict=False):
            text.add(token)
        # Rank 0 alone knows where a text ends, and tells it by a token that there isn't.
        newest = [_OVER if text.ended_by else text.tokens[-1] for text in texts]
        sent = torch.tensor(newest or [_OVER] * len(rows), device=hidden.device)
        tokens: list[int] = self._model.tp.from_first(sent).tolist()
        return tokens

    def _likely(self, rows: Sequence[Row], texts: Sequence["_Text"], hidden: Tensor) -> list[int]:
        """The token that each text's sampling takes, on rank 0; all ranks compute what it needs."""
        try:
            if any(not self._requests[row.request].sampling.is_greedy for row in rows):
                logits = _whole_logits(self._model, hidden)
                return [text.draw(own) for text, own in zip(texts, logits, strict=False)]
            largest, best = candidates(self._model, hidden)
            _require_finite(largest.amax(0))
        except NotFiniteError as error:
            raise NotFiniteError(rows[error.request].request, error.value) from None
        tokens: list[int] = leading(largest, best).tolist()
        return tokens

    def _go_on(self, row: Row, token: int) -> list[tuple[int, Generated]]:
        """Add a row's token, or free its slot; returns its text if it is over, on rank 0."""
        if token != _OVER:
            row.ids.append(token)
            return []
        unneeded = self._schedule.finish(row)
        if unneeded is not None:
            self._slots().forget(unneeded)
        if not self._texts:
            return []
        text = self._texts[row.request]
        return [(row.request, Generated(tuple(text.tokens), text.ended_by))]


def _token_bytes(model: Transformer) -> int:
    """Keys and values of a token on the rank that has most of them."""
    weight, config = model.embed_tokens.weight, model.config
    heads = max(len(share.kv_heads) for share in shares(config.shape, model.tp.size))
    return 2 * config.num_hidden_layers * heads * config.head_dim * weight.element_size()


def _reading(work: Work) -> Reading:
    row = work.row
    return Reading(slot=row.slot, start=row.read - row.shared, count=work.count, prefix=row.prefix)


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
