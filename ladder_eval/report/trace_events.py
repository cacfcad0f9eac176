"""A trace in the format that chrome://tracing and Perfetto read.

Source of the format: "Trace Event Format", by the Chromium project. A process is one rank of one
arm; its lanes are what the rank does, and what is on its way meanwhile. Times of an arm count from
its own first moment, so that arms lie under each other.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ladder_eval.results.trace_records import ArmTrace, Message, RankTrace

__all__ = ["chrome_trace"]

_COMPUTE, _COMMUNICATION = 1, 2
_LANES = {_COMPUTE: "compute", _COMMUNICATION: "communication"}


def chrome_trace(traces: Sequence[ArmTrace], conditions: Mapping[str, str]) -> str:
    """The traces as JSON.

    Args:
        traces: Of each arm.
        conditions: What they hold for, as words.
    """
    events: list[dict[str, Any]] = []
    for trace in traces:
        origin = _origin(trace)
        for rank in trace.ranks:
            process = len(trace.ranks) * traces.index(trace) + rank.rank
            events += _names(trace.arm, rank.rank, process)
            events += _rank_events(rank, process, origin)
    whole = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(conditions)}
    return json.dumps(whole, separators=(",", ":"))


def _origin(trace: ArmTrace) -> float:
    starts = [span.begin for rank in trace.ranks for span in rank.spans]
    starts += [message.start for rank in trace.ranks for message in rank.messages]
    return min(starts, default=0.0)


def _names(arm: str, rank: int, process: int) -> Iterator[dict[str, Any]]:
    name = {"name": "process_name", "args": {"name": f"{arm}, rank {rank}"}}
    yield {"ph": "M", "pid": process, "tid": 0} | name
    yield {"ph": "M", "pid": process, "tid": 0, "name": "process_sort_index"} | {
        "args": {"sort_index": process}
    }
    for lane, words in _LANES.items():
        label = {"name": "thread_name", "args": {"name": words}}
        yield {"ph": "M", "pid": process, "tid": lane} | label


def _rank_events(rank: RankTrace, process: int, origin: float) -> Iterator[dict[str, Any]]:
    def event(name: str, kind: str, begin: float, end: float, **more: Any) -> dict[str, Any]:
        where = {"ph": "X", "pid": process, "tid": _COMPUTE, "name": name, "cat": kind}
        return where | {"ts": _us(begin - origin), "dur": _us(end - begin), "args": more}

    for span in rank.spans:
        name = f"{span.kind} {span.layer}"
        yield event(name, span.kind, span.begin, span.end, forward=span.forward)
    for number, message in enumerate(rank.messages):
        name, about = message.name, {"forward": message.forward}
        yield event(f"start {name}", "start", message.start, message.started, **about)
        parts = message.parts()
        shares = (
            {}
            if parts is None
            else {
                "skew_us": _us(parts.skew),
                "link_us": _us(parts.link),
                "wake_up_us": _us(parts.wake_up),
            }
        )
        yield event(f"wait {name}", "wait", message.wait, message.waited, **about, **shares)
        yield from _on_its_way(message, process, number, origin)


def _on_its_way(
    message: Message, process: int, number: int, origin: float
) -> Iterator[dict[str, Any]]:
    """Two events, since messages overlap; where nobody knows the arrival, until it was awaited."""
    kind = "all-gather" if message.of == "token" else "all-reduce"
    same = {"pid": process, "tid": _COMMUNICATION, "cat": kind, "id": f"{process}.{number}"}
    same["name"] = f"{kind} {message.name}"
    known = message.arrival is not None
    end = message.arrival if message.arrival is not None else message.waited
    about = {"forward": message.forward, "arrival_known": known}
    yield same | {"ph": "b", "ts": _us(message.start - origin), "args": about}
    yield same | {"ph": "e", "ts": _us(end - origin)}


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(1e6 * seconds, 3)
