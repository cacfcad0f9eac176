"""Requests served on a clock of the test's own: times by hand, and a queue whose mean is known."""

import math
import statistics
from itertools import pairwise

import pytest

from ladder_eval.speed import serving
from ladder_eval.speed.serving import Asked, WallClock, poisson_arrivals, serve


class Clock:
    """Moves on when something is waited for or computed; it starts anywhere."""

    def __init__(self, now=1000.0):
        self.moment, self.waits = now, []

    def now(self):
        return self.moment

    def wait_until(self, moment):
        self.waits.append(moment)
        self.moment = max(self.moment, moment)


class Server:
    """The prompts of a batch take so many seconds, each further token of it one second."""

    def __init__(self, clock, prefill):
        self.clock, self.prefill, self.batches = clock, prefill, []

    def write(self, requests):
        self.batches.append([each.arrival for each in requests])
        self.clock.moment += self.prefill
        moments = [self.clock.moment]
        for _ in range(max(each.output_len for each in requests) - 1):
            self.clock.moment += 1.0
            moments.append(self.clock.moment)
        return moments


def asked(arrival, output_len=1, prompt_len=5):
    return Asked(arrival=arrival, prompt_len=prompt_len, output_len=output_len)


def test_what_waits_is_served_together_and_nothing_joins_a_batch():
    clock = Clock()
    server = Server(clock, prefill=2.0)
    requests = [asked(1.0, 3), asked(1.5, 1), asked(4.0, 2), asked(4.5, 5), asked(20.0, 1)]
    served = serve(requests, server, clock, batch_size=2)
    # The first comes alone at 1 and is done at 1 + 2 + 2 = 5, when three wait. Two are taken:
    # first tokens at 7, the second's last at 8. The third is begun then, has its first at 10 and
    # its last at 14. The last finds nobody.
    assert server.batches == [[1.0], [1.5, 4.0], [4.5], [20.0]]
    assert [each.start for each in served] == [1, 5, 5, 8, 20]
    assert [each.first for each in served] == [3, 7, 7, 10, 22]
    assert [each.last for each in served] == [5, 7, 8, 14, 22]
    assert [each.ttft for each in served] == [2, 5.5, 3, 5.5, 2]
    assert [each.tpot for each in served if each.output_len > 1] == [1, 1, 1]
    assert clock.waits == [1001.0, 1001.5, 1004.5, 1020.0]


def test_a_short_text_is_over_before_its_batch_is():
    clock = Clock()
    short, long, late = serve(
        [asked(0.0, 2), asked(0.0, 6), asked(1.0, 1)], Server(clock, 3.0), clock, batch_size=8
    )
    assert (short.last, long.last) == (4, 8)
    assert (late.start, late.ttft) == (8, 10)


def test_who_has_come_in_the_very_moment_is_served():
    # 0.1 + 0.2 - 0.1 is more than 0.2, 1e9 + 0.3 - 1e9 less than 0.3.
    for start in (0.1, 1e9):
        clock = Clock(start)
        (served,) = serve([asked(0.3)], Server(clock, 1.0), clock, batch_size=1)
        assert served.start >= served.arrival


def test_one_at_a_time_waits_as_long_as_queueing_theory_says():
    """M/D/1: Poisson arrivals, one server, and always the same service.

    By the Pollaczek–Khinchine formula the mean wait in an M/G/1 queue is
    lambda E[S^2] / (2 (1 - rho)), which is rho s / (2 (1 - rho)) where all services take s
    (Kleinrock, Queueing Systems I, 1975, section 5.6).
    """
    service = 0.5
    for load in (0.3, 0.7):
        clock = Clock(0.0)
        requests = [asked(moment) for moment in poisson_arrivals(load / service, 40_000, seed=1)]
        served = serve(requests, Server(clock, service), clock, batch_size=1)
        wait = statistics.fmean(each.ttft for each in served) - service
        assert wait == pytest.approx(load * service / (2 * (1 - load)), rel=0.05)
        busy = len(served) * service / served[-1].last
        assert busy == pytest.approx(load, rel=0.02)


def test_above_capacity_the_queue_grows_with_the_requests():
    clock = Clock(0.0)
    requests = [asked(moment) for moment in poisson_arrivals(4.0, 400, seed=0)]
    served = serve(requests, Server(clock, 0.5), clock, batch_size=1)
    # Each second four come and two are served.
    waits = [each.ttft for each in served]
    assert waits[399] == pytest.approx(100, rel=0.15)
    assert waits[199] == pytest.approx(50, rel=0.2)


def test_arrivals_are_poisson():
    moments = poisson_arrivals(8.0, 20_000, seed=3)
    gaps = [b - a for a, b in pairwise([0.0, *moments])]
    assert len(moments) == 20_000
    assert min(gaps) > 0
    # Exponential gaps: mean and deviation are 1 / rate, and 1 / e of all are longer.
    assert statistics.fmean(gaps) == pytest.approx(1 / 8, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(1 / 8, rel=0.03)
    longer = sum(gap > 1 / 8 for gap in gaps) / len(gaps)
    assert longer == pytest.approx(math.exp(-1), rel=0.03)


def test_a_seed_gives_the_same_arrivals_at_every_rate_but_for_the_scale():
    slow, fast = (poisson_arrivals(rate, 50, seed=5) for rate in (1.0, 4.0))
    assert slow == poisson_arrivals(1.0, 50, seed=5)
    assert slow[:20] == poisson_arrivals(1.0, 20, seed=5)
    assert slow == pytest.approx([4 * moment for moment in fast])
    assert slow != poisson_arrivals(1.0, 50, seed=6)


def test_the_wall_clock_sleeps_until_a_moment_and_not_for_one_that_has_passed(monkeypatch):
    class Time:
        def __init__(self):
            self.now, self.slept = 10.0, []

        def perf_counter(self):
            return self.now

        def sleep(self, seconds):
            self.slept.append(seconds)
            self.now += seconds / 2 if len(self.slept) == 1 else seconds  # woken early once

    monkeypatch.setattr(serving, "time", time := Time())
    clock = WallClock()
    clock.wait_until(9.0)
    assert time.slept == []
    clock.wait_until(14.0)
    assert time.slept == [4.0, 2.0]
    assert clock.now() == 14.0
