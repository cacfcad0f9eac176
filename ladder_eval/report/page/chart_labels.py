"""Names beside points, where they cover neither each other nor what is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Label", "place_labels"]

_LETTER: Final = 6.4  # pixels of a letter of 12 pixels' height, on average
_HEIGHT: Final = 13.0
_GAP: Final = 9.0

_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A name and where it is written, in pixels from the plot's upper left corner.

    Attributes:
        text: The name.
        x: Its left end, or its right end.
        y: Its middle.
        align: "left" or "right", which end `x` is.
    """

    text: str
    x: float
    y: float
    align: str


def place_labels(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    size: tuple[float, float],
    lines: Sequence[_Box] = (),
) -> list[Label]:
    """A place for the name of each point, one after the other.

    Each takes the nearest place beside its point that covers least: of the names before it, which
    count most, of points, and of lines; one that leaves the plot counts, too.

    Args:
        points: Of each, x and y in pixels.
        names: The names, in the same order.
        size: The plot's width and height.
        lines: What is drawn beside the points, as left, top, right and bottom.
    """
    found: list[Label] = []
    marks = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    for point, name in zip(points, names, strict=True):
        taken = [_box(each) for each in found]

        def cost(label: Label, taken: Sequence[_Box] = taken) -> float:
            box = _box(label)
            hidden = (10 * _covered(box, taken), 5 * _covered(box, marks), _covered(box, lines))
            return sum(hidden) + 20 * _outside(box, size)

        found.append(min(_places(*point, name), key=cost))
    return found


def _places(x: float, y: float, name: str) -> Iterator[Label]:
    """Nearer ones first, so that they win where nothing is covered."""
    for away in (1.0, 1.8, 2.8, 4.0):
        for up in (-1.0, 1.0, 0.0):
            side = _GAP if up == 0 else 4.0
            height = up * away * _HEIGHT * 0.8
            for align, sign in (("left", 1), ("right", -1)):
                yield Label(text=name, x=x + sign * side * away, y=y + height, align=align)


def _box(label: Label) -> _Box:
    width = _LETTER * len(label.text)
    left = label.x if label.align == "left" else label.x - width
    return left, label.y - _HEIGHT / 2, left + width, label.y + _HEIGHT / 2


def _covered(box: _Box, others: Sequence[_Box]) -> float:
    """Pixels of a box that others cover, each line counting as two pixels wide."""
    left, top, right, bottom = box
    total = 0.0
    for a, b, c, d in others:
        width, height = min(right, c + 1) - max(left, a - 1), min(bottom, d + 1) - max(top, b - 1)
        total += max(0.0, width) * max(0.0, height)
    return total


def _outside(box: _Box, size: tuple[float, float]) -> float:
    left, top, right, bottom = box
    return max(0.0, -left) + max(0.0, -top) + max(0.0, right - size[0]) + max(0.0, bottom - size[1])
