"""Speed-ups and tokens/s: over what was varied between settings, or beside each other in one.

Settings that differ in nothing but tp_size, batch_size, prompt_len, output_len or the link's
latency make a curve over it, a panel for each combination of the others. Measured and emulated
times, other models, devices or number formats never share a plot.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import altair as alt

from ladder_eval.report.page.chart_style import (
    BOUND,
    INK,
    MUTED,
    SERIES,
    SHAPES,
    WIDTH,
    figure_of,
    short_names,
    titled,
)
from ladder_eval.report.page.content import Figure
from ladder_eval.report.speed import arm_words, digits, link_words, speed_title, timing_words
from ladder_eval.results.speed import CONTROL
from ladder_eval.results.speed_records import RANDOM, Estimate, SpeedRecord, SpeedRow
from ladder_eval.results.tradeoff import phase_of

__all__ = ["speed_figures"]

_Row = dict[str, Any]
_Key = tuple[Any, ...]

_MOST_PANELS: Final = 12
_BOUND_WORDS: Final = "no-comm (a bound)"


def _latency(record: SpeedRecord) -> float | None:
    """The link's latency in µs, or as a multiple of the block time where it follows that."""
    link = record.link
    if link.latency_ratio is not None:
        return link.latency_ratio
    return None if link.latency is None else 1e6 * link.latency


_FACTORS: Final[dict[str, Callable[[SpeedRecord], float | None]]] = {
    "link latency": _latency,
    "tp_size": lambda record: record.tp_size,
    "batch_size": lambda record: record.workload.batch_size,
    "prompt_len": lambda record: record.workload.prompt_len,
    "output_len": lambda record: record.workload.output_len,
}


def speed_figures(records: Sequence[SpeedRecord], prefix: str = "speed") -> tuple[Figure, ...]:
    """Plots of what was timed: curves where settings vary, else each setting's tokens/s.

    Args:
        records: Measurements, of one run or of several.
        prefix: What the figures' names begin with.
    """
    groups: dict[_Key, list[SpeedRecord]] = {}
    for record in records:
        groups.setdefault(_alike(record), []).append(record)
    found = [each for group in groups.values() for each in _figures(group)]
    names = [prefix if not number else f"{prefix}-{number + 1}" for number in range(len(found))]
    return tuple(make(name) for make, name in zip(found, names, strict=True))


def _figures(records: Sequence[SpeedRecord]) -> Iterator[Callable[[str], Figure]]:
    """What makes each figure of measurements that may share a plot, given its name."""
    varied = [name for name in _FACTORS if len(_values(records, name)) > 1]
    panels = {factor: _panels(records, factor, varied) for factor in varied}
    yield from (partial(_curves, factor, own) for factor, own in panels.items() if own)
    if not any(panels.values()):
        yield from (partial(_tokens, each) for each in records)


def _alike(record: SpeedRecord) -> _Key:
    """What has to be equal for measurements to share a plot."""
    link = record.link
    return (
        *(record.model, record.weights, record.kind, record.device, record.dtype, record.threads),
        *(record.num_hidden_layers, record.vocab_size, link.name, link.mode, link.bandwidth),
        *(link.latency_ratio is None, record.workload.output_len > 1),
    )


def _values(records: Sequence[SpeedRecord], factor: str) -> list[float]:
    values = {_FACTORS[factor](record) for record in records}
    return sorted(value for value in values if value is not None)


def _panels(
    records: Sequence[SpeedRecord], factor: str, varied: Sequence[str]
) -> dict[str, list[SpeedRecord]]:
    """Measurements with at least two values of a factor, by what else was varied."""
    others = [name for name in varied if name != factor]
    found: dict[str, list[SpeedRecord]] = {}
    for record in records:
        title = ", ".join(_setting(name, record) for name in others)
        found.setdefault(title, []).append(record)
    return {title: own for title, own in found.items() if len(_values(own, factor)) > 1}


