"""The virtual link: real processes for the data, a made-up clock for the arrivals."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import link_ranks
import pytest
import torch
from link_ranks import BANDWIDTH, BYTES, DTYPES, LATENCY, MANY, MODES

import ladder_eval
from ladder_eval.distributed import virtual_link
from ladder_eval.distributed.virtual_link import LinkMemory, VirtualLink, why_unavailable
from ladder_eval.distributed.wire import Wire

HERE = Path(__file__).parent
ROOT = Path(ladder_eval.__file__).parents[1]
SIZES = (2, 3)
TICK = 2.0**-10  # of the made-up clock; a power of two, so that sums of it are exact
REASON = why_unavailable(2)
linked = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def processes():
    """What each rank's process finds. Three take turns on two cores, more slowly but as well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "link_ranks.py", *map(str, SIZES)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=90,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    return {int(size): answers for size, answers in json.loads(done.stdout).items()}


def each(processes, size, scenario):
    found = [answer[scenario] for answer in processes[size]]
    assert len(found) == size
    return found


def hand_sum(number, size):
    """The number times 1 + 10, or 1 + 10 + 100."""
    return number * {2: 11, 3: 111}[size]


@linked
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_gathers_by_hand(processes, size, dtype):
    for found in (own[dtype] for own in each(processes, size, "numbers")):
        factor = {2: 3, 3: 6}[size]  # 1 + 2, and 1 + 2 + 3
        assert found["counting"] == [[factor * x for x in row] for row in ([0, 2, 4], [1, 3, 5])]
        assert found["gathered"] == [[2, 3], [4, 6], [6, 9]][:size]
        assert found["absorbed"] == [256 if dtype == "bfloat16" else {2: 257, 3: 258}[size]]
        assert found["dtype"] == f"torch.{dtype}"


@linked
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_rank_has_the_bits_of_the_sum_in_the_order_of_ranks(processes, size, dtype):
    total = link_ranks.rough(0, DTYPES[dtype])
    for rank in range(1, size):
        total = total + link_ranks.rough(rank, DTYPES[dtype])
    expected = link_ranks.bits(total)
    found = [own[dtype]["rough"] for own in each(processes, size, "numbers")]
    assert found == [expected] * size


def test_another_order_would_have_other_bits():
    """The test above can fail."""
    for dtype in DTYPES.values():
        first, second, third = (link_ranks.rough(rank, dtype) for rank in range(3))
        assert not torch.equal((first + second) + third, first + (second + third))


@linked
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scenario", ["bursts", "ladder"])
def test_no_message_is_overwritten_before_the_slowest_rank_has_read_it(processes, size, scenario):
    expected = [hand_sum(number, size) for number in range(MANY)]
    assert each(processes, size, scenario) == [expected] * size


@linked
@pytest.mark.parametrize("size", SIZES)
def test_messages_may_be_awaited_in_any_order(processes, size):
    expected = [hand_sum(number, size) for number in (1, 2, 3, 4)]
    assert each(processes, size, "in_any_order") == [[expected] * 4] * size
    assert each(processes, size, "awaited_twice") == [[hand_sum(1, size)] * 2] * size


@linked
@pytest.mark.parametrize("size", SIZES)
def test_a_gather_between_sums(processes, size):
    gathered = [[rank, 7] for rank in range(size)]
    expected = [hand_sum(1, size), hand_sum(2, size), gathered, [[size, size], [size, size]]]
    assert each(processes, size, "gathered_between") == [expected] * size


@linked
@pytest.mark.parametrize("size", SIZES)
def test_a_fifth_unread_message_is_an_error_and_loses_none(processes, size):
    four = [hand_sum(number, size) for number in range(4)]
    expected = ["more than 4 messages are on their way", four, hand_sum(5, size)]
    assert each(processes, size, "too_many") == [expected] * size


@linked
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_no_process_has_a_sum_before_it_can_have_arrived(processes, size, mode):
    """Only a lower bound, so that no load of the machine can break it."""
    found = [own[mode] for own in each(processes, size, "timed")]
    # The moments are taken before the link takes its own, on one clock for all processes.
    sent = [max(own["sent"][i] for own in found) for i in range(3)]
    transfer = BYTES / BANDWIDTH
    free, earliest = float("-inf"), []
    for moment in sent:
        transferred = max(moment, free) + transfer
        earliest.append(transferred + LATENCY)
        # A serial wire is busy until the message is there, a pipelined one with the transfer.
        free = earliest[-1] if mode == "serial" else transferred
    # Back to back, n messages take at least n latencies or n transfers.
    least = 3 * transfer + (3 if mode == "serial" else 1) * LATENCY
    assert earliest[2] - sent[0] >= least - 1e-9  # what a clock of many hours rounds away
    for own in found:
        assert all(at >= least for at, least in zip(own["received"], earliest, strict=True))


