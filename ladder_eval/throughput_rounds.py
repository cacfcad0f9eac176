"""Rounds of two engines on one task's requests, and what is counted and compared beside them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from transformers import PreTrainedTokenizerBase

from ladder_eval.engine.driver import Driver
from ladder_eval.engine.free_memory import free_bytes
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution
from ladder_eval.harness.agreement import agreement_of, text_difference
from ladder_eval.harness.evaluation import PreparedTask
from ladder_eval.harness.own_model import OwnModel
from ladder_eval.harness.questions import (
    Answers,
    Questions,
    TokenRequests,
    metrics_of,
    questions_of,
)
from ladder_eval.harness.stock_model import StockModel
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.throughput import summarised
from ladder_eval.results.throughput_records import (
    OURS,
    STOCK,
    Agreement,
    BatchTry,
    TextDifference,
    ThroughputRound,
    ThroughputTask,
)
from ladder_eval.speed.products import products_flops_per_second
from ladder_eval.speed.request_work import Asked, counts_of, work_of_requests

_WARM_UP_DOCUMENTS = 2
# Products of more rows are no faster, and take longer to time.
_MOST_ROWS = 2048
# Logits and their log-probabilities stand beside each other, in nearly all of the memory.
_COPIES_OF_LOGITS = 2
_OF_FREE_MEMORY = 0.9

_TEXTS = "generate_until"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engines:
    """One model, loaded by both engines in one process.

    Attributes:
        config: The model.
        tokenizer: Its tokenizer.
        execution: Where both compute.
        driver: What has loaded it for this package's engine.
        own: This package's engine.
        stock: lm-eval's `hf`.
        batch_size: Of this package's engine.
    """

    config: ModelConfig
    tokenizer: PreTrainedTokenizerBase
    execution: Execution
    driver: Driver
    own: OwnModel
    stock: StockModel
    batch_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """What both engines are asked.

    Attributes:
        prepared: The task.
        questions: Its requests.
        tokens: The same as token ids.
    """

    prepared: PreparedTask
    questions: Questions
    tokens: TokenRequests

    def asked(self, texts: Sequence[Sequence[int]]) -> Asked:
        """The requests to be counted, with the token ids of the texts that were written."""
        return Asked(
            documents=self.questions.documents,
            requests=self.questions.count,
            scored=self.tokens.scored,
            written=list(zip(self.tokens.prompts, texts, strict=True)),
        )


def time_task(
    engines: Engines,
    prepared: PreparedTask,
    *,
    sizes: Sequence[int],
    documents: int,
    rounds: int,
    keep: Callable[[ThroughputRound], None],
) -> ThroughputTask:
    """Both engines in turns on a task's requests.

    Args:
        engines: The engines.
        prepared: The task.
        sizes: Batch sizes of `hf` to be tried.
        documents: Documents that they are tried on.
        rounds: How many rounds.
        keep: What is done with each before the next.

    Raises:
        LadderEvalError: if the requests can't be built, or `hf` has no room for any batch.
    """
    questions = questions_of(prepared)
    asking = Asking(prepared=prepared, questions=questions, tokens=engines.own.tokens(questions))
    tries = tuple(_try(engines, asking, size, documents) for size in sizes)
    best = _fastest(tries)
    engines.own.timed(questions.some(_WARM_UP_DOCUMENTS))  # `hf` is warm from being tried
    timed: list[ThroughputRound] = []
    for number in range(1, rounds + 1):
        each, answers = _round(engines, asking, number, best)
        keep(each)
        timed.append(each)
    return _task(engines, asking, tries, timed, answers)


def _task(
    engines: Engines,
    asking: Asking,
    tries: tuple[BatchTry, ...],
    rounds: Sequence[ThroughputRound],
    answers: Mapping[str, Answers],
) -> ThroughputTask:
    """What is known when all rounds are over; answers are those of the last."""
    texts = [_encode(engines, text) for text in answers[STOCK].get(_TEXTS, ())]
    asked = asking.asked(texts)
    size = engines.execution.torch_dtype.itemsize
    work = work_of_requests(engines.config, asked, rows=engines.batch_size, dtype_bytes=size)
    return ThroughputTask(
        task=asking.prepared.task.name,
        num_fewshot=asking.prepared.task.num_fewshot,
        counts=counts_of(asked),
        work=work,
        batch_size=engines.batch_size,
        stock_batch_size=_fastest(tries),
        tries=tries,
        rounds=tuple(rounds),
        summary=summarised(work, rounds),
        agreement=_agreement(engines, asking, answers),
    )


def _try(engines: Engines, asking: Asking, size: int, documents: int) -> BatchTry:
    """What some of the documents take `hf` with this batch size, if their logits have room.

    It computes the logits of every token that it reads of requests that are scored.
    """
    some = asking.questions.some(documents)
    longest = max((len(c) + len(t) - 1 for c, t in asking.tokens.scored), default=0)
    logits = size * longest * engines.config.vocab_size * engines.execution.torch_dtype.itemsize
    seconds = None
    if _COPIES_OF_LOGITS * logits < _OF_FREE_MEMORY * free_bytes(engines.execution.device, 1):
        engines.stock.timed(asking.questions.some(1), size)
        seconds = engines.stock.timed(some, size)[1].seconds
    return BatchTry(batch_size=size, documents=some.documents, seconds=seconds)


def _fastest(tries: Sequence[BatchTry]) -> int:
    timed = {each.seconds: each.batch_size for each in tries if each.seconds is not None}
    if not timed:
        raise UsageError("The logits of hf don't fit into memory; give a smaller --hf-batch-size.")
    return timed[min(timed)]


def _round(
    engines: Engines, asking: Asking, number: int, stock_batch_size: int
) -> tuple[ThroughputRound, dict[str, Answers]]:
    """Both engines, by turns the one and the other first, and what the machine gives then."""
    turns = [
        partial(engines.own.timed, asking.questions),
        partial(engines.stock.timed, asking.questions, stock_batch_size),
    ]
    first, second = turns if number % 2 else turns[::-1]
    answers, trial = first()
    copied = engines.driver.copied_bytes_per_second()
    matmul = engines.driver.matmul_flops_per_second()
    later_answers, later = second()
    rows, head_rows = _rows(asking, engines.own.batches)
    each = ThroughputRound(
        number=number,
        trials=(trial, later),
        product_rows=rows,
        products_flops_per_second=products_flops_per_second(
            *engines.stock.linears(), rows=rows, head_rows=head_rows
        ),
        matmul_flops_per_second=matmul,
        copied_bytes_per_second=copied,
    )
    return each, {trial.engine: answers, later.engine: later_answers}


def _rows(asking: Asking, batches: int) -> tuple[int, int]:
    """Tokens of a batch of ours, and how many need logits: the mean of all batches."""
    counts = counts_of(asking.asked([()] * len(asking.tokens.prompts)))
    rows = min(_MOST_ROWS, math.ceil(counts.unique_tokens / max(1, batches)))
    return rows, math.ceil(rows * counts.predicted_tokens / counts.unique_tokens)


def _agreement(engines: Engines, asking: Asking, answers: Mapping[str, Answers]) -> Agreement:
    ours, theirs = answers[OURS], answers[STOCK]
    first, second = (metrics_of(asking.prepared, asking.questions, each) for each in (ours, theirs))

    def difference(request: int, one: str, other: str) -> TextDifference:
        return text_difference(
            request,
            one,
            other,
            prompt=asking.tokens.prompts[request],
            encode=partial(_encode, engines),
            decode=engines.tokenizer.decode,
            gap=engines.stock.gap,
        )

    return agreement_of(ours, theirs, (first, second), difference)


def _encode(engines: Engines, text: str) -> list[int]:
    ids: list[int] = engines.tokenizer.encode(text, add_special_tokens=False)
    return ids