def _setting(factor: str, record: SpeedRecord) -> str:
    value = _FACTORS[factor](record)
    if factor != "link latency":
        return f"{factor} {value}"
    if value is None:
        return "no link"
    return f"{digits(value)} {'µs' if record.link.latency_ratio is None else '× block time'}"


def _curves(factor: str, every: dict[str, list[SpeedRecord]], name: str) -> Figure:
    """Speed-ups over one factor, a panel for each combination of the others."""
    panels = dict(itertools.islice(every.items(), _MOST_PANELS))
    left = len(every) - len(panels)
    hidden = f" {left} more combinations of settings aren't drawn." if left else ""
    records = [record for own in panels.values() for record in own]
    rows = [
        row for title, own in panels.items() for each in own for row in _points(factor, title, each)
    ]
    arms = list(dict.fromkeys(row["model"] for row in rows))[: len(SERIES) + 1]
    phase = "decode" if records[0].workload.output_len > 1 else "prefill"
    conditions = _shared(records)
    across = _across(factor, records[0])
    title = titled(f"{phase.capitalize()} speedup by {factor}", conditions)
    chart = _multiples(rows, arms, list(panels), across, f"{phase} speedup", title)
    return figure_of(
        chart,
        name=name,
        title=f"{phase.capitalize()} speedup by {factor}",
        caption=(
            "Each point is the median over rounds of the baseline's time by the model's, with its "
            "interval; above the dashed line is faster than the baseline. No-comm leaves "
            f"all-reduces out: it is a bound, and no model. Lines only lead the eye.{hidden} "
            f"{'. '.join(conditions)}. {timing_words(records[0])}"
        ),
        alt=_alt(rows, arms, factor, phase),
    )


def _points(factor: str, panel: str, record: SpeedRecord) -> Iterator[_Row]:
    for row in record.rows:
        speedup, value = phase_of(row).speedup, _FACTORS[factor](record)
        if row.role != CONTROL and speedup is not None and value is not None:
            yield _point(row, speedup) | {"at": value, "panel": panel}


def _point(row: SpeedRow, estimate: Estimate) -> _Row:
    return {
        "model": arm_words(row),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "role": row.role,
    }


def _across(factor: str, record: SpeedRecord) -> str:
    if factor != "link latency":
        return factor
    ratio = record.link.latency_ratio is not None
    return "link latency, × block time" if ratio else "link latency, µs"


def _multiples(
    rows: Sequence[_Row],
    arms: Sequence[str],
    panels: Sequence[str],
    across: str,
    up: str,
    title: Any,
) -> Any:
    """A panel under the other, all with the same axes."""
    values = sorted({row["at"] for row in rows})
    log = values[0] > 0 and values[-1] / values[0] >= 8
    kind = {"type": "log"} if log else {"type": "linear", "zero": False}  # logs have no zero
    scale = alt.Scale(**kind, padding=14, nice=False)
    axis = alt.Axis(values=values, format="~g", grid=False, labelOverlap=True)
    base = alt.Chart().encode(
        alt.X("at:Q", title=across, scale=scale, axis=axis), _arm(alt.Color, SERIES, arms)
    )
    y = {"title": up, "scale": alt.Scale(zero=False)}
    tips = ["model:N", "at:Q", "value:Q", "low:Q", "high:Q", "panel:N"]
    layers = [
        _as_fast(),
        base.mark_line(strokeWidth=1.2, opacity=0.7).encode(alt.Y("value:Q", **y)),
        base.mark_rule(strokeWidth=1.5).encode(alt.Y("low:Q", **y), alt.Y2("high:Q")),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            alt.Y("value:Q", **y), _arm(alt.Shape, SHAPES, arms), tooltip=tips
        ),
    ]
    shown = alt.Data(values=[row for row in rows if row["model"] in arms])
    single = len(panels) == 1
    plot = alt.layer(*layers, data=shown).properties(width=WIDTH, height=230 if single else 160)
    if single:
        return plot.properties(title=title)
    header = alt.Facet("panel:N", sort=list(panels), title=None)
    return plot.facet(header, columns=1).properties(title=title)


