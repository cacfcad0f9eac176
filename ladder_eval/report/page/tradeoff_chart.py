"""Speed-up across, accuracy upwards: a point a model, with the intervals of both."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from ladder_eval.report.page.chart_labels import Box, label_charts, place_labels
from ladder_eval.report.page.chart_style import (
    INK,
    MUTED,
    SERIES,
    WIDTH,
    figure_of,
    short_names,
    titled,
)
from ladder_eval.report.page.content import Figure
from ladder_eval.report.speed import speed_title, timing_words
from ladder_eval.report.words import points as in_points
from ladder_eval.report.words import subset
from ladder_eval.results.records import RunResult
from ladder_eval.results.tradeoff import Point, Tradeoff, front

__all__ = ["tradeoff_figure"]

_HEIGHT: Final = 300
_KINDS: Final = {"measured": "circle", "emulated": "triangle-up", "predicted": "diamond"}

_Row = dict[str, Any]
_Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Axes:
    """What the plot shows of speed-ups and of points, and what its axes say."""

    across: _Ends
    up: _Ends
    across_title: str

    def x(self, field: str) -> Any:
        scale = alt.Scale(domain=list(self.across), nice=False, zero=False)
        return alt.X(f"{field}:Q", title=self.across_title, scale=scale)

    def y(self, field: str) -> Any:
        scale = alt.Scale(domain=list(self.up), nice=False, zero=False)
        return alt.Y(f"{field}:Q", title="mean accuracy difference, points", scale=scale)

    def pixel(self, speedup: float, points: float) -> tuple[float, float]:
        """From the plot's upper left corner."""
        (left, right), (bottom, top) = self.across, self.up
        x, y = (speedup - left) / (right - left), (top - points) / (top - bottom)
        return WIDTH * x, _HEIGHT * y


def tradeoff_figure(result: RunResult, tradeoff: Tradeoff, name: str = "tradeoff") -> Figure:
    """The trade-off of models that were timed in the same rounds.

    Args:
        result: The run.
        tradeoff: One of its `tradeoffs`.
        name: The figure's name.
    """
    best = front(tradeoff.points)
    rows = _rows(tradeoff, best)
    axes = _Axes(
        across=_domain([row[key] for row in rows for key in ("speedup", "slow", "fast")]),
        up=_domain([row[key] for row in rows for key in ("points", "worse", "better")]),
        across_title=_across(tradeoff),
    )
    layers = [
        _reference(axes.x("at"), 1.0),
        _reference(axes.y("at"), 0.0),
        *([_front(best, axes)] if len(best) > 1 else []),
        *_bars(rows, axes),
        _marks(rows, axes),
        *_names(rows, best, axes),
    ]
    conditions = _conditions(result, tradeoff)
    chart = alt.layer(*layers).properties(
        width=WIDTH, height=_HEIGHT, title=titled("Accuracy against speed", conditions)
    )
    return figure_of(
        chart,
        name=name,
        title=f"Accuracy against {speed_title(tradeoff.record)}",
        caption=_caption(tradeoff, best, conditions),
        alt=_alt(tradeoff, best),
    )


def _rows(tradeoff: Tradeoff, best: Sequence[Point]) -> list[_Row]:
    short = short_names([point.arm for point in tradeoff.points])
    return [_row(point, short[point.arm], point in best, tradeoff) for point in tradeoff.points]


def _row(point: Point, label: str, on_front: bool, tradeoff: Tradeoff) -> _Row:
    accuracy, speed = point.accuracy, point.speed
    return {
        "model": point.arm,
        "label": label,
        "speedup": point.speedup,
        "slow": speed.low if speed else point.speedup,
        "fast": speed.high if speed else point.speedup,
        "points": 100 * point.difference,
        "worse": 100 * (accuracy.low if accuracy else point.difference),
        "better": 100 * (accuracy.high if accuracy else point.difference),
        "milliseconds": 1e3 * point.seconds.value,
        "tokens_per_s": point.tokens_per_s.value,
        "family": point.family or "baseline",
        "kind": tradeoff.record.kind,
        "on the front": "yes" if on_front else "no",
    }


def _domain(values: Sequence[float]) -> _Ends:
    """From the least to the largest value, with room at either end."""
    room = max(0.08 * (max(values) - min(values)), 1e-3)
    return min(values) - room, max(values) + room


def _reference(channel: Any, at: float) -> Any:
    chart = alt.Chart(alt.Data(values=[{"at": at}])).mark_rule(color=MUTED, strokeDash=[4, 3])
    return chart.encode(channel)


def _front(best: Sequence[Point], axes: _Axes) -> Any:
    """Steps: what the best of the models at least as fast loses."""
    rows = [{"speedup": each.speedup, "points": 100 * each.difference} for each in best]
    mark = {"interpolate": "step-before", "color": MUTED, "strokeWidth": 1}
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(**mark)
        .encode(axes.x("speedup"), axes.y("points"))
    )


