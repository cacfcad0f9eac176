"""One rank alone: arrivals by hand, on a clock that is set by hand."""

import os
from contextlib import contextmanager, nullcontext

import pytest
import torch

from ladder_eval.distributed.emulated import DeviceDelays, EmulatedParallel, HostDelays, one_of
from ladder_eval.distributed.wire import MODES, Wire

CPU = torch.device("cpu")
BYTES = 200  # of 50 float32


class Clock:
    """Advances by one tick whenever it is read, so that who polls gets on."""

    def __init__(self, tick=0.0):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def emulated(clock, size=4, lateness=(), **wire):
    tp = EmulatedParallel(1, size, HostDelays(clock))
    tp.use(Wire(**wire), lateness)
    return tp


def message():
    return torch.ones(BYTES // 4)


def arrival(clock, pending):
    """When a wait ends, to a tick, without going on from where the clock is."""
    before, clock.tick = clock.now, 0.5
    pending.wait()
    found, clock.now, clock.tick = clock.now, before, 0.0
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("late", "expected"), [(0, 3 + 2 + 10), (4, 3 + 4 + 2 + 10)])
def test_a_message_takes_lateness_transfer_and_latency(mode, late, expected):
    clock = Clock()
    tp = emulated(clock, lateness=[late], latency=10, bandwidth=100, mode=mode)
    clock.now = 3
    assert arrival(clock, tp.all_reduce_async(message())) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Sent at 0 and 0 and 30, the first by the slowest at 5. Transfers take 2, latency 10.
        # Serial: 5 + 12; the wire is busy until then: 17 + 12; 30 + 1 + 12 = 43.
        ("serial", [17, 29, 43]),
        # Pipelined: busy until 7: 7 + 2 + 10 = 19.
        ("pipelined", [17, 19, 43]),
    ],
)
def test_messages_share_the_wire_and_each_has_its_own_lateness(mode, expected):
    clock = Clock()
    tp = emulated(clock, lateness=[5, 0, 1], latency=10, bandwidth=100, mode=mode)
    sent = [tp.all_reduce_async(message()), tp.all_reduce_async(message())]
    clock.now = 30
    last = tp.all_reduce_async(message())
    clock.now = 0
    assert [arrival(clock, each) for each in (*sent, last)] == expected


def test_what_has_arrived_is_not_waited_for():
    clock = Clock()
    tp = emulated(clock, latency=10, bandwidth=100)
    pending = tp.all_reduce_async(message())
    clock.now, clock.tick = 50, 0.5
    pending.wait()
    assert clock.now == 50.5


def test_after_the_last_lateness_nobody_is_late_and_use_begins_anew():
    clock = Clock()
    tp = emulated(clock, lateness=[7], latency=1, bandwidth=float("inf"))
    assert [arrival(clock, tp.all_reduce_async(message())) for _ in range(2)] == [8, 9]
    tp.use(Wire(latency=2, bandwidth=float("inf")), [3])
    assert arrival(clock, tp.all_reduce_async(message())) == 5


def test_values_are_the_rank_s_own():
    tp = emulated(Clock(tick=1.0), size=3, latency=0, bandwidth=float("inf"))
    partial = torch.tensor([1.0, 2.0])
    assert tp.all_reduce(partial) is partial
    assert torch.equal(tp.all_gather(partial), partial.repeat(3, 1))
    assert tp.from_first(partial) is partial
    assert (tp.rank, tp.size) == (1, 3)


def test_a_gather_waits_as_a_sum_does():
    clock = Clock(tick=1.0)
    emulated(clock, lateness=[20], latency=10, bandwidth=100).all_gather(message())
    assert clock.now >= 32


def test_the_team_is_one_rank_with_its_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(12))
    before = torch.get_num_threads()
    with one_of(4, 2, CPU) as team:
        assert (team.tp.rank, team.tp.size) == (2, 4)
        assert (team.device, team.gather("own")) == (CPU, ["own"])
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with one_of(4, 0, CPU):
        assert torch.get_num_threads() == before


class Gpu:
    """Streams in name only: each knows when it has done what it was given; a cycle takes 1/8."""

    def __init__(self, monkeypatch):
        self.active = self.compute = Stream()
        for name, fake in {
            "Stream": lambda device: Stream(),
            "Event": Moment,
            "current_stream": lambda device: self.compute,
            "stream": self.on,
            "device": lambda device: nullcontext(),
            "_sleep": self.sleep,
        }.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        Moment.gpu = self

    @contextmanager
    def on(self, stream):
        before, self.active = self.active, stream
        yield
        self.active = before

    def sleep(self, cycles):
        self.active.done += cycles / 8


class Stream:
    done = 0.0

    def wait_event(self, moment):
        self.done = max(self.done, moment.at)

    def record_event(self):
        return Moment(at=self.done)


class Moment:
    def __init__(self, enable_timing=False, at=0.0):
        self.at = at

    def record(self):
        self.at = self.gpu.active.done

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 1e3 * (other.at - self.at)


@pytest.mark.parametrize(
    ("mode", "expected"), [("serial", [17, 29, 43]), ("pipelined", [17, 19, 43])]
)
def test_a_gpu_waits_as_a_cpu_does_and_the_host_does_not(monkeypatch, mode, expected):
    # The messages of `test_messages_share_the_wire_and_each_has_its_own_lateness`.
    gpu = Gpu(monkeypatch)
    tp = EmulatedParallel(1, 4, DeviceDelays(torch.device("cuda")))
    tp.use(Wire(latency=10, bandwidth=100, mode=mode), [5, 0, 1])
    gpu.compute.done = 0.0  # of finding out how fast it is
    sent = [tp.all_reduce_async(message()), tp.all_reduce_async(message())]
    gpu.compute.done = 30.0
    sent.append(tp.all_reduce_async(message()))
    assert gpu.compute.done == 30  # nobody has waited
    found = []
    for pending in sent:
        gpu.compute.done = 0.0
        pending.wait()
        found.append(gpu.compute.done)
    assert found == expected


def test_no_time_passes_no_stream(monkeypatch):
    gpu = Gpu(monkeypatch)
    tp = EmulatedParallel(0, 2, DeviceDelays(torch.device("cuda")))
    gpu.compute.done = 7.0
    tp.all_reduce(message())
    assert gpu.compute.done == 7
