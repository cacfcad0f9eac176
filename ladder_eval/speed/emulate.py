"""Rounds of one rank on one device: its blocks are timed, those of the others drawn from them.

In each round the rank's blocks are watched first, without communication. Every rank of the group
gets block times drawn from theirs, and the simulation of the dependencies says by how much the
slowest of them sends each message after the emulated one. That, the bytes by the wire's bandwidth,
and its latency are the delay of each message in the trials that follow.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from random import Random

from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.timing import BlockSeconds
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Round, Workload
from ladder_eval.speed.measure import (
    Measurement,
    bounds,
    in_rounds,
    mean_block_seconds,
    medians,
    order_of,
    trial,
)
from ladder_eval.speed.simulation import LayerSeconds, lateness

# Tokens of the generation whose blocks are watched.
_WATCHED_TOKENS = 17
# Decode steps that are drawn; a longer generation goes through them again.
_DRAWN_STEPS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Emulation:
    """One device in place of a group of ranks.

    Attributes:
        rank: The rank whose share is computed.
        tp_size: Ranks of the group.
        skew: Seconds of the standard deviation of a block's time, normal around the median; None
            to draw from the times that the emulated rank's blocks have.
        whole: The arms with all layers that the model has.
    """

    rank: int
    tp_size: int
    skew: float | None
    whole: Mapping[str, ModelConfig]


@dataclass(frozen=True, kw_only=True, slots=True)
class Forward:
    """A forward of all ranks, as it is drawn.

    Attributes:
        ranks: Of each rank, what its blocks take.
        message_bytes: Size of a message.
    """

    ranks: Sequence[LayerSeconds]
    message_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """What the ranks do in one round, and over which wire.

    Attributes:
        wire: The wire.
        prefill: The prompt's forward.
        decode: Those of tokens, over which a generation goes as often as it takes.
    """

    wire: Wire
    prefill: Forward
    decode: Sequence[Forward]


def emulate(
    driver: Driver, what: Measurement, emulation: Emulation, message_bytes: int
) -> Iterator[Round]:
    """As `measure`, of one rank alone; bounds are those of the whole models.

    Args:
        driver: Has the rank's weights, on a team that is `one_of` a group.
        what: What to time; it has a link.
        emulation: What its device stands for.
        message_bytes: Size of the prompt's messages, the largest.
    """
    driver.arrange(what.arms, None, message_bytes)

    def round_of(number: int) -> Round:
        return _round(driver, what, emulation, number, message_bytes)

    yield from in_rounds(driver, what, round_of)


def drawn_layers(
    watched: BlockSeconds, layers: int, skew: float | None, draw: Random
) -> LayerSeconds:
    """What the blocks of one rank take in one forward, [layers].

    They are drawn from the layers of one of the watched forwards, which is drawn first: what slows
    a whole forward down then slows all layers of one rank. With `skew` they are normal instead.

    Args:
        watched: Of each forward the seconds of its blocks; all layers are alike.
        layers: How many to draw.
        skew: Seconds of the normal deviation around the median, or None.
        draw: The generator.
    """
    if skew is None:
        return draw.choices(draw.choice(watched), k=layers)
    attention, mlp = medians(watched)

    def near(middle: float) -> float:
        return max(0.0, draw.gauss(middle, skew))

    return [(near(attention), near(mlp)) for _ in range(layers)]


def lateness_of(
    config: ModelConfig, drawn: Drawn, workload: Workload, rank: int
) -> tuple[float, ...]:
    """Of each message of a generation, the seconds by which the slowest rank sends it later.

    Args:
        config: The arm that generates.
        drawn: What the ranks do.
        workload: The generation.
        rank: The rank than which it is later.
    """

    def of(forward: Forward) -> tuple[float, ...]:
        late = lateness(config, forward.ranks, drawn.wire, forward.message_bytes, rank)
        return (0.0, *late)  # all begin at once: the embedding's message is late nowhere

    steps = islice(cycle([of(step) for step in drawn.decode]), workload.output_len - 1)
    # The first is that with which ranks meet before the clock starts.
    return (0.0, *of(drawn.prefill), *chain.from_iterable(steps))


def _round(
    driver: Driver, what: Measurement, emulation: Emulation, number: int, message_bytes: int
) -> Round:
    load, copied = what.workload, driver.copied_bytes_per_second()
    multiplied = driver.matmul_flops_per_second()
    watched = _watch(driver, what)
    drawn = _draw(what, emulation, watched, number, message_bytes)
    late = {
        name: lateness_of(config, drawn, load, emulation.rank) for name, config in what.arms.items()
    }
    prefill, decode = (
        _bounds(what, emulation, drawn.wire, forwards)
        for forwards in ([drawn.prefill], drawn.decode)
    )
    _watch(driver, what)  # brings the weights back that all this has driven out
    order = order_of(what.arms, number)
    timings = {name: driver.time(name, load, drawn.wire, lateness=late[name]) for name in order}
    return Round(
        number=number,
        latency=drawn.wire.latency,
        prefill_blocks=(medians(watched[:1]),),
        decode_blocks=(medians(watched[1:]),) if watched[1:] else (),
        copied_bytes_per_second=copied,
        matmul_flops_per_second=multiplied,
        lateness=_mean_lateness(emulation, what, drawn),
        trials=tuple(
            trial(name, timings[name], prefill.get(name), decode.get(name)) for name in order
        ),
    )


def _watch(driver: Driver, what: Measurement) -> BlockSeconds:
    """The rank's blocks in the prompt and in up to 16 steps, without communication."""
    load = what.workload
    short = replace(load, output_len=min(load.output_len, _WATCHED_TOKENS))
    (blocks,) = driver.time(what.bound, short, _wire(what, 0.0), watched=True).blocks
    return blocks


