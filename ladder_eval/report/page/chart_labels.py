"""Names beside points, where they cover neither each other nor what is drawn."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from ladder_eval.report.page.chart_style import INK, MUTED

__all__ = ["Box", "Label", "label_charts", "place_labels"]

_LETTER: Final = 6.4  # pixels of a letter of 12 pixels' height, on average
_HEIGHT: Final = 13.0
_RINGS: Final = (9.0, 16.0, 26.0, 38.0, 52.0, 68.0)  # pixels from a point to its name
_DIRECTIONS: Final = 16
_NEAR: Final = 20.0

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels from the plot's upper left corner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A name and where it is written, in pixels from the plot's upper left corner.

    Attributes:
        text: The name.
        x: Its left end, or its right end.
        y: Its middle.
        align: "left" or "right", which end `x` is.
        point: What it names.
    """

    text: str
    x: float
    y: float
    align: str
    point: tuple[float, float]

    @property
    def is_far(self) -> bool:
        """Whether it takes a line to see which point it names."""
        return math.dist((self.x, self.y), self.point) > _NEAR


def place_labels(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    size: tuple[float, float],
    lines: Sequence[Box] = (),
) -> list[Label]:
    """A place for the name of each point, one after the other.

    Each takes the place around its point that covers least: of the names before it, which count
    most, of points, and of lines. To leave the plot counts, too, and so does distance.

    Args:
        points: Of each, x and y in pixels.
        names: The names, in the same order.
        size: The plot's width and height.
        lines: What is drawn beside the points, as left, top, right and bottom.
    """
    found: list[Label] = []
    marks = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    for number, (point, name) in enumerate(zip(points, names, strict=True)):
        others = [*marks[:number], *marks[number + 1 :]]
        plot = _Plot(size=size, marks=others, lines=lines, labels=tuple(found))
        found.append(min(_places(*point, name), key=plot.cost))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plot:
    """What a name is written into: other points, lines, and the names before it."""

    size: tuple[float, float]
    marks: Sequence[Box]
    lines: Sequence[Box]
    labels: Sequence[Label]

    def cost(self, label: Label) -> float:
        """What speaks against a place, in pixels that are covered."""
        box, taken = _box(label), [_box(each) for each in self.labels]
        hidden = 10 * _covered(box, taken) + 5 * _covered(box, self.marks)
        crossed = _crossings(label, [*taken, *self.marks])
        crossed += sum(_crossings(each, [box]) for each in self.labels)
        away = math.dist((label.x, label.y), label.point)
        outside = 20 * (_outside(box, self.size) + crossed)
        return hidden + _covered(box, self.lines) + outside + 0.4 * away


def label_charts(labels: Sequence[Label]) -> list[Any]:
    """The names as layers of altair, with a thin line to the point of each that is far from it."""
    far = [{"x": e.x, "y": e.y, "to": e.point[0], "up": e.point[1]} for e in labels if e.is_far]
    lines = [_layer(far).mark_rule(color=MUTED, strokeWidth=0.8)] if far else []
    x, y = (alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None))
    words = [
        _layer(own)
        .mark_text(align=align, baseline="middle", fontSize=12, color=INK)
        .encode(x, y, text=alt.Text("text:N"))
        for align in ("left", "right")
        if (own := [_written(each) for each in labels if each.align == align])
    ]
    return [*(line.encode(x, y, alt.X2("to:Q"), alt.Y2("up:Q")) for line in lines), *words]


def _layer(rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))


def _written(label: Label) -> dict[str, Any]:
    """A name a little away from the end of its line."""
    gap = 2 if label.align == "left" else -2
    return {"text": label.text, "x": label.x + gap, "y": label.y}


def _places(x: float, y: float, name: str) -> Iterator[Label]:
    """All around a point, beginning there on its right side, where names are looked for first."""
    for ring in _RINGS:
        for number in range(_DIRECTIONS):
            # A line to a far name would else lie on the point's error bars.
            angle = 2 * math.pi * (number + 0.5 * (ring > _NEAR)) / _DIRECTIONS
            dx, dy = ring * math.cos(angle), -ring * math.sin(angle)
            align = "left" if dx > -0.1 else "right"
            yield Label(text=name, x=x + dx, y=y + dy, align=align, point=(x, y))


def _box(label: Label) -> Box:
    width = _LETTER * len(label.text)
    left = label.x if label.align == "left" else label.x - width
    return left, label.y - _HEIGHT / 2, left + width, label.y + _HEIGHT / 2


def _covered(box: Box, others: Sequence[Box]) -> float:
    """Pixels of a box that others cover, each line counting as two pixels wide."""
    left, top, right, bottom = box
    total = 0.0
    for a, b, c, d in others:
        width, height = min(right, c + 1) - max(left, a - 1), min(bottom, d + 1) - max(top, b - 1)
        total += max(0.0, width) * max(0.0, height)
    return total


def _crossings(label: Label, boxes: Sequence[Box]) -> int:
    """At how many of some places a label's line runs over boxes."""
    return sum(
        left <= x <= right and top <= y <= bottom
        for left, top, right, bottom in boxes
        for x, y in _line(label)
    )


def _line(label: Label) -> Iterator[tuple[float, float]]:
    """Places on a label's line; none where it has none."""
    if label.is_far:
        (x, y), steps = label.point, 8
        for step in range(1, steps):
            yield x + (label.x - x) * step / steps, y + (label.y - y) * step / steps


def _outside(box: Box, size: tuple[float, float]) -> float:
    left, top, right, bottom = box
    return max(0.0, -left) + max(0.0, -top) + max(0.0, right - size[0]) + max(0.0, bottom - size[1])
