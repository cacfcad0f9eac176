"""A picture of one layer: what a rank computes and what is on its way, for each residual."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ladder_eval.results.trace_records import ArmTrace, RankTrace

__all__ = ["timeline"]

_WIDTH, _LEFT, _RIGHT = 960, 132, 16
_BAR, _ROW, _TOP = 18, 92, 58
_LANES = {"compute": 0, "communication": _BAR + 4}
# The next layer is shown as far as this, since a ladder's messages arrive in it.
_SHOWN = 1.6
_COLOURS = {  # on light, on dark; told apart by any eyes (Okabe and Ito, 2008)
    "attention": ("#0072b2", "#56b4e9"),
    "mlp": ("#e69f00", "#f0c04a"),
    "wait": ("#c9c9c9", "#555c66"),
    "message": ("#009e73", "#2cc79a"),
}
_LEGEND = {
    "attention": "attention",
    "mlp": "MLP",
    "wait": "waiting",
    "message": "all-reduce on its way (tick: last rank has sent)",
}


@dataclass(frozen=True, slots=True)
class _Window:
    """What of a rank's time is shown, in seconds."""

    begin: float
    layer_end: float
    scale: float  # pixels a second

    def x(self, moment: float) -> float:
        shown = self.scale * (moment - self.begin)
        return _LEFT + min(max(shown, 0.0), _WIDTH - _LEFT - _RIGHT)


def timeline(traces: Sequence[ArmTrace], title: str, conditions: Sequence[str]) -> str:
    """A middle layer on rank 0, arm under arm, on one scale of time, as SVG.

    Of each arm the decode step is shown in which that layer took its median time; where nothing is
    decoded, the prompt.

    Args:
        traces: Of each arm to show.
        title: What is shown.
        conditions: Lines that the picture must not be quoted without.
    """
    layer = max(span.layer for span in traces[0].ranks[0].spans) // 2
    shown = [_typical(trace.ranks[0], layer) for trace in traces]
    longest = max(end - begin for _, begin, end in shown)
    scale = (_WIDTH - _LEFT - _RIGHT) / (_SHOWN * longest)
    drawn = [_text(8, 22, title, "title")]
    for row, (trace, (forward, begin, end)) in enumerate(zip(traces, shown, strict=True)):
        window = _Window(begin, end, scale)
        drawn += _arm(trace, forward, window, _TOP + row * _ROW)
    bottom = _TOP + len(traces) * _ROW
    drawn += _axis(scale, longest, bottom)
    drawn += _legend(bottom + 34)
    which = f"Layer {layer} on rank 0, when it took its median time; then the next layer, faded."
    drawn += _footer([which, *conditions], bottom + 58)
    return _document(drawn, bottom + 66 + 16 * (len(conditions) + 1))


