"""The picture of a layer, read back from its XML."""

from xml.etree import ElementTree as ET

import pytest
from trace_by_hand import FAST, STANDARD, span

from ladder_eval.report.timeline import timeline
from ladder_eval.results.trace_records import ArmTrace, RankTrace

SVG = "{http://www.w3.org/2000/svg}"
# Layer 0 of standard takes 9 ms, from its attention at 1000 to the next at 1009, that of no-comm 3;
# 1.6 times the longer fill the width.
LEFT, SCALE = 132, (960 - 132 - 16) / (1.6 * 9)


def drawn(*traces, conditions=("random weights",)):
    return ET.fromstring(timeline(traces, "a title & more", conditions))


def bars(page):
    """Class, left, right and tooltip of every bar, with its row's height on the page."""
    found = []
    for each in page.iter(f"{SVG}rect"):
        tip = each.find(f"{SVG}title")
        if tip is not None:
            left, width = float(each.get("x")), float(each.get("width"))
            found.append((each.get("class"), left, left + width, tip.text, float(each.get("y"))))
    return found


def test_arms_share_one_scale_and_begin_with_the_layer():
    found = bars(drawn(STANDARD, FAST))
    mlps = [bar for bar in found if bar[3] == "mlp 0: 2000 µs"]
    ends = [(left, right) for _, left, right, *_ in mlps]
    assert ends[0] == pytest.approx((LEFT + 4 * SCALE, LEFT + 6 * SCALE), abs=0.02)
    assert ends[1] == pytest.approx((LEFT + 1 * SCALE, LEFT + 3 * SCALE), abs=0.02)
    assert mlps[0][4] < mlps[1][4]


def test_messages_go_from_their_start_to_their_arrival():
    found = [bar for bar in bars(drawn(STANDARD, FAST)) if bar[0] == "message"]
    ends = [(left, right) for _, left, right, *_ in found]
    assert ends[0] == pytest.approx((LEFT + 1 * SCALE, LEFT + 3.75 * SCALE), abs=0.02)
    assert ends[1] == pytest.approx((LEFT + 6 * SCALE, LEFT + 8.5 * SCALE), abs=0.02)
    # Where the arrival is unknown it is the end of the wait.
    assert ends[2] == pytest.approx((LEFT + 10 * SCALE, LEFT + 13 * SCALE), abs=0.02)
    # Two rows by turns; that of the token is out of the picture.
    assert found[0][4] == found[2][4] < found[1][4]
    assert len(found) == 3


def three_steps(*durations):
    """A prompt and steps in which the only layer takes so long, in milliseconds."""
    spans = [span("attention", 0, 0, 900), span("mlp", 0, 900, 999)]
    for forward, length in enumerate(durations, 1):
        spans.append(span("attention", 0, 1000 * forward, 1000 * forward + 1, forward))
        spans.append(span("mlp", 0, 1000 * forward + 1, 1000 * forward + length, forward))
    return ArmTrace(arm="x", ranks=(RankTrace(rank=0, spans=tuple(spans), messages=()),))


def test_the_step_with_the_median_time_is_shown():
    tips = [tip for *_, tip, _ in bars(drawn(three_steps(9, 3, 5)))]
    assert tips == ["attention 0: 1000 µs", "mlp 0: 4000 µs"]


def test_the_page_says_what_it_shows():
    page = drawn(STANDARD, FAST, conditions=("over the virtual link", "random weights"))
    words = [each.text for each in page.iter(f"{SVG}text")]
    assert words[0] == "a title & more"
    assert "no-comm <&>" in words
    assert words[-3:] == [
        "Layer 0 on rank 0, when it took its median time; then the next layer, faded.",
        "over the virtual link",
        "random weights",
    ]
    assert {"compute", "communication", "9 ms a layer", "3 ms a layer"} <= set(words)


def test_the_page_is_readable_on_dark_screens():
    style = timeline([STANDARD], "", []).split("<style>")[1].split("</style>")[0]
    light, dark = style.split("@media(prefers-color-scheme:dark)")
    for kind in ("page", "text", "attention", "mlp", "wait", "message"):
        assert kind in light
        assert kind in dark


def test_ticks_mark_the_last_rank():
    assert f'class="tick" d="M{LEFT + 2 * SCALE:.2f} ' in timeline([STANDARD, FAST], "", [])
