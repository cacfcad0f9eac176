"""From served requests to percentiles, and from replayed batches to seconds.

A percentile is one of the values, by nearest rank: the smallest with at least so many percent of
all at or below it. All rounds of all requests count. The interval draws requests anew, each with
all of its rounds. Requests that wait in one queue depend on each other, which it doesn't know: the
busier the server, the more it is too narrow.
"""

import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt

from ladder_eval.results.load_records import (
    Latency,
    LoadRound,
    LoadRow,
    Percentile,
    ReplayRound,
    ReplayRow,
    Served,
)
from ladder_eval.results.resampling import RESAMPLES, resample
from ladder_eval.results.speed import BASELINE, TimedArm, median

__all__ = ["METHOD", "load_rows", "percentile", "percentile_ratio", "replay_rows"]

Floats = npt.NDArray[np.float64]

METHOD: Final = (
    "percentiles by nearest rank over all rounds of all requests; 95 % intervals by a bootstrap of "
    f"requests ({RESAMPLES:,}, expanded percentiles)"
)
"""How percentiles and their intervals are computed."""


def percentile(values: Floats, percent: int) -> Percentile:
    """A percentile by nearest rank, with its interval.

    Args:
        values: Of each request in each round, [requests, rounds].
        percent: Which, 1 to 100.
    """
    return _with_interval(lambda counts: _nearest_rank(values, percent, counts), len(values))


def percentile_ratio(above: Floats, below: Floats, percent: int) -> Percentile:
    """The ratio of two percentiles, its interval by the same drawn requests; as `percentile`."""

    def ratio(counts: Floats) -> Floats:
        return _nearest_rank(above, percent, counts) / _nearest_rank(below, percent, counts)

    return _with_interval(ratio, len(above))


def load_rows(
    arms: Sequence[TimedArm], rounds: Sequence[LoadRound], batch_size: int
) -> tuple[LoadRow, ...]:
    """What all rounds say of each arm.

    Args:
        arms: The arms, one of them the baseline.
        rounds: The rounds, with a trial of each arm.
        batch_size: Most requests in a batch.
    """
    served = {
        arm.name: [next(t.served for t in r.trials if t.arm == arm.name) for r in rounds]
        for arm in arms
    }
    base = served[next(arm.name for arm in arms if arm.role == BASELINE)]
    return tuple(_load_row(arm, served[arm.name], base, batch_size) for arm in arms)


def replay_rows(
    arms: Sequence[TimedArm], rounds: Sequence[ReplayRound], tokens: int
) -> tuple[ReplayRow, ...]:
    """What all rounds say of each arm.

    Args:
        arms: The arms, one of them the baseline.
        rounds: The rounds, with the seconds of each arm.
        tokens: Read and written in one round by one arm.
    """
    seconds = {arm.name: [sum(each.seconds[arm.name]) for each in rounds] for arm in arms}
    base = seconds[next(arm.name for arm in arms if arm.role == BASELINE)]
    return tuple(
        ReplayRow(
            arm=arm.name,
            role=arm.role,
            residual=arm.residual,
            ladder_layers=arm.ladder_layers,
            seconds=median(own),
            tokens_per_s=median([tokens / each for each in own]),
            speedup=None
            if arm.role == BASELINE
            else median([b / o for b, o in zip(base, own, strict=True)]),
        )
        for arm in arms
        for own in [seconds[arm.name]]
    )


_Rounds = Sequence[Sequence[Served]]  # of each round, all requests


def _load_row(arm: TimedArm, own: _Rounds, base: _Rounds, batch_size: int) -> LoadRow:
    baseline = None if arm.role == BASELINE else base
    ends = [max(each.last for each in served) for served in own]
    batches = [_batches(served) for served in own]
    busy = [sum(seconds for seconds, _ in found) for found in batches]
    full = [seconds for found in batches for seconds, size in found if size == batch_size]
    return LoadRow(
        arm=arm.name,
        role=arm.role,
        residual=arm.residual,
        ladder_layers=arm.ladder_layers,
        ttft=_latency(own, baseline, lambda request: request.ttft),
        tpot=_latency(_longer(own), baseline and _longer(baseline), lambda request: request.tpot)
        if any(each.output_len > 1 for each in own[0])
        else None,
        utilisation=sum(busy) / sum(ends),
        capacity=batch_size / statistics.fmean(full) if full else None,
        requests_per_s=sum(map(len, own)) / sum(ends),
        mean_batch=sum(map(len, own)) / sum(map(len, batches)),
    )


def _longer(rounds: _Rounds) -> _Rounds:
    return [[each for each in served if each.output_len > 1] for served in rounds]


def _latency(own: _Rounds, baseline: _Rounds | None, seconds: Callable[[Served], float]) -> Latency:
    values = _table(own, seconds)
    base = None if baseline is None else _table(baseline, seconds)
    return Latency(
        p50=percentile(values, 50),
        p99=percentile(values, 99),
        speedup_p50=None if base is None else percentile_ratio(base, values, 50),
        speedup_p99=None if base is None else percentile_ratio(base, values, 99),
        requests=len(values),
    )


def _table(rounds: _Rounds, seconds: Callable[[Served], float]) -> Floats:
    """Seconds of each request in each round, [requests, rounds]."""
    return np.array([[seconds(request) for request in served] for served in rounds]).T


def _batches(served: Sequence[Served]) -> list[tuple[float, int]]:
    """Seconds and requests of each batch; neighbours that started together were one."""
    together = [list(one) for _, one in groupby(served, key=lambda each: each.start)]
    return [(max(each.last for each in one) - one[0].start, len(one)) for one in together]


def _with_interval(statistic: Callable[[Floats], Floats], requests: int) -> Percentile:
    value = float(statistic(np.ones((1, requests)))[0])
    found = resample(statistic, requests, 0.95, "")
    interval = found[1] if found else None
    return Percentile(
        value=value,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _nearest_rank(values: Floats, percent: int, counts: Floats) -> Floats:
    """The percentile of values, [requests, rounds], of requests drawn so often, [draws, requests].

    Returns:
        One value a draw, [draws].
    """
    rounds = values.shape[1]
    order = np.argsort(values, axis=None, kind="stable")
    at_or_below = counts[:, order // rounds].cumsum(axis=1)  # whole numbers: nothing is rounded
    enough = 100 * at_or_below >= percent * at_or_below[:, -1:]
    picked: Floats = values.flatten()[order][enough.argmax(axis=1)]
    return picked
