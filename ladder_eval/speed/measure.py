"""Interleaved rounds: every arm once in a round, every second round backwards.

Machines drift, so that only times taken close together can be compared: ratios are taken within a
round, and the alternating order gives no arm the better place. The baseline is timed twice in
each round, under two names; how far the second is from the first is what chance alone does.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeVar

from ladder_eval.distributed.virtual_link import NAME as VIRTUAL
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.timing import BlockSeconds, LayerSeconds, Timing
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Round, Trial, Workload
from ladder_eval.speed.simulation import simulate

AnyRound = TypeVar("AnyRound")

# Tokens for which decoding is timed to find the latency that a ratio stands for.
_CALIBRATION_TOKENS = 5
# Decode steps of a trial that are simulated, evenly spaced: each takes a millisecond.
_SIMULATED_STEPS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A virtual link whose latency may follow what the machine computes.

    Attributes:
        mode: serial or pipelined.
        bandwidth: Bytes a second.
        latency: Seconds, unless there is a ratio.
        ratio: The latency as a multiple of the mean block time of the same round: of decoding, or
            of prefill where only one token is asked for.

    Raises:
        UsageError: if a value makes no sense.
    """

    mode: str
    bandwidth: float
    latency: float = 0.0
    ratio: float | None = None

    def __post_init__(self) -> None:
        self.wire(0.0)  # checks the values

    def wire(self, block_seconds: float) -> Wire:
        """The wire for a round with this mean block time."""
        latency = self.latency if self.ratio is None else self.ratio * block_seconds
        return Wire(latency=latency, bandwidth=self.bandwidth, mode=self.mode)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What to time, on the weights that the driver has loaded.

    Attributes:
        arms: Configurations by name, in the order of the first round.
        baseline: Name of the arm that the others are compared with.
        bound: Name of the arm without communication.
        workload: What each of them generates.
        link: The virtual link; None for real messages.
        rounds: How many rounds.
        all_reduce: Of real messages, the kernel that sums them; None for the group's own.
        deadline: No round is begun that would end later, by `perf_counter`; the first always is.
    """

    arms: Mapping[str, ModelConfig]
    baseline: str
    bound: str
    workload: Workload
    link: Link | None
    rounds: int
    all_reduce: str | None = None
    deadline: float = float("inf")

    @property
    def carrier(self) -> str | None:
        """What carries messages, as `Driver.arrange` calls it."""
        return self.all_reduce if self.link is None else VIRTUAL


def measure(driver: Driver, what: Measurement, message_bytes: int) -> Iterator[Round]:
    """Warm up, then time round after round.

    Args:
        driver: Has the weights.
        what: What to time.
        message_bytes: Size of the prompt's messages, the largest.
    """
    driver.arrange(what.arms, what.carrier, message_bytes)

    def round_of(number: int) -> Round:
        return _round(driver, what, number, message_bytes)

    yield from in_rounds(driver, what, round_of)


def in_rounds(
    driver: Driver, what: Measurement, round_of: Callable[[int], AnyRound]
) -> Iterator[AnyRound]:
    """Warm up, then make round after round for as long as the deadline allows.

    Args:
        driver: Has the arms arranged.
        what: What to time.
        round_of: Makes the round with a number.
    """
    _warm_up(driver, what)
    longest = 0.0
    for number in range(1, what.rounds + 1):
        start = perf_counter()
        if start + longest > what.deadline and number > 1:
            return
        yield round_of(number)
        longest = max(longest, perf_counter() - start)


def _warm_up(driver: Driver, what: Measurement) -> None:
    short = replace(what.workload, output_len=min(2, what.workload.output_len))
    wire = None if what.link is None else what.link.wire(0.0)
    for name in what.arms:
        driver.time(name, short, wire)


def _round(driver: Driver, what: Measurement, number: int, message_bytes: int) -> Round:
    copied, multiplied = driver.copied_bytes_per_second(), driver.matmul_flops_per_second()
    wire = wire_of(driver, what)
    order = order_of(what.arms, number)
    # Only without communication is a block's time its computing alone.
    timings = {
        name: driver.time(name, what.workload, wire, watched=name == what.bound) for name in order
    }
    blocks = timings[what.bound].blocks
    prompts, steps = ([rank[part] for rank in blocks] for part in (slice(0, 1), slice(1, None)))
    step_bytes = message_bytes // what.workload.prompt_len
    prefill, decode = (
        bounds(what, prompts, wire, message_bytes),
        bounds(what, steps, wire, step_bytes),
    )
    return Round(
        number=number,
        latency=None if wire is None else wire.latency,
        prefill_blocks=tuple(medians(rank[:1]) for rank in blocks),
        decode_blocks=tuple(medians(rank[1:]) for rank in blocks if rank[1:]),
        copied_bytes_per_second=copied,
        trials=tuple(
            trial(name, timings[name], prefill.get(name), decode.get(name)) for name in order
        ),
        matmul_flops_per_second=multiplied,
    )


def order_of(arms: Mapping[str, ModelConfig], number: int) -> list[str]:
    """The arms of the round with a number: A B C, then C B A."""
    return list(arms) if number % 2 else list(arms)[::-1]


def wire_of(driver: Driver, what: Measurement) -> Wire | None:
    """The link of a round, after a look at what a block takes now.

    The look is taken in any case: it brings the weights back that the copy has driven out.
    """
    load = what.workload
    any_wire = None if what.link is None else what.link.wire(0.0)
    if load.output_len == 1:
        forwards = driver.time(what.bound, load, any_wire, watched=True).blocks
    else:
        # Decoding alone, on a cache that pretends to hold the prompt.
        steps = replace(load, prompt_len=1, output_len=_CALIBRATION_TOKENS)
        timing = driver.time(what.bound, steps, any_wire, cached=load.prompt_len, watched=True)
        forwards = tuple(rank[1:] for rank in timing.blocks)
    if what.link is None:
        return None
    return what.link.wire(mean_block_seconds([medians(rank) for rank in forwards]))


def mean_block_seconds(blocks: Sequence[tuple[float, ...]]) -> float:
    """Mean time of a block on the slower rank, from each rank's attention and MLP.

    The standard residual waits for the slowest rank after every block.
    """
    return statistics.fmean(max(rank[block] for rank in blocks) for block in (0, 1))


def medians(forwards: BlockSeconds) -> tuple[float, ...]:
    """Median seconds of attention and of MLP over layers and forwards."""
    layers = [layer for forward in forwards for layer in forward]
    return tuple(statistics.median(layer[block] for layer in layers) for block in (0, 1))


def trial(
    name: str, timing: Timing, prefill_bound: float | None, decode_bound: float | None
) -> Trial:
    """What a timing says of an arm, beside its simulated bounds."""
    moments = timing.seconds
    return Trial(
        arm=name,
        ttft=moments[0],
        itl=tuple(b - a for a, b in itertools.pairwise(moments)),
        driver_seconds=timing.driver_seconds,
        prefill_bound=prefill_bound,
        decode_bound=decode_bound,
        prefill_layers=_means(timing.layers[:1]),
        decode_layers=_means(timing.layers[1:]),
        joules=timing.joules,
    )


def _means(forwards: LayerSeconds) -> tuple[float, ...]:
    """Mean seconds of each layer."""
    return tuple(statistics.fmean(layer) for layer in zip(*forwards, strict=True))


def bounds(
    what: Measurement, blocks: Sequence[BlockSeconds], wire: Wire | None, message_bytes: int
) -> dict[str, float]:
    """The share of communication that each arm's dependencies let it hide, by simulation.

    Args:
        what: The arms.
        blocks: Of each rank, what the blocks took without communication.
        wire: What carries the messages; without one nothing is known.
        message_bytes: Size of one.
    """
    if wire is None:
        return {}
    every = list(zip(*blocks, strict=True))
    steps = every[:: math.ceil(len(every) / _SIMULATED_STEPS) or 1]
    seconds = {
        name: sum(simulate(config, step, wire, message_bytes) for step in steps)
        for name, config in what.arms.items()
    }
    base, least = seconds[what.baseline], seconds[what.bound]
    if base <= least:
        return {}
    return {name: (base - own) / (base - least) for name, own in seconds.items()}
