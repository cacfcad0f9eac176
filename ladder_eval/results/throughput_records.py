"""What `bench throughput` says, as frozen records. Seconds, bytes and fractions inside."""

from dataclasses import dataclass
from typing import Final

from ladder_eval.results.records import Provenance
from ladder_eval.results.speed_records import Estimate

__all__ = [
    "OURS",
    "STOCK",
    "Agreement",
    "BatchTry",
    "MetricPair",
    "RequestCounts",
    "RequestWork",
    "TextDifference",
    "ThroughputResult",
    "ThroughputRound",
    "ThroughputSummary",
    "ThroughputTask",
    "ThroughputTrial",
]

OURS: Final = "ladder-eval"
"""The `ThroughputTrial.engine` of this package."""

STOCK: Final = "hf"
"""The `ThroughputTrial.engine` of lm-eval's own model for transformers checkpoints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestCounts:
    """How much is asked, in requests and in their tokens.

    Attributes:
        documents: Documents of the task.
        requests: lm-eval's requests for them.
        tokens: Tokens of all requests, what stands before each and what is asked for or written.
        unique_tokens: Tokens that have to be read if nothing that requests share is read twice.
        predicted_tokens: How many of them have to be followed by logits.
        written_tokens: Tokens of the texts that were written, without what ended them, as the
            tokenizer cuts the whole text.
    """

    documents: int
    requests: int
    tokens: int
    unique_tokens: int
    predicted_tokens: int
    written_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestWork:
    """What the requests ask of a machine at least, whatever computes them.

    Attributes:
        read_flops: Operations of reading the unique tokens of what is given.
        write_flops: Operations of reading what is written, but for each text's last token.
        write_bytes: Bytes of weights, keys and values that writing reads.
    """

    read_flops: float
    write_flops: float
    write_bytes: float

    @property
    def flops(self) -> float:
        """All operations."""
        return self.read_flops + self.write_flops


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTry:
    """One batch size of `hf`, tried before the rounds.

    Attributes:
        batch_size: Its rows.
        documents: Documents that it was tried on.
        seconds: What they took; None where its logits don't fit into memory.
    """

    batch_size: int
    documents: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputTrial:
    """One engine's answers to all requests of a task.

    Attributes:
        engine: OURS or STOCK.
        seconds: From the requests as text to the last answer.
        read_tokens: Tokens that it says it has read; of STOCK, all places of its batches.
    """

    engine: str
    seconds: float
    read_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputRound:
    """Both engines, one after the other, and what the machine gave beside them.

    Attributes:
        number: From 1.
        trials: In the order in which they ran.
        product_rows: Rows of the matrix products of `products_flops_per_second`.
        products_flops_per_second: Operations a second of the model's own matrix products alone.
        matmul_flops_per_second: The same of one plain square product.
        copied_bytes_per_second: Bytes read and written a second by a plain copy.
    """

    number: int
    trials: tuple[ThroughputTrial, ...]
    product_rows: int
    products_flops_per_second: float
    matmul_flops_per_second: float
    copied_bytes_per_second: float

    def trial(self, engine: str) -> ThroughputTrial:
        """The trial of an engine."""
        return next(trial for trial in self.trials if trial.engine == engine)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricPair:
    """A metric of the task, from the answers of both engines.

    Attributes:
        metric: Its name, and after which filter.
        ours: Its value.
        theirs: The value from STOCK's answers.
    """

    metric: str
    ours: float
    theirs: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDifference:
    """A text that the engines wrote differently.

    Attributes:
        request: The request's place in the task, from 0.
        position: The text's first token that differs, from 0.
        gap: By how much the best logit there is above the second best, as STOCK's model has them.
        ours: The text from there on, its start.
        theirs: The same of STOCK.
    """

    request: int
    position: int
    gap: float
    ours: str
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How the answers of both engines differ.

    Attributes:
        metrics: The task's metrics.
        choices: Largest difference of a continuation's log-likelihood; None where none is asked.
        greedy: Continuations that only one of both says to be the most likely.
        rolling: Largest relative difference of a whole text's; None where none is asked.
        texts: Texts that were written.
        differences: Those that differ.
    """

    metrics: tuple[MetricPair, ...]
    choices: float | None
    greedy: int
    rolling: float | None
    texts: int
    differences: tuple[TextDifference, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSummary:
    """What the rounds say, each a median with its interval.

    Attributes:
        seconds: Of OURS.
        stock_seconds: Of STOCK.
        times_as_fast: STOCK's seconds by those of OURS in the same round.
        flops_per_second: The operations that are needed at least, by the seconds of OURS.
        of_limit: The seconds that the machine needs at least, by those of OURS in the same round.
    """

    seconds: Estimate
    stock_seconds: Estimate
    times_as_fast: Estimate
    flops_per_second: Estimate
    of_limit: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputTask:
    """One task's requests, answered by both engines.

    Attributes:
        task: The task's name.
        num_fewshot: Examples in each prompt.
        counts: How much is asked.
        work: What that takes at least.
        batch_size: Of OURS.
        stock_batch_size: Of STOCK, the fastest of those tried.
        tries: Those tried.
        rounds: The rounds.
        summary: What they say.
        agreement: Whether the answers are the same.
    """

    task: str
    num_fewshot: int
    counts: RequestCounts
    work: RequestWork
    batch_size: int
    stock_batch_size: int
    tries: tuple[BatchTry, ...]
    rounds: tuple[ThroughputRound, ...]
    summary: ThroughputSummary
    agreement: Agreement


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputResult:
    """All that one `bench throughput` found out.

    Attributes:
        run_id: Its name.
        model: The model's name.
        weights: Where its weights came from.
        fingerprint: Hash of all that determines its answers.
        dtype: Number format of both engines.
        device: Device of both.
        threads: Threads of torch on the CPU, the same for both.
        suite: The suite that the tasks are asked as in, or "" for their own files.
        parts: Of each task, the number of first parts that were kept; None for all.
        limit: Documents a task, or a part with `stock` examples; None for all.
        seed: Seed of the choice.
        fewshot: How examples are drawn.
        provenance: Versions, hardware, command and time.
        tasks: The tasks.
    """

    run_id: str
    model: str
    weights: str
    fingerprint: str
    dtype: str
    device: str
    threads: int
    suite: str
    parts: int | None
    limit: int | None
    seed: int
    fewshot: str
    provenance: Provenance
    tasks: tuple[ThroughputTask, ...]
