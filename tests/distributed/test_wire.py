"""Arrivals that are calculated by hand."""

import math

import pytest

from ladder_eval.distributed.wire import MODES, Timetable, Wire
from ladder_eval.errors import LadderEvalError, UsageError


def arrivals(messages, **wire):
    timetable = Timetable(Wire(**wire))
    return [timetable.arrival(sent, size) for sent, size in messages]


def test_a_single_message_takes_latency_and_transfer_in_either_mode():
    for mode in MODES:
        # Sent at 3; 50 bytes at 100 a second take 0.5; latency 2.
        assert arrivals([(3.0, 50)], latency=2, bandwidth=100, mode=mode) == [5.5]
        assert arrivals([(3.0, 0)], latency=2, bandwidth=100, mode=mode) == [5]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Latency 10, 100 bytes a second: the transfers take 2, 1 and 4.
        # The wire is busy until an arrival: 0+2+10 = 12; 12+1+10 = 23; 23+4+10 = 37.
        ("serial", [12, 23, 37]),
        # It is busy for the transfer alone, until 2, 3 and 7: 2+10, 3+10, 7+10.
        ("pipelined", [12, 13, 17]),
    ],
)
def test_back_to_back_messages(mode, expected):
    messages = [(0.0, 200), (0.0, 100), (0.0, 400)]
    assert arrivals(messages, latency=10, bandwidth=100, mode=mode) == expected
    assert arrivals(messages[:2], latency=10, bandwidth=100, mode=mode) == expected[:2]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # As above, sent at 0, 5 and 30. Serial: 12; the wire is free at 12, so 12+1+10 = 23;
        # it is free when the third is sent, so 30+4+10 = 44.
        ("serial", [12, 23, 44]),
        # Pipelined: free at 2, before the second is sent: 5+1+10 = 16; 30+4+10 = 44.
        ("pipelined", [12, 16, 44]),
    ],
)
def test_a_wire_that_is_free_starts_when_a_message_is_sent(mode, expected):
    messages = [(0.0, 200), (5.0, 100), (30.0, 400)]
    assert arrivals(messages, latency=10, bandwidth=100, mode=mode) == expected


@pytest.mark.parametrize(("mode", "expected"), [("serial", [30, 60]), ("pipelined", [30, 50])])
def test_a_message_waits_for_the_transfer_before_it(mode, expected):
    # 2000 bytes take 20, and latency is 10. The second is sent at 1, while the first is being
    # transferred until 20. Serial: 30+20+10 = 60. Pipelined: 20+20+10 = 50.
    messages = [(0.0, 2000), (1.0, 2000)]
    assert arrivals(messages, latency=10, bandwidth=100, mode=mode) == expected


def test_with_no_bandwidth_to_wait_for_only_a_serial_wire_queues():
    # Serial: 0+1, 1+1, 2+1. Pipelined: each latency after it is sent.
    messages = [(0.0, 10**9), (0.25, 10**9), (0.5, 10**9)]
    wire = {"latency": 1.0, "bandwidth": math.inf}
    assert arrivals(messages, **wire, mode="serial") == [1, 2, 3]
    assert arrivals(messages, **wire, mode="pipelined") == [1, 1.25, 1.5]


def test_a_clock_may_start_below_zero():
    assert arrivals([(-100.0, 100)], latency=1, bandwidth=100) == [-98]


def test_serial_is_the_mode_unless_another_is_named():
    assert Wire(latency=0, bandwidth=1).mode == "serial"


@pytest.mark.parametrize("latency", [-1e-9, math.inf, math.nan])
def test_a_latency_that_is_no_time_is_refused(latency):
    with pytest.raises(UsageError, match="is no time; give 0 or more"):
        Wire(latency=latency, bandwidth=1.0)


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.nan, -math.inf])
def test_a_bandwidth_of_nothing_is_refused(bandwidth):
    with pytest.raises(UsageError, match="must be more than 0"):
        Wire(latency=0.0, bandwidth=bandwidth)


@pytest.mark.parametrize("mode", ["", "Serial", "parallel"])
def test_an_unknown_mode_is_refused_with_those_that_are_known(mode):
    with pytest.raises(UsageError, match=r"known are serial, pipelined\.$") as raised:
        Wire(latency=0.0, bandwidth=1.0, mode=mode)
    assert repr(mode) in str(raised.value)
    assert isinstance(raised.value, LadderEvalError)
