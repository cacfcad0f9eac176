"""Plots, read back from what was drawn."""

import re
from dataclasses import replace

import pytest
from reading_charts import colours, marks, parsed, png_size, svg_size, texts
from trace_by_hand import FAST, STANDARD
from tradeoff_runs import BASELINE, LADDERS, arm, rounds_of, speed_record, three_ladders, traded

from ladder_eval.errors import RecordError
from ladder_eval.report.page.chart_labels import place_labels
from ladder_eval.report.page.chart_style import (
    GRID,
    INK,
    MUTED,
    SERIES,
    SHAPES,
    dark_style,
    short_names,
)
from ladder_eval.report.page.content import Run
from ladder_eval.report.page.figures import figures, vega_runtime
from ladder_eval.report.page.forest_chart import forest_figure
from ladder_eval.report.page.speed_charts import speed_figures
from ladder_eval.report.page.timeline_figure import timeline_figures
from ladder_eval.report.page.tradeoff_chart import tradeoff_figure
from ladder_eval.report.timeline import timeline
from ladder_eval.results.speed_records import LinkRecord, Workload
from ladder_eval.results.store import read_result
from ladder_eval.results.tradeoff import tradeoffs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = three_ladders(tmp_path_factory.mktemp("runs") / "run")
    return Run(folder=folder, result=read_result(folder))


@pytest.fixture(scope="module")
def tradeoff(run):
    return tradeoff_figure(run.result, tradeoffs(run.result)[0])


@pytest.fixture(scope="module")
def forest(run):
    return forest_figure(run.result)


def settings(latencies=(1e-4, 1e-3), sizes=(1, 8), **changes):
    """Measurements over a link's latency and the batch size."""
    speedups = {"standard": 1.0, "ladder": 1.5, "parallel": 1.2, "no-comm": 2.0}
    roles = {"standard": "baseline", "no-comm": "bound"}
    arms = [arm(name, name, roles.get(name, "candidate")) for name in speedups]
    return [
        speed_record(
            arms,
            rounds_of(speedups, 6),
            link=LinkRecord(
                name="virtual link", mode="serial", latency=s, latency_ratio=None, bandwidth=1e11
            ),
            workload=Workload(batch_size=n, prompt_len=16, output_len=3),
            **changes,
        )
        for s in latencies
        for n in sizes
    ]


def test_every_candidate_has_a_point_and_two_error_bars(tradeoff):
    assert len(marks(tradeoff, "symbol", "path")) == 4  # the baseline has a point alone
    bars = [each for each in marks(tradeoff, "rule", "line") if each.get("stroke") == SERIES[0]]
    assert len(bars) == 2 * 3
    assert all(each.get("stroke-width") == "1.5" for each in bars)
    assert len(marks(tradeoff, "line", "path")) == 1


def test_points_lie_where_their_numbers_are(tradeoff):
    """Between the ends of their bars, and as far apart as speed-ups and losses are."""
    drawn = [
        tuple(
            map(float, re.match(r"translate\(([\d.-]+),([\d.-]+)\)", p.get("transform")).groups())
        )
        for p in marks(tradeoff, "symbol", "path")
    ]
    across = [x - drawn[0][0] for x, _ in drawn]
    down = [y - drawn[0][1] for _, y in drawn]
    assert [x / across[3] for x in across] == pytest.approx([0, 0.25, 0.6, 1], abs=0.03)
    assert [y / down[3] for y in down] == pytest.approx([0, 0.2, 0.6, 1], abs=0.001)


def test_names_are_written_without_what_all_share(tradeoff):
    assert {"dense", "ladder_4l", "ladder_8l", "ladder"} <= set(texts(tradeoff))


def test_a_plot_says_what_it_must_not_be_quoted_without(tradeoff):
    said = " ".join(texts(tradeoff))
    assert "candidates converted" in said
    assert "decode speedup (measured over the virtual link)" in said
    assert "tp_size 2" in said
    assert "on cpu" in tradeoff.caption
    assert all(name in tradeoff.alt for name in (BASELINE, *LADDERS))
    assert "−10.0 points" in tradeoff.alt


def test_kinds_have_shapes_of_their_own(run, tradeoff):
    """The baseline, in the colour of text, is a circle where measured, else a triangle."""
    record = replace(run.result.speed[0], kind="emulated")
    emulated = replace(run.result, speed=(record,))
    drawn = tradeoff_figure(emulated, tradeoffs(emulated)[0])
    shapes = {marks(each, "symbol", "path")[0].get("d") for each in (tradeoff, drawn)}
    assert len(shapes) == 2
    assert "(emulated)" in " ".join(texts(drawn))


