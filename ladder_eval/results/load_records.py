"""What was measured under load, and of a run's requests, as frozen records. Seconds inside."""

from dataclasses import dataclass
from typing import Final

from ladder_eval.results.speed_records import MEASURED, Estimate, LinkRecord

__all__ = [
    "FEWEST_FOR_P99",
    "Conditions",
    "Latency",
    "Lengths",
    "LoadRecord",
    "LoadRound",
    "LoadRow",
    "LoadTrial",
    "Percentile",
    "ReplayRecord",
    "ReplayRound",
    "ReplayRow",
    "Served",
]

FEWEST_FOR_P99: Final = 100
"""With fewer requests, the slowest of them alone is more than one in a hundred."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """One request, and when it was served, in seconds from the start of its round.

    Attributes:
        arrival: When it came.
        start: When its batch was begun.
        first: When it had its first token.
        last: When it had its last one.
        prompt_len: Tokens in.
        output_len: Tokens out.
    """

    arrival: float
    start: float
    first: float
    last: float
    prompt_len: int
    output_len: int

    @property
    def ttft(self) -> float:
        """Seconds from the arrival to the first token, with the time in the queue."""
        return self.first - self.arrival

    @property
    def tpot(self) -> float:
        """(last - first) / (output_len - 1), seconds a token after the first.

        Raises:
            ZeroDivisionError: if there is only one.
        """
        return (self.last - self.first) / (self.output_len - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadTrial:
    """All requests served once by one arm, in the order of their arrival."""

    arm: str
    served: tuple[Served, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadRound:
    """One trial of each arm with the same arrivals; every second round goes backwards.

    Attributes:
        number: From 1.
        latency: Seconds of the link's latency in this round; None where it isn't modelled.
        trials: In the order in which they were made.
    """

    number: int
    latency: float | None
    trials: tuple[LoadTrial, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRound:
    """A run's batches computed once by each arm; every second round goes backwards.

    Attributes:
        number: From 1.
        latency: As of `LoadRound`.
        seconds: Of each arm by name, in the order of the trials, what each batch took.
    """

    number: int
    latency: float | None
    seconds: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentile:
    """A percentile over requests, or a ratio of two.

    Attributes:
        value: By nearest rank, over all rounds of all requests.
        low: Lower end of its 95 % interval, by drawing requests anew; None if they are all alike.
        high: Upper end.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """ttft or tpot of one arm.

    Attributes:
        p50: In seconds.
        p99: In seconds.
        speedup_p50: The baseline's p50 divided by the arm's; None for itself.
        speedup_p99: The same of p99.
        requests: How many requests have this time.
    """

    p50: Percentile
    p99: Percentile
    speedup_p50: Percentile | None
    speedup_p99: Percentile | None
    requests: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadRow:
    """One arm under load.

    Attributes:
        arm: Its name.
        role: As of `SpeedRow`.
        residual: Its residual.
        ladder_layers: Its ladder layers.
        ttft: From arrival to first token.
        tpot: A token after the first; None if no request has one.
        utilisation: The share of the time to the last token in which a batch was computed.
        capacity: batch_size divided by the mean seconds of a full batch, in requests a second;
            None if no batch was full.
        requests_per_s: Requests divided by the time to the last token.
        mean_batch: Mean number of requests in a batch.
    """

    arm: str
    role: str
    residual: str
    ladder_layers: tuple[int, ...]
    ttft: Latency
    tpot: Latency | None
    utilisation: float
    capacity: float | None
    requests_per_s: float
    mean_batch: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRow:
    """One arm with a run's requests.

    Attributes:
        arm: Its name.
        role: As of `SpeedRow`.
        residual: Its residual.
        ladder_layers: Its ladder layers.
        seconds: Of all batches.
        tokens_per_s: Tokens read and written, without padding, by these seconds.
        speedup: The baseline's seconds divided by the arm's, in the same round; None for itself.
    """

    arm: str
    role: str
    residual: str
    ladder_layers: tuple[int, ...]
    seconds: Estimate
    tokens_per_s: Estimate
    speedup: Estimate | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What was timed, and where; the attributes are those of `SpeedRecord`."""

    model: str
    weights: str
    tp_size: int
    link: LinkRecord
    device: str
    dtype: str
    threads: int
    num_hidden_layers: int
    all_hidden_layers: int
    vocab_size: int
    all_vocab_size: int
    heads_per_rank: tuple[int, ...]
    kv_heads_per_rank: tuple[int, ...]
    weight_bytes_per_rank: tuple[int, ...]
    peak_memory_bytes: tuple[int, ...]
    warm_up: int
    rounds: int
    rounds_asked: int
    kind: str = MEASURED


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """Tokens of several requests.

    Attributes:
        shortest: Of the shortest.
        mean: Mean over all.
        longest: Of the longest.
    """

    shortest: int
    mean: float
    longest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadRecord:
    """Residuals under the same open-loop load, first come first served in static batches.

    Attributes:
        conditions: What was timed, and where.
        rate: Mean arrivals a second, a Poisson process.
        seed: Of arrivals and drawn lengths.
        requests: How many arrived.
        prompt_lens: Of the prompts, in tokens.
        output_lens: Of the outputs, in tokens.
        lengths: Where the lengths come from: "as given", or the requests of a run.
        batch_size: Most requests in a batch.
        policy: How requests were served, in words.
        method: How percentiles and their intervals were computed, in words.
        rows: One an arm.
    """

    conditions: Conditions
    rate: float
    seed: int
    requests: int
    prompt_lens: Lengths
    output_lens: Lengths
    lengths: str
    batch_size: int
    policy: str
    method: str
    rows: tuple[LoadRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRecord:
    """Residuals with the lengths and batches of an accuracy run.

    Attributes:
        conditions: What was timed, and where; its weights are the timed ones.
        run_id: The run.
        suite: Its suite.
        requests_of: The model of the run whose requests these are.
        seed: Of the draw of batches.
        requests: Requests that were replayed.
        all_requests: Requests that the run has answered.
        scored: Of the replayed requests, continuations that were scored.
        batches: Replayed batches, each grouped as the run had it.
        read_tokens: Tokens of prompts, without padding, of contexts only once.
        written_tokens: Tokens generated.
        rows: One an arm.
    """

    conditions: Conditions
    run_id: str
    suite: str
    requests_of: str
    seed: int
    requests: int
    all_requests: int
    scored: int
    batches: int
    read_tokens: int
    written_tokens: int
    rows: tuple[ReplayRow, ...]
