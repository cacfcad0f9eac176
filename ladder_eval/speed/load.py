"""Residuals under one load: each round serves the same arrivals with every arm."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from ladder_eval.distributed.shares import shares
from ladder_eval.distributed.virtual_link import NAME as VIRTUAL
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.driver import Driver
from ladder_eval.results.load import METHOD, load_rows
from ladder_eval.results.load_records import (
    Conditions,
    Lengths,
    LoadRecord,
    LoadRound,
    LoadTrial,
)
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.measure import Measurement, in_rounds, order_of, wire_of
from ladder_eval.speed.serving import POLICY, Asked, WallClock, serve
from ladder_eval.speed.subject import WARM_UP, LoadedSubject, link_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What is asked of every arm.

    Attributes:
        requests: In the order of their arrival.
        rate: Mean arrivals a second.
        seed: Of what is drawn.
        batch_size: Most requests in a batch.
        lengths: Where their lengths come from, in words.
    """

    requests: tuple[Asked, ...]
    rate: float
    seed: int
    batch_size: int
    lengths: str

    @property
    def typical(self) -> Workload:
        """A full batch of requests of median lengths."""
        return self._batch(statistics.median_high)

    @property
    def largest(self) -> Workload:
        """What no batch exceeds."""
        return self._batch(max)

    def _batch(self, of: Callable[[Iterable[int]], int]) -> Workload:
        return Workload(
            batch_size=self.batch_size,
            prompt_len=of([each.prompt_len for each in self.requests]),
            output_len=of([each.output_len for each in self.requests]),
        )


@dataclass(frozen=True, slots=True)
class ArmServer:
    """One arm on the driver's ranks, as `serve` asks it."""

    driver: Driver
    arm: str
    wire: Wire | None

    def write(self, requests: Sequence[Asked]) -> Sequence[float]:
        """As `Server.write`."""
        prompts, outputs = ([r.prompt_len for r in requests], [r.output_len for r in requests])
        return self.driver.write(self.arm, prompts, outputs, self.wire)


def time_load(
    loaded: LoadedSubject, what: Measurement, load: Load, keep: Callable[[LoadRound], None]
) -> LoadRecord:
    """Serve the requests with each arm, round after round.

    Args:
        loaded: The subject.
        what: Its arms; the workload is the largest of the load.
        load: The requests.
        keep: Called with each round before the next, to write it down.
    """
    driver, work = loaded.driver, what.workload
    driver.arrange(what.arms, what.carrier, capacity(loaded, work.batch_size * work.prompt_len))

    _meet_shapes(driver, what, load)

    def round_of(number: int) -> LoadRound:
        wire = wire_of(driver, replace(what, workload=load.typical))
        return LoadRound(
            number=number,
            latency=None if wire is None else wire.latency,
            trials=tuple(_trial(driver, name, wire, load) for name in order_of(what.arms, number)),
        )

    rounds = []
    for each in in_rounds(driver, what, round_of):
        keep(each)
        rounds.append(each)
    return LoadRecord(
        conditions=conditions(loaded, what, [each.latency for each in rounds]),
        rate=load.rate,
        seed=load.seed,
        requests=len(load.requests),
        prompt_lens=_lengths([each.prompt_len for each in load.requests]),
        output_lens=_lengths([each.output_len for each in load.requests]),
        lengths=load.lengths,
        batch_size=load.batch_size,
        policy=POLICY,
        method=METHOD,
        rows=load_rows(loaded.subject.roles(), rounds, load.batch_size),
    )


def capacity(loaded: LoadedSubject, tokens: int) -> int:
    """Bytes of a block's message for so many tokens, the largest."""
    return tokens * loaded.subject.config.hidden_size * loaded.dtype.itemsize


def conditions(
    loaded: LoadedSubject, what: Measurement, latencies: Sequence[float | None]
) -> Conditions:
    """What was timed and where, after as many rounds as there are latencies."""
    team, subject, config = loaded.driver.team, loaded.subject, loaded.subject.config
    parts = shares(config.shape, team.tp.size)
    return Conditions(
        model=subject.name,
        weights=subject.weights,
        tp_size=team.tp.size,
        link=link_record(what.link, VIRTUAL, what.all_reduce or team.backend, latencies),
        device=str(team.device),
        dtype=str(loaded.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        num_hidden_layers=config.num_hidden_layers,
        all_hidden_layers=subject.whole.num_hidden_layers,
        vocab_size=config.vocab_size,
        all_vocab_size=subject.whole.vocab_size,
        heads_per_rank=tuple(len(part.query_heads) for part in parts),
        kv_heads_per_rank=tuple(len(part.kv_heads) for part in parts),
        weight_bytes_per_rank=tuple(loaded.weight_bytes),
        peak_memory_bytes=tuple(loaded.driver.peak_device_memory()),
        warm_up=WARM_UP,
        rounds=len(latencies),
        rounds_asked=what.rounds,
    )


def _meet_shapes(driver: Driver, what: Measurement, load: Load) -> None:
    """Let batches of every size be computed once: libraries prepare for what they see first."""
    wire = None if what.link is None else what.link.wire(0.0)
    for name in what.arms:
        for size in range(1, min(load.batch_size, len(load.requests)) + 1):
            prompts = [each.prompt_len for each in load.requests[:size]]
            driver.write(name, prompts, [min(2, what.workload.output_len)] * size, wire)


def _trial(driver: Driver, arm: str, wire: Wire | None, load: Load) -> LoadTrial:
    server = ArmServer(driver, arm, wire)
    return LoadTrial(arm=arm, served=serve(load.requests, server, WallClock(), load.batch_size))


def _lengths(tokens: Sequence[int]) -> Lengths:
    return Lengths(shortest=min(tokens), mean=statistics.fmean(tokens), longest=max(tokens))
