"""How charts look: colours for light, dark and grey, and from a chart to a `Figure`.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which any eyes tell apart, and
series differ by shape or by name, too. A chart is drawn once, in its light colours; a style sheet
in the SVG gives each of them another one where the reader prefers dark pages. Whatever is drawn
says which conditions it must not be quoted without.
"""

import re
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import vl_convert
from altair import SCHEMA_VERSION, TitleParams

from ladder_eval.report.page.content import Figure

__all__ = [
    "BOUND",
    "GRID",
    "INK",
    "MUTED",
    "SERIES",
    "SHAPES",
    "WIDTH",
    "dark_style",
    "figure_of",
    "short_names",
    "titled",
    "vega_runtime",
]

WIDTH: Final = 400
"""Pixels across a chart's plot; with its axis it is still readable on a telephone."""

INK: Final = "#1a1a1a"
MUTED: Final = "#5c5c5c"
GRID: Final = "#d8d8d8"

SERIES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of series, in the order of use."""

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right")
"""Shapes of series, in the same order."""

BOUND: Final = ("#7a7a7a", "cross")
"""Colour and shape of no-comm, which is no model but a bound."""

_DARK: Final = {
    INK: "#e8e8e8",
    MUTED: "#a8adb5",
    GRID: "#363c45",
    "#0072b2": "#56b4e9",
    "#d55e00": "#f08a4b",
    "#009e73": "#2cc79a",
    "#cc79a7": "#e3a3c6",
    "#e69f00": "#f0c04a",
    "#56b4e9": "#9ad2f5",
    "#7a7a7a": "#b5b5b5",
}

_FONT: Final = "sans-serif"
_SCALE: Final = 2  # pixels of the PNG by those of the chart
_LETTERS: Final = 72  # of a line of conditions
_LONGEST_NAME: Final = 28


def figure_of(chart: Any, *, name: str, title: str, caption: str, alt: str) -> Figure:
    """Draw a chart as SVG and PNG.

    Args:
        chart: Of altair, its data inside.
        name: As of `Figure`, as are the others.
        title: What it shows.
        caption: How it is read.
        alt: What it says.
    """
    spec = configured(chart).to_dict()
    version = _vega_lite()
    svg = vl_convert.vegalite_to_svg(spec, vl_version=version)
    png = vl_convert.vegalite_to_png(
        spec | {"background": "white"}, vl_version=version, scale=_SCALE
    )
    return Figure(
        name=name, title=title, caption=caption, alt=alt, svg=_adapted(svg), png=png, spec=spec
    )


@cache
def vega_runtime() -> str:
    """Vega, Vega-Lite and vega-embed as one script that sets `window.vegaEmbed`; 0.9 MB."""
    snippet = "window.vegaEmbed = vegaEmbed;"
    return str(vl_convert.javascript_bundle(snippet, vl_version=_vega_lite()))


def _vega_lite() -> str:
    """The version of Vega-Lite that charts are written in, such as "6.1"."""
    return ".".join(SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def titled(title: str, conditions: Sequence[str]) -> TitleParams:
    """A chart's heading, with what it must not be quoted without below it."""
    lines = [line for each in conditions for line in textwrap.wrap(each, _LETTERS)]
    return TitleParams(text=title, subtitle=lines)


def configured(chart: Any) -> Any:
    """A chart with the fonts and colours of all."""
    text = {"labelColor": INK, "titleColor": INK, "labelFont": _FONT, "titleFont": _FONT}
    return (
        chart.configure(background="transparent", font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(
            **text,
            labelFontSize=12,
            titleFontSize=13,
            titleFontWeight="normal",
            gridColor=GRID,
            domainColor=MUTED,
            tickColor=MUTED,
            labelLimit=220,
        )
        .configure_legend(
            **text, labelFontSize=12, titleFontSize=12, orient="bottom", symbolOpacity=1,
            columns=2, labelLimit=240, symbolStrokeWidth=1.5,
        )
        .configure_header(**text, labelFontSize=12, titleFontSize=13)
        .configure_title(
            anchor="start", fontSize=14, color=INK, subtitleFontSize=11, subtitleColor=MUTED,
            font=_FONT, subtitleFont=_FONT, frame="group", offset=12, subtitlePadding=4,
        )
    )  # fmt: skip


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names without what all share, which no chart has room for: "ladder" for "ladder_x_1b".

    What is left out is the longest run of words, parted by "_", that is in every name; a name that
    has nothing else keeps it. Of long ones the middle is left out, too. Names that would become
    equal are all kept.
    """
    words = [name.split("_") for name in names]
    shared = _shared_run(words) if len(names) > 1 else []
    apart = [_without(shared, each) or name for each, name in zip(words, names, strict=True)]
    short = [_without_middle(each) for each in apart]
    return dict(zip(names, short if len(set(short)) == len(names) else names, strict=True))


def _without_middle(name: str) -> str:
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[-half + 1 :]}"


def _shared_run(words: Sequence[Sequence[str]]) -> list[str]:
    """The longest run of words that is in each of several lists; empty without any."""
    first = list(words[0])
    lengths = range(len(first), 0, -1)
    runs = (first[at : at + n] for n in lengths for at in range(len(first) - n + 1))
    return next((run for run in runs if all(_at(run, each) is not None for each in words)), [])


def _at(run: Sequence[str], words: Sequence[str]) -> int | None:
    places = range(len(words) - len(run) + 1)
    return next((i for i in places if list(words[i : i + len(run)]) == list(run)), None)


def _without(run: Sequence[str], words: Sequence[str]) -> str:
    at = _at(run, words) or 0
    return "_".join([*words[:at], *words[at + len(run) :]])


def dark_style() -> str:
    """A style sheet that gives everything of class "chart" its colours on dark pages."""
    rules = "".join(
        f'.chart [{kind}="{light}"]{{{kind}:{dark}}}'
        for light, dark in _DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media(prefers-color-scheme:dark){{{rules}}}"


def _adapted(svg: str) -> str:
    """An SVG of light colours with a style sheet for dark pages."""
    root = rf'<svg class="chart" role="img"\1\2><style>{dark_style()}</style>'
    return re.sub(r'<svg\b([^>]*?) class="[^"]*"([^>]*)>', root, svg, count=1)
