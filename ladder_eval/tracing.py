"""A traced setting as files of its run's folder."""

import itertools
import textwrap
from collections.abc import Sequence

from ladder_eval.report.speed import speed_conditions, speed_title
from ladder_eval.report.timeline import timeline
from ladder_eval.report.trace_events import chrome_trace
from ladder_eval.results.provenance import hardware
from ladder_eval.results.speed import CONTROL
from ladder_eval.results.speed_records import SpeedRecord
from ladder_eval.results.store import RunFolder
from ladder_eval.results.trace_records import ArmTrace

_LINE = 150  # letters that fit the picture's width


def write_trace(folder: RunFolder, record: SpeedRecord, traces: Sequence[ArmTrace]) -> None:
    """Write trace.json and timeline.svg; of a second setting trace-2.json, and so on.

    Raises:
        RecordError: if they can't be written.
    """
    control = {row.arm for row in record.rows if row.role == CONTROL}
    title = f"{record.model}: {speed_title(record)}"
    told = [*speed_conditions(record), f"One traced generation on {hardware()['processor']}."]
    suffix = _suffix(folder)
    conditions = {"title": title, "conditions": " ".join(told)}
    folder.write_text(f"trace{suffix}.json", chrome_trace(traces, conditions))
    shown = [trace for trace in traces if trace.arm not in control]
    lines = textwrap.wrap(" ".join(told), _LINE)
    folder.write_text(f"timeline{suffix}.svg", timeline(shown, title, lines))


def _suffix(folder: RunFolder) -> str:
    """That of the first name which isn't taken."""
    suffixes = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(end for end in suffixes if not (folder.path / f"trace{end}.json").exists())