def _wire(what: Measurement, block_seconds: float) -> Wire:
    if what.link is None:
        raise ValueError("the messages of an emulated rank need a modelled link")
    return what.link.wire(block_seconds)


def _draw(
    what: Measurement,
    emulation: Emulation,
    watched: BlockSeconds,
    number: int,
    message_bytes: int,
) -> Drawn:
    """What the ranks do in the round with a number, which is the seed."""
    generator, load = Random(number), what.workload
    layers = max(config.num_hidden_layers for config in emulation.whole.values())

    def forward(of: BlockSeconds, size: int) -> Forward:
        ranks = [
            drawn_layers(of, layers, emulation.skew, generator) for _ in range(emulation.tp_size)
        ]
        return Forward(ranks=ranks, message_bytes=size)

    prompts, steps = watched[:1], watched[1:]
    count = min(load.output_len - 1, _DRAWN_STEPS)
    return Drawn(
        wire=_wire(what, mean_block_seconds([medians(steps or prompts)])),
        prefill=forward(prompts, message_bytes),
        decode=[forward(steps, message_bytes // load.prompt_len) for _ in range(count)],
    )


def _bounds(
    what: Measurement, emulation: Emulation, wire: Wire, forwards: Sequence[Forward]
) -> dict[str, float]:
    """As `bounds`, of all layers and ranks."""
    if not forwards:
        return {}
    whole = replace(what, arms=emulation.whole)
    blocks = [list(rank) for rank in zip(*(each.ranks for each in forwards), strict=True)]
    return bounds(whole, blocks, wire, forwards[0].message_bytes)


def _mean_lateness(emulation: Emulation, what: Measurement, drawn: Drawn) -> float:
    """Mean seconds by which the slowest rank sends a block's message of the baseline later."""
    config = emulation.whole[what.baseline]
    return statistics.fmean(
        late
        for each in (drawn.decode or [drawn.prefill])
        for late in lateness(config, each.ranks, drawn.wire, each.message_bytes, emulation.rank)[
            :-1
        ]
    )