class Clock:
    """A clock that goes on by a tick whenever somebody looks at it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += TICK
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(virtual_link, "perf_counter", clock)
    return clock


def two_ends(capacity=4096):
    """Both ranks in this thread: it has to send from both before it waits."""
    memory = LinkMemory(2, capacity)
    ends = [VirtualLink(rank, 2, memory.path, memory.capacity) for rank in range(2)]
    memory.close()
    return ends


def arrivals_of(ends, clock, sizes):
    """Send messages of so many bytes, from both ends, and see when the first end has each."""
    pending = []
    for size in sizes:
        tensors = [torch.zeros(size, dtype=torch.uint8) for _ in ends]
        pending.append([end.all_reduce_async(own) for end, own in zip(ends, tensors, strict=True)])
    found = []
    for first, _ in pending:
        first.wait()
        found.append(clock.now)
    return found


@linked
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # 1024 bytes a second, latency 2; sizes 1024, 0 and 512 take 1, 0 and 1/2. The two ends
        # look at the clock in turn, so that the first message is sent at 2 ticks, when its
        # second end sends; the others are sent long before the wire is free.
        # Serial: 2t+1+2 = 3+2t; 3+2t+0+2 = 5+2t; 5+2t+1/2+2 = 7.5+2t.
        ("serial", [3 + 2 * TICK, 5 + 2 * TICK, 7.5 + 2 * TICK]),
        # Pipelined: transferred at 1+2t, 1+2t and 1.5+2t, and there 2 later. The second arrives
        # with the first: the next look at the clock, a tick later, finds it.
        ("pipelined", [3 + 2 * TICK, 3 + 3 * TICK, 3.5 + 2 * TICK]),
    ],
)
def test_arrivals_by_hand(clock, mode, expected):
    ends = two_ends()
    for end in ends:
        end.use(Wire(latency=2.0, bandwidth=1024.0, mode=mode))
    assert arrivals_of(ends, clock, [1024, 0, 512]) == expected


@linked
def test_the_last_rank_to_send_decides(clock):
    first, second = two_ends()
    for end in (first, second):
        end.use(Wire(latency=1.0, bandwidth=float("inf")))
    pending = first.all_reduce_async(torch.ones(2))
    clock.now = 10.0
    second.all_reduce_async(torch.ones(2))  # at 10 and a tick
    assert pending.wait().tolist() == [2, 2]
    assert clock.now == 11 + TICK


@linked
def test_after_a_change_of_wire_nothing_waits_for_the_old_one(clock):
    ends = two_ends()
    for latency in (50.0, 1.0):
        for end in ends:
            end.use(Wire(latency=latency, bandwidth=float("inf")))
        clock.now = 0.0  # before the slow wire's message has arrived
        sent = [end.all_reduce_async(torch.ones(2)) for end in ends]
        arrived = []
        for pending in sent:
            pending.wait()
            arrived.append(clock.now)
        # Sent at 2 ticks; the other end looks once more, and goes on.
        assert arrived == [latency + 2 * TICK, latency + 3 * TICK]


@linked
@pytest.mark.parametrize(("asked", "capacity"), [(1, 64), (64, 64), (65, 128), (4000, 4032)])
def test_room_is_whole_cache_lines(asked, capacity):
    memory = LinkMemory(2, asked)
    try:
        assert memory.capacity == capacity
        # A line for each rank, and four messages of each.
        assert os.stat(memory.path).st_size == 2 * 64 + 4 * 2 * capacity
    finally:
        memory.close()


@linked
def test_a_message_of_the_whole_capacity_fits_and_touches_no_other():
    first, second = two_ends(capacity=64)
    numbers = [torch.arange(16.0) + 100 * i for i in range(4)]
    pending = []
    for number in numbers:
        pending.append(first.all_reduce_async(number.clone()))
        second.all_reduce_async(2 * number)
    assert [each.wait().tolist() for each in pending] == [(3 * n).tolist() for n in numbers]


@linked
def test_the_place_of_a_message_takes_any_dtype():
    first, second = two_ends()
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.float32):
        for _ in range(4):  # each of the places
            pending = first.all_reduce_async(torch.tensor([1, 2], dtype=dtype))
            second.all_reduce_async(torch.tensor([10, 20], dtype=dtype)).wait()
            total = pending.wait()
            assert (total.dtype, total.tolist()) == (dtype, [11, 22])


def maps_of(inode):
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if line.split()[4] == str(inode)]


@linked
def test_memory_has_no_file_and_goes_with_the_last_that_uses_it():
    memory = LinkMemory(2, 1024)
    assert os.readlink(memory.path).startswith("/memfd:")
    about = os.stat(memory.path)
    assert about.st_nlink == 0  # no folder names it
    first, second = (VirtualLink(rank, 2, memory.path, memory.capacity) for rank in range(2))
    memory.close()
    assert not Path(memory.path).exists()
    # Who has opened it keeps it.
    assert len(maps_of(about.st_ino)) == 2
    pending = first.all_reduce_async(torch.ones(3))
    second.all_reduce_async(torch.ones(3))
    assert pending.wait().tolist() == [2, 2, 2]
    del first, second, pending
    gc.collect()
    assert maps_of(about.st_ino) == []


@linked
def test_a_rank_alone_sends_nothing(clock):
    memory = LinkMemory(1, 64)
    link = VirtualLink(0, 1, memory.path, memory.capacity)
    memory.close()
    link.use(Wire(latency=1.0, bandwidth=1.0))
    big = torch.ones(1000)
    assert link.all_reduce_async(big).wait() is big
    assert torch.equal(link.all_gather(big), big[None])
    assert clock.now == 0


def test_each_rank_needs_a_core(monkeypatch):
    monkeypatch.setattr(virtual_link.sys, "platform", "linux")
    monkeypatch.setattr(virtual_link.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5}, raising=False)
    assert why_unavailable(3) is None
    assert why_unavailable(4) == "4 ranks need a core each, and this process may use 3"


@pytest.mark.parametrize(
    ("system", "machine"),
    [("darwin", "x86_64"), ("win32", "AMD64"), ("linux", "aarch64"), ("linux", "arm64")],
)
def test_other_systems_have_no_virtual_link(monkeypatch, system, machine):
    monkeypatch.setattr(virtual_link, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(virtual_link, "platform", SimpleNamespace(machine=lambda: machine))
    assert why_unavailable(1) == "the virtual link needs Linux on x86"