def _as_fast() -> Any:
    """The line of speed-up 1; a panel's rows become one, since each would draw it once more."""
    one = alt.Chart().transform_aggregate(rows="count()")
    return one.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(alt.Y(datum=1.0))


def _arm(channel: Any, values: Sequence[str], arms: Sequence[str]) -> Any:
    """Models by colour or shape, with one legend for both; the bound has its own."""
    own = dict(zip([arm for arm in arms if arm != _BOUND_WORDS], values, strict=False))
    shown = [own.get(arm, BOUND[channel is alt.Shape]) for arm in arms]
    scale = alt.Scale(domain=list(arms), range=shown)
    return channel("model:N", scale=scale, legend=alt.Legend(title=None, columns=2))


def _tokens(record: SpeedRecord, name: str) -> Figure:
    """Tokens/s of every model in one setting."""
    rows = [_point(row, row.tokens_per_s) for row in record.rows if row.role != CONTROL]
    names = [row["model"] for row in rows]
    short = short_names([row.arm for row in record.rows if row.role not in (CONTROL, "bound")])
    rows = [row | {"label": short.get(row["model"], row["model"])} for row in rows]
    conditions = [speed_title(record)]
    said = "; ".join(f"{row['model']} {digits(row['value'])}" for row in rows)
    return figure_of(
        _dots(rows, titled("Tokens/s", conditions), record.kind),
        name=name,
        title=f"Tokens/s: {speed_title(record)}",
        caption=(
            "Tokens of all rows by the latency of the whole generation: medians over rounds, with "
            f"their intervals. {'No-comm is a bound, and no model. ' if len(names) > 1 else ''}"
            f"{timing_words(record)}"
        ),
        alt=f"Dot plot of {record.kind} tokens/s: {said}.",
    )


def _dots(rows: Sequence[_Row], title: Any, kind: str) -> Any:
    order = [row["label"] for row in rows]
    roles, colours = ["baseline", "candidate", "bound"], [INK, SERIES[0], BOUND[0]]
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        alt.Y("label:N", sort=order, title=None, axis=alt.Axis(grid=True)),
        alt.Color("role:N", scale=alt.Scale(domain=roles, range=colours), legend=None),
    )
    x = {"title": f"tokens/s ({kind})", "scale": alt.Scale(zero=False)}
    bars = base.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q", **x), alt.X2("high:Q"))
    tips = ["model:N", "value:Q", "low:Q", "high:Q"]
    shape = alt.Shape(
        "role:N", scale=alt.Scale(domain=roles, range=["circle", "square", BOUND[1]]), legend=None
    )
    marks = base.mark_point(filled=True, size=65, opacity=1).encode(
        alt.X("value:Q", **x), shape, tooltip=tips
    )
    return alt.layer(bars, marks).properties(width=WIDTH - 80, height=26 * len(rows), title=title)


def _shared(records: Sequence[SpeedRecord]) -> list[str]:
    """What all panels have in common, in a line."""
    first = records[0]
    random = ", random weights" if first.weights == RANDOM else ""
    links = dict.fromkeys(link_words(record.link) for record in records)
    link = next(iter(links)) if len(links) == 1 else f"the {first.link.name} ({first.link.mode})"
    fixed = [
        f"{name} {next(iter(own))}"
        for name in ("tp_size", "batch_size", "prompt_len", "output_len")
        if len(own := {_FACTORS[name](record) for record in records}) == 1
    ]
    return [f"{first.kind.capitalize()}: {first.model}{random}, over {link}; {', '.join(fixed)}"]


def _alt(rows: Sequence[_Row], arms: Sequence[str], factor: str, phase: str) -> str:
    said = []
    for arm in arms:
        own = [row["value"] for row in rows if row["model"] == arm]
        said.append(f"{arm} {digits(min(own))} to {digits(max(own))}")
    return f"Curves of {phase} speedup by {factor}: {'; '.join(said)}."
