"""One more generation of each arm, not timed but traced, and where its time goes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.driver import Driver
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import LinkRecord, SpeedRecord, Workload
from ladder_eval.results.trace_records import ArmTrace
from ladder_eval.speed.gap import gap

# The prompt and eight steps: enough for a step in the middle, and no file of gigabytes.
_TRACED_TOKENS = 9


def trace_arms(
    driver: Driver, arms: Mapping[str, ModelConfig], workload: Workload, wire: Wire | None
) -> tuple[ArmTrace, ...]:
    """Trace the prompt and a few decode steps of each arm that the driver has arranged.

    Args:
        driver: Rank 0.
        arms: The arms, by name.
        workload: What was timed; no more than nine tokens are generated.
        wire: What carries the messages; None for real ones.
    """
    short = replace(workload, output_len=min(workload.output_len, _TRACED_TOKENS))
    return tuple(ArmTrace(arm=arm, ranks=tuple(driver.trace(arm, short, wire))) for arm in arms)


def wire_of(link: LinkRecord) -> Wire | None:
    """The wire of a record's link, with the median latency; None where it isn't modelled."""
    if link.mode is None or link.latency is None or link.bandwidth is None:
        return None
    return Wire(latency=link.latency, bandwidth=link.bandwidth, mode=link.mode)


def with_gaps(
    record: SpeedRecord,
    arms: Mapping[str, ModelConfig],
    bound: str,
    traces: Sequence[ArmTrace],
    sizes: tuple[int, int],
) -> SpeedRecord:
    """The record, with the gap of each traced arm that sends over a modelled link.

    Args:
        record: The measurement.
        arms: Configurations by arm.
        bound: Name of the arm without communication.
        traces: Of every arm.
        sizes: Bytes of a message of the prompt, and of one of a decode step.
    """
    wire, by_arm = wire_of(record.link), {trace.arm: trace for trace in traces}
    if wire is None:
        return record
    rows = (
        replace(row, gap=gap(by_arm[row.arm], by_arm[bound], arms[row.arm], wire, sizes))
        for row in record.rows
    )
    return replace(record, rows=tuple(rows))
