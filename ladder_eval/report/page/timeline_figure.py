"""The pictures of a layer that a traced bench left in its folder, as figures."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import vl_convert

from ladder_eval.errors import RecordError
from ladder_eval.report.page.content import Figure

__all__ = ["timeline_figures"]

_SVG: Final = "{http://www.w3.org/2000/svg}"
_SCALE: Final = 2


def timeline_figures(folder: Path) -> tuple[Figure, ...]:
    """A figure for each `timeline.svg`, `timeline-2.svg` and so on of a run, in that order.

    They are wider than others, 960 pixels; a page lets them be scrolled where it is narrower.

    Raises:
        RecordError: If one can't be read.
    """
    found = sorted(folder.glob("timeline*.svg"), key=lambda file: _number(file.stem))
    return tuple(_figure(file) for file in found)


def _number(stem: str) -> int:
    digits = re.search(r"\d+$", stem)
    return int(digits[0]) if digits else 1


def _figure(file: Path) -> Figure:
    try:
        svg = file.read_text("utf-8")
        words = _words(svg)
        png = vl_convert.svg_to_png(svg, scale=_SCALE)
    except (OSError, ValueError, ET.ParseError) as error:
        raise RecordError(f"{file} can't be read ({error}); trace the run again.") from None
    title = " ".join(words["title"])
    arms = ", ".join(words["arm"])
    return Figure(
        name=file.stem,
        title=f"One layer, {title}",
        caption=(
            "What rank 0 computes, and below it what is on its way meanwhile, on one scale of "
            f"time for all models. {' '.join(words['small'])}"
        ),
        alt=f"Timeline of one layer on rank 0, of {arms}: {title}.",
        svg=svg,
        png=png,
    )


def _words(svg: str) -> dict[str, list[str]]:
    """The picture's title, the names of its models, and the sentences below it."""
    found: dict[str, list[str]] = {"title": [], "arm": [], "small": []}
    for each in ET.fromstring(svg).iter(f"{_SVG}text"):
        found.setdefault(each.get("class", ""), []).append(each.text or "")
    begin = next(
        (i for i, each in enumerate(found["small"]) if each.startswith("Layer ")),
        len(found["small"]),
    )
    return found | {"small": found["small"][begin:]}