def _typical(rank: RankTrace, layer: int) -> tuple[int, float, float]:
    """The forward in which a layer took its median time, its begin and its end there."""
    forwards = range(1, rank.forwards()) or range(1)
    found = [(forward, *_layer_bounds(rank, forward, layer)) for forward in forwards]
    return sorted(found, key=lambda each: each[2] - each[1])[(len(found) - 1) // 2]


def _layer_bounds(rank: RankTrace, forward: int, layer: int) -> tuple[float, float]:
    """From a layer's first block to the next layer's, or to the last output where it is the last.

    The waits before a block belong to the layer before it.
    """
    spans = [span for span in rank.spans if span.forward == forward]
    begin = min(span.begin for span in spans if span.layer == layer)
    later = [span.begin for span in spans if span.layer > layer]
    ends = [m.waited for m in rank.messages if m.forward == forward and m.layer is not None]
    ends += [span.end for span in spans]
    return begin, min(later) if later else max(ends)


def _arm(trace: ArmTrace, forward: int, window: _Window, top: int) -> Iterator[str]:
    rank = trace.ranks[0]
    yield _text(8, top + 14, trace.arm, "arm")
    duration = 1e3 * (window.layer_end - window.begin)
    yield _text(8, top + 30, f"{duration:.3g} ms a layer", "small")
    for name, offset in _LANES.items():
        yield _text(_LEFT, top - 4 + offset if offset == 0 else top + offset + 50, name, "small")
    for span in rank.spans:
        if span.forward == forward:
            label = f"{span.kind} {span.layer}"
            yield _bar(window, span.begin, span.end, top, _BAR, span.kind, label)
    for number, message in enumerate(rank.messages):
        if message.forward == forward:
            yield _bar(window, message.wait, message.waited, top, _BAR, "wait", message.name)
            # Two rows by turns, since the next message may start before this one arrives.
            y = top + _LANES["communication"] + number % 2 * (_BAR // 2 + 2)
            end = message.waited if message.arrival is None else message.arrival
            yield _bar(window, message.start, end, y, _BAR // 2, "message", message.name)
            if message.sent is not None:
                yield _tick(window, message.sent, y, _BAR // 2)
    x = window.x(window.layer_end)
    yield (
        f'<rect class="later" x="{x:.1f}" y="{top - 2}" width="{_WIDTH - x:.1f}" '
        f'height="{2 * _BAR + 14}"/>'
    )
    yield f'<path class="end" d="M{x:.1f} {top - 2}v{2 * _BAR + 12}"/>'


def _bar(
    window: _Window, begin: float, end: float, y: int, height: int, kind: str, label: str
) -> str:
    """A bar with its name and its length as a tooltip; nothing where it isn't in the window."""
    left, right = window.x(begin), window.x(end)
    if right <= left:
        return ""
    words = escape(f"{label}: {1e6 * (end - begin):.0f} µs")
    return (
        f'<rect class="{kind}" x="{left:.2f}" y="{y}" width="{right - left:.2f}" '
        f'height="{height}"><title>{words}</title></rect>'
    )


def _tick(window: _Window, moment: float, y: int, height: int) -> str:
    x = window.x(moment)
    inside = _LEFT < x < _WIDTH - _RIGHT
    return f'<path class="tick" d="M{x:.2f} {y}v{height}"/>' if inside else ""


def _axis(scale: float, longest: float, y: int) -> Iterator[str]:
    """Moments at a round distance, of which there are some four in a layer."""
    exponent = f"{longest / 4:e}".partition("e")[2]
    unit = 10.0 ** int(exponent)
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= longest / 4)
    for number in range(int(_SHOWN * longest / step) + 1):
        x = _LEFT + scale * number * step
        yield f'<path class="axis" d="M{x:.1f} {_TOP - 8}V{y}"/>'
        yield _text(round(x), y + 14, f"{1e3 * number * step:.4g} ms", "small")


def _legend(y: int) -> Iterator[str]:
    x = _LEFT
    for kind, words in _LEGEND.items():
        yield f'<rect class="{kind}" x="{x}" y="{y - 10}" width="12" height="12"/>'
        yield _text(x + 18, y, words, "small")
        x += 40 + 8 * len(words)


def _footer(lines: Sequence[str], y: int) -> list[str]:
    return [_text(8, y + 16 * number, line, "small") for number, line in enumerate(lines)]


def _text(x: int, y: int, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def _document(drawn: Sequence[str], height: int) -> str:
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    body = "\n".join(filter(None, drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _style() -> str:
    """Colours for light pages, and others where the reader prefers dark ones."""
    light, dark = (
        "".join(f".{kind}{{fill:{pair[number]}}}" for kind, pair in _COLOURS.items())
        for number in (0, 1)
    )
    ink = ".page,.later{{fill:{0}}}text{{fill:{1}}}.axis{{stroke:{2}}}.end,.tick{{stroke:{1}}}"
    fonts = (
        "text{font-family:system-ui,sans-serif}.title{font-size:13px;font-weight:600}"
        ".arm{font-size:13px;font-weight:600}.small{font-size:11px}"
        ".later{fill-opacity:.6}.end{stroke-dasharray:3 2}.axis{stroke-width:.5}"
    )
    on_light, on_dark = (
        ink.format("#ffffff", "#1a1a1a", "#d8d8d8"),
        ink.format("#14171c", "#e8e8e8", "#363c45"),
    )
    return f"{fonts}{on_light}{light}@media(prefers-color-scheme:dark){{{on_dark}{dark}}}"