def test_a_slower_candidate_lies_left_of_the_baseline(tmp_path):
    result = read_result(traded(tmp_path / "run", {'we"ird <x>': ("parallel", 0.8, (0, 0))}))
    drawn = tradeoff_figure(result, tradeoffs(result)[0])
    baseline, slower = (
        float(re.match(r"translate\(([\d.-]+),", p.get("transform"))[1])
        for p in marks(drawn, "symbol", "path")
    )
    assert slower < baseline
    assert 'we"ird <x>' in texts(drawn)


def test_families_are_named_where_there_are_several(tmp_path, tradeoff):
    made = {"ladder_x": ("ladder", 2.0, (5, 5)), "parallel_x": ("parallel", 1.3, (3, 2))}
    result = read_result(traded(tmp_path / "run", made))
    drawn = tradeoff_figure(result, tradeoffs(result)[0])
    assert {"ladder, converted", "parallel, converted"} <= set(texts(drawn))
    assert "ladder, converted" not in texts(tradeoff)


def test_a_forest_has_a_bar_for_each_task_and_the_mean(forest):
    assert len(marks(forest, "symbol", "path")) == 3 * (2 + 1)
    assert len(marks(forest, "rule", "line")) == 1 + 3 * (2 + 1)
    assert {"arc", "sciq", "mean of tasks", "ladder_4l"} <= set(texts(forest))
    assert "95 % intervals" in forest.caption


def test_nothing_compared_is_no_forest(run):
    assert forest_figure(replace(run.result, comparisons=())) is None


def test_speed_is_drawn_over_each_factor_that_varies():
    by_latency, by_size = speed_figures(settings())
    assert (by_latency.name, by_size.name) == ("speed", "speed-2")
    assert by_latency.title == "Decode speedup by link latency"
    assert {"batch_size 1", "batch_size 8", "link latency, µs"} <= set(texts(by_latency))
    assert {"100 µs", "1000 µs", "batch_size"} <= set(texts(by_size))
    # In each of two panels 3 arms, 2 points and bars each, and the line of speed-up 1.
    assert len(marks(by_latency, "symbol", "path")) == 2 * 3 * 2
    assert len(marks(by_latency, "rule", "line")) == 2 * (3 * 2 + 1)
    assert "no-comm (a bound)" in texts(by_latency)


def test_one_setting_shows_tokens_per_second():
    (found,) = speed_figures(settings([1e-4], [1]))
    assert found.title.startswith("Tokens/s")
    assert len(marks(found, "symbol", "path")) == 4
    assert len(marks(found, "rule", "line")) == 4
    assert "measured tokens/s" in found.alt


def test_of_many_panels_the_first_are_drawn_and_the_rest_counted():
    by_latency, _ = speed_figures(settings([1e-4, 1e-3], range(1, 15)))
    assert "2 more combinations of settings aren't drawn." in by_latency.caption
    assert "batch_size 12" in texts(by_latency)
    assert "batch_size 13" not in texts(by_latency)


def test_settings_without_a_common_factor_show_tokens_per_second():
    found = speed_figures([*settings([1e-4], [1]), *settings([1e-3], [8])])
    assert [each.title.partition(":")[0] for each in found] == ["Tokens/s", "Tokens/s"]


def test_measured_and_emulated_times_never_share_a_plot():
    both = [*settings([1e-4], [1]), *settings([1e-3], [1], kind="emulated")]
    found = speed_figures(both)
    assert [each.title.partition(":")[0] for each in found] == ["Tokens/s", "Tokens/s"]
    assert "tokens/s (measured)" in texts(found[0])
    assert "tokens/s (emulated)" in texts(found[1])


def test_random_weights_are_named():
    (found,) = speed_figures(settings(sizes=[1], weights="random"))
    assert "random weights" in " ".join(texts(found))


def test_a_png_is_twice_as_large(tradeoff, forest):
    for figure in (tradeoff, forest):
        assert png_size(figure) == tuple(2 * side for side in svg_size(figure))


