"""Every task's difference with its interval, a candidate beside the other, and their means."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import altair as alt

from ladder_eval.report.page.chart_style import (
    GRID,
    MUTED,
    SERIES,
    SHAPES,
    WIDTH,
    figure_of,
    short_names,
    titled,
)
from ladder_eval.report.page.content import Figure
from ladder_eval.report.words import bounds, subset
from ladder_eval.report.words import points as in_points
from ladder_eval.results.mean_difference import MeanDifference, candidates, mean_difference
from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.records import POOLED, Comparison, RunResult
from ladder_eval.results.statistics import Interval

__all__ = ["MOST_CANDIDATES", "forest_figure"]

MOST_CANDIDATES: Final = len(SERIES)
"""Candidates that a plot tells apart; of more, the first ones are shown."""

_MEAN: Final = "mean of tasks"
_BAR: Final = 13  # pixels for each interval

_Row = dict[str, Any]


def forest_figure(result: RunResult, name: str = "differences") -> Figure | None:
    """The differences of a run's candidates; None where nothing is compared in points.

    Args:
        result: The run.
        name: The figure's name.
    """
    names = candidates(result)[:MOST_CANDIDATES]
    found = {each: mean_difference(result, each) for each in names}
    means = [each for each in found.values() if each is not None]
    if not means:
        return None
    short = short_names([means[0].baseline, *(each.candidate for each in means)])
    rows = [row for mean in means for row in _rows(result, mean, short[mean.candidate])]
    conditions = _conditions(result)
    return figure_of(
        _chart(rows, titled("Differences by task", conditions)),
        name=name,
        title=f"Differences from {result.baseline} by task, in points",
        caption=_caption(result, conditions, len(candidates(result)) - len(names)),
        alt=_alt(means),
    )


def _rows(result: RunResult, mean: MeanDifference, label: str) -> Iterator[_Row]:
    """A row a task, in the run's order, and one of the mean."""
    names = {"model": mean.candidate, "label": label}
    own = {each.task: each for each in result.comparisons if each.candidate == mean.candidate}
    for task in result.tasks:
        each = own.get(task.task)
        if each is not None and is_fraction(each.metric):
            yield names | _row(each.task, each.difference, each, each.n)
    yield names | _row(_MEAN, mean.difference, mean.interval, mean.n)


def _row(task: str, difference: float, ends: Interval | Comparison, n: int) -> _Row:
    return {
        "task": task,
        "points": 100 * difference,
        "low": 100 * ends.low,
        "high": 100 * ends.high,
        "n": n,
    }


def _chart(rows: Sequence[_Row], title: Any) -> Any:
    models = list(dict.fromkeys(row["label"] for row in rows))
    tasks = [*dict.fromkeys(row["task"] for row in rows if row["task"] != _MEAN), _MEAN]
    height = len(tasks) * (len(models) * _BAR + 8)
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        y=alt.Y("task:N", sort=tasks, title=None, axis=alt.Axis(ticks=False, domain=False)),
        yOffset=alt.YOffset("label:N", sort=models, scale=alt.Scale(paddingOuter=0.25)),
        color=_by_model("color", models),
    )
    across = "accuracy difference from the baseline, points"
    bars = base.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q", title=across), alt.X2("high:Q"))
    tips = ["model:N", "task:N", "n:Q"]
    numbers = [alt.Tooltip(f"{each}:Q", format="+.2f") for each in ("points", "low", "high")]
    marks = base.mark_point(filled=True, size=45, opacity=1).encode(
        alt.X("points:Q", title=across),
        shape=_by_model("shape", models),
        tooltip=[*map(alt.Tooltip, tips), *numbers],
    )
    layers = [_band(tasks), _zero(), bars, marks]
    return alt.layer(*layers).properties(width=WIDTH - 60, height=height, title=title)


def _by_model(channel: str, models: Sequence[str]) -> Any:
    """Models by colour and by shape, under short names; a single one needs no legend."""
    values = {"color": SERIES, "shape": SHAPES}[channel][: len(models)]
    return {"color": alt.Color, "shape": alt.Shape}[channel](
        "label:N",
        scale=alt.Scale(domain=list(models), range=list(values)),
        legend=alt.Legend(title=None, columns=2) if len(models) > 1 else None,
    )


def _band(tasks: Sequence[str]) -> Any:
    """What sets the mean apart from the tasks."""
    chart = alt.Chart(alt.Data(values=[{"task": _MEAN}]))
    return chart.mark_bar(color=GRID, opacity=0.5).encode(
        alt.Y("task:N", sort=list(tasks)), x=alt.value(0), x2=alt.value(WIDTH - 60)
    )


def _zero() -> Any:
    chart = alt.Chart(alt.Data(values=[{"at": 0}]))
    return chart.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(alt.X("at:Q"))


def _conditions(result: RunResult) -> list[str]:
    part = f", {subset(result.tasks)}" if subset(result.tasks) else ""
    own = set(candidates(result))
    made = dict.fromkeys(each.adaptation for each in result.models if each.name in own)
    return [
        f"Suite {result.suite}{part}; candidates {', '.join(made)}; baseline {result.baseline}",
    ]


def _caption(result: RunResult, conditions: Sequence[str], hidden: int) -> str:
    compared = [each for each in result.comparisons if each.task != POOLED]
    level = ", ".join(_levels(compared))
    ratios = dict.fromkeys(each.task for each in compared if not is_fraction(each.metric))
    left = f" Not shown, as they're compared by their ratio: {', '.join(ratios)}." if ratios else ""
    more = f" {hidden} more candidates aren't shown." if hidden else ""
    return (
        f"To the right of the line a candidate is more accurate. Bars are {level} intervals of "
        "each task alone, uncorrected for there being several; in the mean each task weighs the "
        f"same.{left}{more} {'. '.join(conditions)}."
    )


def _levels(compared: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(f"{100 * each.confidence:g} %" for each in compared))


def _alt(means: Sequence[MeanDifference]) -> str:
    said = (
        f"{each.candidate} {in_points(each.difference)} "
        f"{bounds(each.interval.low, each.interval.high)}"
        for each in means
    )
    return f"Forest plot of differences by task, in points. Means: {'; '.join(said)}."