def _bars(rows: Sequence[_Row], axes: _Axes) -> list[Any]:
    """Two error bars a candidate; the baseline has none, as it is what others are held against."""
    chart = alt.Chart(alt.Data(values=[row for row in rows if row["family"] != "baseline"]))
    bar, colour = chart.mark_rule(strokeWidth=1.5), _colour(rows)
    return [
        bar.encode(axes.x("slow"), alt.X2("fast:Q"), axes.y("points"), colour),
        bar.encode(axes.x("speedup"), axes.y("worse"), alt.Y2("better:Q"), colour),
    ]


def _colour(rows: Sequence[_Row]) -> Any:
    """Families by colour, the baseline in that of text; named where there are several."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    scale = alt.Scale(domain=families, range=[INK, *SERIES[: len(families) - 1]])
    legend = alt.Legend(title=None) if len(families) > 2 else None
    return alt.Color("family:N", scale=scale, legend=legend)


def _marks(rows: Sequence[_Row], axes: _Axes) -> Any:
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=list(_KINDS), range=list(_KINDS.values())),
        legend=None,
    )
    tips = [
        alt.Tooltip("model:N"),
        alt.Tooltip("points:Q", format="+.2f"),
        alt.Tooltip("worse:Q", title="from", format="+.2f"),
        alt.Tooltip("better:Q", title="to", format="+.2f"),
        alt.Tooltip("speedup:Q", title="speedup", format=".3f"),
        alt.Tooltip("slow:Q", title="from", format=".3f"),
        alt.Tooltip("fast:Q", title="to", format=".3f"),
        alt.Tooltip("milliseconds:Q", title="ms", format=".3g"),
        alt.Tooltip("tokens_per_s:Q", title="tokens/s", format=".3g"),
        alt.Tooltip("kind:N"),
        alt.Tooltip("on the front:N"),
    ]
    chart = alt.Chart(alt.Data(values=list(rows))).mark_point(filled=True, size=75, opacity=1)
    return chart.encode(axes.x("speedup"), axes.y("points"), _colour(rows), shape, tooltip=tips)


def _names(rows: Sequence[_Row], best: Sequence[Point], axes: _Axes) -> list[Any]:
    placed = place_labels(
        [axes.pixel(row["speedup"], row["points"]) for row in rows],
        [row["label"] for row in rows],
        (WIDTH, _HEIGHT),
        [*_lines(rows, axes), *_steps(best, axes)],
    )
    return label_charts(placed)


def _lines(rows: Sequence[_Row], axes: _Axes) -> Iterator[Box]:
    """Error bars and both lines of the baseline, which names keep clear of; in pixels."""
    for row in rows:
        yield *axes.pixel(row["slow"], row["points"]), *axes.pixel(row["fast"], row["points"])
        yield *axes.pixel(row["speedup"], row["better"]), *axes.pixel(row["speedup"], row["worse"])
    x, y = axes.pixel(1.0, 0.0)
    yield 0.0, y, WIDTH, y
    yield x, 0.0, x, _HEIGHT


def _steps(best: Sequence[Point], axes: _Axes) -> Iterator[Box]:
    """The front's line, down from each point and then across to the next one."""
    places = [axes.pixel(point.speedup, 100 * point.difference) for point in best]
    for (x, y), (right, below) in itertools.pairwise(places):
        yield x, y, x, below
        yield x, below, right, below


def _across(tradeoff: Tradeoff) -> str:
    """Such as "decode speedup (measured over the virtual link)"."""
    record = tradeoff.record
    link = f" over the {record.link.name}" if record.link.mode and record.tp_size > 1 else ""
    link = "" if record.kind != "measured" else link
    return f"{tradeoff.phase} speedup ({record.kind}{link})"


def _conditions(result: RunResult, tradeoff: Tradeoff) -> list[str]:
    """What neither axis may be quoted without."""
    tasks = [task for task in result.tasks if task.task in tradeoff.points[1].tasks]
    part = f", {subset(tasks)}" if subset(tasks) else ""
    made = dict.fromkeys(point.adaptation for point in tradeoff.points[1:])
    return [
        f"Suite {result.suite}: mean of {len(tasks)} tasks{part}; candidates {', '.join(made)}",
        f"{speed_title(tradeoff.record)}",
    ]


def _caption(tradeoff: Tradeoff, best: Sequence[Point], conditions: Sequence[str]) -> str:
    names = ", ".join(point.arm for point in best)
    missing = f" Without both: {', '.join(tradeoff.missing)}." if tradeoff.missing else ""
    return (
        "Up is more accurate, to the right is faster. Bars are the 95 % intervals of the mean "
        "difference and those of the median speed-up. No other model is at least as fast and at "
        f"least as accurate as one on the line, the Pareto front of the estimates: {names}."
        f"{missing} {conditions[0]}. {timing_words(tradeoff.record)}"
    )


def _alt(tradeoff: Tradeoff, best: Sequence[Point]) -> str:
    said = (
        f"{point.arm} {in_points(point.difference)} points at speedup {point.speedup:.2f}"
        f"{' (front)' if point in best else ''}"
        for point in tradeoff.points
    )
    return f"Scatter plot of accuracy against {tradeoff.record.kind} speed: {'; '.join(said)}."