def test_a_plot_fits_a_telephone_with_readable_letters(tradeoff, forest):
    """At 358 pixels, what remains of 390 beside margins, 11 pixels stay above 8."""
    for figure in (tradeoff, forest):
        sizes = [int(each) for each in re.findall(r'font-size="(\d+)px"', figure.svg)]
        assert min(sizes) * min(1.0, 358 / svg_size(figure)[0]) > 8


def test_every_colour_has_another_one_on_dark_pages(tradeoff, forest):
    style = dark_style()
    for figure in (tradeoff, forest, *speed_figures(settings())):
        assert all(f'[fill="{each}"]' in style for each in colours(figure))
        assert style in figure.svg
        assert parsed(figure).get("class") == "chart"


def luminance(colour):
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_stand_out_on_light_and_dark_pages():
    """Text by 4.5, marks by 2; what is drawn in two colours only differs by its shape, too."""
    dark = dict(re.findall(r'\[fill="(#\w+)"\]\{fill:(#\w+)\}', dark_style()))
    for colour in (INK, MUTED):
        assert contrast(colour, "#ffffff") > 4.5
        assert contrast(dark[colour], "#14171c") > 4.5
    for colour in SERIES:
        assert contrast(colour, "#ffffff") > 2
        assert contrast(dark[colour], "#14171c") > 4.5
    assert GRID in dark
    assert len(set(SHAPES)) == len(SERIES)


def test_a_specification_draws_the_same_without_any_file(tradeoff):
    values = [v for layer in tradeoff.spec["layer"] for v in layer["data"]["values"]]
    assert {each["model"] for each in values if "model" in each} == {BASELINE, *LADDERS}
    assert "url" not in str(tradeoff.spec).replace("$schema", "")


def test_the_runtime_is_one_script_that_leaves_room_on_the_page():
    script = vega_runtime()
    assert "window.vegaEmbed" in script
    assert len(script.encode()) < 1.2 * 2**20
    assert "</script" not in script.lower()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["dense_x_1b", "ladder_x_1b"], ["dense", "ladder"]),
        (["x_1b", "ladder_x_1b"], ["x_1b", "ladder"]),
        (["a", "b"], ["a", "b"]),
        (["a_x", "x_a"], ["a_x", "x_a"]),  # "x" and "x", or "a" and "a", would be the same
        (["alone_x"], ["alone_x"]),
        (["a" * 28, "b" * 29], ["a" * 28, "b" * 14 + "…" + "b" * 13]),
        (["c" * 30 + "1" + "c" * 30, "c" * 30 + "2" + "c" * 30],) * 2,  # equal without the middle
    ],
)
def test_short_names(names, expected):
    assert list(short_names(names).values()) == expected


def box(label):
    width = 6.4 * len(label.text)
    left = label.x if label.align == "left" else label.x - width
    return left, label.y - 6.5, left + width, label.y + 6.5


def test_names_of_close_points_do_not_overlap():
    points = [(40 + 25 * i, 60 + 18 * i) for i in range(8)]
    placed = place_labels(points, [f"ladder_{i}l" for i in range(8)], (400, 300))
    boxes = [box(each) for each in placed]
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= 400
        assert bottom <= 300
        for a, b, c, d in boxes[:i]:
            assert left >= c or right <= a or top >= d or bottom <= b


def test_a_timeline_is_a_figure_with_its_words(tmp_path):
    svg = timeline([STANDARD, FAST], "a title & more", ["random weights"])
    for name in ("timeline.svg", "timeline-10.svg", "timeline-2.svg"):
        (tmp_path / name).write_text(svg)
    found = timeline_figures(tmp_path)
    assert [each.name for each in found] == ["timeline", "timeline-2", "timeline-10"]
    assert found[0].title == "One layer, a title & more"
    assert found[0].caption.endswith("random weights")
    assert "no-comm <&>" in found[0].alt
    assert png_size(found[0])[0] == 2 * 960
    assert found[0].spec is None


def test_a_broken_timeline_is_named(tmp_path):
    (tmp_path / "timeline.svg").write_text("<svg")
    with pytest.raises(RecordError, match=r"timeline\.svg can't be read"):
        timeline_figures(tmp_path)


def test_all_plots_of_several_runs_have_names_of_their_own(run):
    found = figures([run, run])
    assert list(found) == ["tradeoff", "accuracy", "speed", "timeline"]
    names = [each.name for group in found.values() for each in group]
    assert names == ["tradeoff", "tradeoff-2", "differences", "differences-2", "speed", "speed-2"]
