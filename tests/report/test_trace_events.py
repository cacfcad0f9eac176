"""A trace as the events that chrome://tracing reads."""

import json

from trace_by_hand import FAST, STANDARD

from ladder_eval.report.trace_events import chrome_trace


def events():
    told = json.loads(chrome_trace([STANDARD, FAST], {"title": "random weights"}))
    assert told["otherData"] == {"title": "random weights"}
    assert told["displayTimeUnit"] == "ms"
    return told["traceEvents"]


def named(found, name, **where):
    return [e for e in found if e["name"] == name and where.items() <= e.items()]


def test_a_process_is_a_rank_of_an_arm_with_two_lanes():
    found = events()
    names = {e["pid"]: e["args"]["name"] for e in named(found, "process_name")}
    assert names == {
        0: "standard, rank 0",
        1: "standard, rank 1",
        2: "no-comm <&>, rank 0",
        3: "no-comm <&>, rank 1",
    }
    lanes = {(e["tid"], e["args"]["name"]) for e in named(found, "thread_name")}
    assert lanes == {(1, "compute"), (2, "communication")}


def test_times_count_from_the_arms_first_moment_in_microseconds():
    # Rank 1 begins at 999 ms.
    (mlp,) = named(events(), "mlp 0", pid=0)
    assert (mlp["ph"], mlp["tid"], mlp["ts"], mlp["dur"]) == ("X", 1, 5000.0, 2000.0)
    (first,) = named(events(), "attention 0", pid=1)
    assert first["ts"] == 0


def test_a_wait_says_what_it_is_for():
    (wait,) = named(events(), "wait attention 0", pid=0)
    # From 1001.5: the last rank sends at 1002, the sum arrives at 1003.75 and is there at 1004.
    assert (wait["ts"], wait["dur"]) == (2500.0, 2500.0)
    assert wait["args"] == {"forward": 0, "skew_us": 500, "link_us": 1750, "wake_up_us": 250}
    (unknown,) = named(events(), "wait attention 1", pid=0)
    assert unknown["args"] == {"forward": 0}


def test_a_message_is_on_its_way_from_its_start_to_its_arrival():
    begin, end = named(events(), "all-reduce attention 0", pid=0)
    assert (begin["ph"], end["ph"], begin["tid"]) == ("b", "e", 2)
    assert (begin["id"], begin["cat"]) == (end["id"], end["cat"]) == ("0.0", "all-reduce")
    assert (begin["ts"], end["ts"]) == (2000.0, 4750.0)
    assert begin["args"]["arrival_known"] is True
    # Where nobody knows, it ends with its wait.
    begin, end = named(events(), "all-reduce attention 1", pid=0)
    assert (end["ts"], begin["args"]["arrival_known"]) == (14000.0, False)
    assert len(named(events(), "all-gather token", pid=0)) == 2
