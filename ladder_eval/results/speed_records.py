"""What a measurement of speed says, as frozen records. Seconds, bytes and fractions inside."""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "EMULATED",
    "MEASURED",
    "RANDOM",
    "EmulationRecord",
    "Estimate",
    "GapRecord",
    "LinkRecord",
    "PhaseRecord",
    "Round",
    "SpeedRecord",
    "SpeedRow",
    "Trial",
    "Work",
    "Workload",
]

RANDOM: Final = "random"
"""The `SpeedRecord.weights` of weights that were made up."""

MEASURED: Final = "measured"
"""The `SpeedRecord.kind` of times of all ranks."""

EMULATED: Final = "emulated"
"""The `SpeedRecord.kind` of times of one rank, whose messages were delays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What is generated.

    Attributes:
        batch_size: Rows.
        prompt_len: Tokens in.
        output_len: Tokens out.
    """

    batch_size: int
    prompt_len: int
    output_len: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a generation asks of the ranks that were timed together, whatever the residual.

    Attributes:
        ranks: Ranks of the group; of emulated ones only one is timed.
        prefill_flops: Floating-point operations of reading the prompt.
        step_bytes: Weights and cache that a decode step reads.
    """

    ranks: int
    prefill_flops: float
    step_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One generation of one arm.

    Attributes:
        arm: Its name.
        ttft: Seconds to the first token, from a start that all ranks wait for.
        itl: Seconds from each token to the next.
        driver_seconds: What the driver took beside it, to tell the ranks and to hear from them.
        prefill_bound: The hidden_comm of prefill that a simulation of the dependencies gives, with
            the block times that no-comm had in the same round; None if there is none to hide.
        decode_bound: The same of decoding.
        prefill_layers: Of an emulated rank, the seconds of each layer of the prompt.
        decode_layers: The same of a token, mean over all.
        joules: What the GPUs of all ranks consumed in it; None where they don't say.
    """

    arm: str
    ttft: float
    itl: tuple[float, ...]
    driver_seconds: float
    prefill_bound: float | None
    decode_bound: float | None
    prefill_layers: tuple[float, ...] = ()
    decode_layers: tuple[float, ...] = ()
    joules: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One trial of each arm, one after the other; every second round goes backwards.

    Attributes:
        number: From 1.
        latency: Seconds of the link's latency in this round; None where it isn't modelled.
        prefill_blocks: Median seconds of each rank's attention and MLP without communication; on
            a GPU they aren't watched.
        decode_blocks: The same of decoding; empty if only one token is asked for.
        copied_bytes_per_second: What plain copies on all ranks at once read and write.
        trials: In the order in which they were made.
        lateness: Mean seconds by which the slowest rank sends a block's message of the baseline
            after an emulated one; None where ranks are measured.
        matmul_flops_per_second: Operations that plain matrix products on all ranks at once do a
            second, in the dtype of the weights; None where they weren't timed.
    """

    number: int
    latency: float | None
    prefill_blocks: tuple[tuple[float, ...], ...]
    decode_blocks: tuple[tuple[float, ...], ...]
    copied_bytes_per_second: float
    trials: tuple[Trial, ...]
    lateness: float | None = None
    matmul_flops_per_second: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A median over rounds.

    Attributes:
        value: The median.
        low: Lower end of its interval.
        high: Upper end.
        confidence: The interval's exact coverage, which few rounds keep below 0.95.
        rounds: How many rounds it is of.
    """

    value: float
    low: float
    high: float
    confidence: float
    rounds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRecord:
    """Prefill, decoding or a whole generation of one arm.

    Attributes:
        seconds: Of prefill its ttft, of decoding its tpot, of the whole its e2e latency.
        speedup: The baseline's seconds divided by the arm's, in the same round; None for itself.
        comm: (T_baseline - T) / (T_baseline - T_no_comm), the share of the exposed communication
            that is hidden or saved, as the row's `comm_name` says; None where it can't be computed.
        bound: The same from a simulation of the dependencies with measured block times.
        efficiency: comm / bound.
    """

    seconds: Estimate
    speedup: Estimate | None
    comm: Estimate | None
    bound: Estimate | None
    efficiency: Estimate | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GapRecord:
    """Where a forward takes longer than its dependencies ask for; seconds, means over ranks.

    It is of the layers of one traced forward, and of their simulation with the block times that
    no-comm had in its trace. What stands below `simulated` sums to measured - simulated.

    Attributes:
        measured: From the first block to the last output in the stream.
        simulated: The same by simulation.
        skew: Waiting for ranks that send later, beyond what the simulation has of it.
        wake_up: From arrivals to the ends of waits: looking at the clock, and the sum.
        link: Waiting for the link, beyond the simulation's; negative where slower blocks hid more.
        compute: Blocks, beyond no-comm's: memory that is shared with messages, or chance.
        between: All else: sending, adding to the stream, Python between blocks.
    """

    measured: float
    simulated: float
    skew: float
    wake_up: float
    link: float
    compute: float
    between: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRow:
    """One arm of a measurement.

    Attributes:
        arm: Its name.
        role: baseline, candidate, bound (no-comm) or control (the baseline once more).
        residual: Its residual.
        ladder_layers: Its ladder layers.
        comm_name: `hidden_comm` of ladder layers, `comm_saved` of residuals that send less.
        prefill: The prompt.
        decode: The tokens after the first; None if there are none.
        total: The whole generation.
        itl: Median gap between tokens; None if there are none.
        tokens_per_s: Tokens of all rows by e2e latency.
        tokens_per_s_per_row: The same by rows: what one user sees.
        tokens_per_s_per_rank: The same by ranks: what one device gives.
        bandwidth_utilisation: Bytes of weights and cache that a decode step reads, by tpot and by
            what a plain copy moves in the same round; None if only one token is asked for.
        flop_utilisation: Operations of prefill, by ttft and by what plain matrix products do in
            the same round.
        joules_per_token: Energy of all GPUs by tokens of all rows; None where they don't say.
        gap: Of a traced arm over a modelled link.
    """

    arm: str
    role: str
    residual: str
    ladder_layers: tuple[int, ...]
    comm_name: str
    prefill: PhaseRecord
    decode: PhaseRecord | None
    total: PhaseRecord
    itl: Estimate | None
    tokens_per_s: Estimate
    tokens_per_s_per_row: Estimate | None = None
    tokens_per_s_per_rank: Estimate | None = None
    bandwidth_utilisation: Estimate | None = None
    flop_utilisation: Estimate | None = None
    joules_per_token: Estimate | None = None
    gap: GapRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkRecord:
    """What carried the all-reduces.

    Attributes:
        name: `virtual link`, or the backend of real messages: gloo, nccl, none.
        mode: Of a virtual link: serial or pipelined.
        latency: Of a virtual link, in seconds; where it follows the block time, the median.
        latency_ratio: The latency as a multiple of the mean block time of the same round.
        bandwidth: Of a virtual link, in bytes a second.
    """

    name: str
    mode: str | None
    latency: float | None
    latency_ratio: float | None
    bandwidth: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EmulationRecord:
    """What was put in place of the ranks that weren't there.

    Attributes:
        rank: The rank whose share was computed.
        skew: Seconds of the standard deviation of a block's time over ranks, if it was given; None
            if the others' times were drawn from those of the emulated rank's blocks.
        lateness: Median over rounds of the mean seconds by which the slowest rank sends a block's
            message of the baseline after the emulated one.
        extrapolated: Whether the times are those of all layers, though fewer were timed.
    """

    rank: int
    skew: float | None
    lateness: float
    extrapolated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRecord:
    """Residuals on the same weights and work, in interleaved rounds, and their conditions.

    Attributes:
        model: What was timed, by name.
        weights: RANDOM, or where the weights came from.
        workload: What was generated.
        tp_size: Size of the tensor-parallel group.
        link: What carried its messages.
        device: Device of every rank.
        dtype: Number format.
        threads: CPU threads of a rank.
        num_hidden_layers: Layers that were timed.
        all_hidden_layers: Layers that the model has.
        vocab_size: Vocabulary that was timed.
        all_vocab_size: Vocabulary that the model has.
        heads_per_rank: Query heads of each rank.
        kv_heads_per_rank: Key-value heads of each rank.
        weight_bytes_per_rank: Size of each rank's weights.
        peak_memory_bytes: Largest size of each rank while it timed, all arms together.
        warm_up: Short generations of each arm before the first round.
        rounds: Rounds made.
        rounds_asked: Rounds asked for; a limit of time can leave fewer.
        attention_seconds: Of each rank, in decoding, or in prefill if only one token is asked for.
        mlp_seconds: The same of the MLP.
        copied_bytes_per_second: What plain copies on all ranks at once read and write.
        read_bytes_per_second: Weights and cache that no-comm reads, by its tpot; None if only one
            token is asked for.
        driver_share: What the driver adds to a generation of the baseline, as a share of its time.
        rows: One an arm.
        kind: MEASURED or EMULATED.
        emulation: Of emulated times; what is said of each rank is then of the emulated one alone,
            but for the heads.
        matmul_flops_per_second: Operations a second of plain matrix products on all ranks at once.
    """

    model: str
    weights: str
    workload: Workload
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
    attention_seconds: tuple[float, ...]
    mlp_seconds: tuple[float, ...]
    copied_bytes_per_second: float
    read_bytes_per_second: float | None
    driver_share: float
    rows: tuple[SpeedRow, ...]
    kind: str = MEASURED
    emulation: EmulationRecord | None = None
    matmul_flops_per_second: float | None = None
