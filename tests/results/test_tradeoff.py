"""Points of speed and accuracy, the front, and families at equal terms."""

from dataclasses import replace

import pytest
from tradeoff_runs import BASELINE, LADDERS, last_rounds, three_ladders, traded

from ladder_eval.results.equal_terms import equal_terms
from ladder_eval.results.lines import seal
from ladder_eval.results.mean_difference import mean_difference
from ladder_eval.results.store import read_result
from ladder_eval.results.tradeoff import front, tradeoffs


def only(folder):
    (found,) = tradeoffs(read_result(folder))
    return found


@pytest.fixture
def points(tmp_path):
    """Makes points of speed-up and difference, named in order."""
    some = only(three_ladders(tmp_path / "run")).points[1]

    def make(*places):
        return [
            replace(some, arm="abcdefgh"[i], speedup=x, difference=y)
            for i, (x, y) in enumerate(places)
        ]

    return make


def names(found):
    return "".join(point.arm for point in found)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(1, 0), (1.2, -0.01), (1.4, -0.05)], "abc"),
        ([(1, 0), (1.2, -0.03), (1.4, -0.02)], "ac"),  # b is slower and worse than c
        ([(1, 0), (0.9, -0.01)], "a"),
        ([(1, 0), (1.2, 0.01)], "b"),  # better than the baseline in both
        ([(1, 0), (1.2, 0)], "b"),  # as accurate, faster
        ([(1.2, -0.01), (1.2, -0.02)], "a"),  # as fast, less accurate
        ([(1, 0), (1, 0), (1.1, -0.1)], "abc"),  # equal points don't dominate each other
        ([(1.5, -0.1), (1.3, -0.05), (1, 0)], "cba"),  # from slow to fast
        ([(1, 0)], "a"),
        ([], ""),
    ],
)
def test_the_front_is_what_nothing_dominates(points, places, expected):
    assert names(front(points(*places))) == expected


def test_points_are_the_runs_own_estimates(tmp_path):
    folder = three_ladders(tmp_path / "run")
    result, found = read_result(folder), only(folder)
    baseline, *candidates = found.points
    assert (baseline.arm, baseline.difference, baseline.speedup) == (BASELINE, 0.0, 1.0)
    assert baseline.accuracy is None
    assert [point.arm for point in candidates] == list(LADDERS)
    assert [point.difference for point in candidates] == pytest.approx([-0.02, -0.06, -0.1])
    for point in candidates:
        row = next(each for each in result.speed[0].rows if each.arm == point.arm)
        assert (point.speed, point.speedup) == (row.decode.speedup, row.decode.speedup.value)
        assert point.accuracy == mean_difference(result, point.arm).interval
        assert point.family == "ladder, converted"
    assert found.missing == ()
    assert found.phase == "decode"


def test_what_was_only_scored_or_only_timed_is_named(tmp_path):
    result = read_result(three_ladders(tmp_path / "run"))
    rows = [row for row in result.speed[0].rows if row.arm != LADDERS[0]]
    untimed = replace(result, speed=(replace(result.speed[0], rows=tuple(rows)),))
    (found,) = tradeoffs(untimed)
    assert found.missing == (LADDERS[0],)
    assert len(found.points) == 3
    assert tradeoffs(replace(result, comparisons=())) == ()
    assert tradeoffs(replace(result, speed=())) == ()


def test_a_family_is_read_between_its_points(tmp_path):
    """Without noise: times 1, 0.8, 0.625 and 0.5; losses 0, 2, 6 and 10 points."""
    folder = three_ladders(tmp_path / "run", noise=0.0)
    (family,) = equal_terms(only(folder), folder).families
    assert family.arms == (BASELINE, *LADDERS)
    assert [each.speedup for each in family.at_speeds] == pytest.approx([1.2, 1.4, 1.6, 1.8, 2.0])
    there = {round(each.speedup, 1): each for each in family.at_speeds}
    assert there[1.2].difference.value == pytest.approx(-0.02 * (1 - 1 / 1.2) / 0.2)
    assert there[1.8].difference.value == pytest.approx(-0.06 - 0.04 * (0.625 - 1 / 1.8) / 0.125)
    assert there[1.2].seconds == pytest.approx(0.01 / 1.2)
    assert there[1.2].difference.low < there[1.2].difference.value < there[1.2].difference.high
    drops = {each.drop: each.speedup.value for each in family.at_drops}
    assert drops == pytest.approx(
        {0.005: 1 / 0.95, 0.01: 1 / 0.9, 0.02: 1.25, 0.05: 1 / (0.8 - 0.175 * 0.75)}
    )


def test_a_loss_beyond_the_measured_ones_is_not_reached(tmp_path):
    losing = zip(LADDERS, (1.25, 1.6, 2.0), ((0, 0), (0, 1), (1, 1)), strict=True)
    made = {name: ("hybrid ladder", *each) for name, *each in losing}
    folder = traded(tmp_path / "run", made)
    (family,) = equal_terms(only(folder), folder).families
    reached = {each.drop: each.speedup for each in family.at_drops}
    assert reached[0.05] is None
    assert reached[0.01].high is None  # many draws never lose as much


def test_families_are_held_against_each_other(tmp_path):
    """Parallel at time 0.8, with a loss of 4 points; ladders lose 2 there, and 4 at 0.7125."""
    ladders = zip(LADDERS, (1.25, 1.6, 2.0), ((1, 1), (2, 4), (5, 5)), strict=True)
    made = {name: ("ladder", *each) for name, *each in ladders}
    folder = traded(tmp_path / "run", made | {"parallel": ("parallel", 1.25, (2, 2))}, noise=0.0)
    found = equal_terms(only(folder), folder)
    ladder, parallel = found.families
    assert "2 points" in parallel.reason
    assert ladder.reason == ""
    (versus,) = found.versus  # a family of two points has no curve to hold ladders against
    assert (versus.arm, versus.family) == ("parallel", "ladder, converted")
    assert versus.difference.value == pytest.approx(0.02)
    assert versus.speedup.value == pytest.approx(0.8 / 0.7125)


def test_what_is_beyond_the_other_family_is_not_computed(tmp_path):
    """Parallel is faster than any ladder, and loses more."""
    ladders = zip(LADDERS, (1.25, 1.6, 2.0), ((1, 1), (2, 4), (5, 5)), strict=True)
    made = {name: ("ladder", *each) for name, *each in ladders}
    folder = traded(tmp_path / "run", made | {"parallel": ("parallel", 2.5, (9, 9))})
    (versus,) = equal_terms(only(folder), folder).versus
    assert versus.difference is None
    assert versus.speedup is None


def reason(folder, tradeoff=None):
    (family,) = equal_terms(tradeoff or only(folder), folder).families
    assert not family.at_speeds
    assert not family.at_drops
    return family.reason


def test_two_points_are_no_curve(tmp_path):
    folder = traded(tmp_path / "run", {"ladder_x": ("ladder", 1.5, (1, 2))})
    assert reason(folder).startswith("not computable from 2 points")


def test_emulated_times_make_no_curve(tmp_path):
    assert "these times are emulated" in reason(three_ladders(tmp_path / "run", kind="emulated"))


def test_few_rounds_make_no_curve(tmp_path):
    assert "from 4 rounds" in reason(three_ladders(tmp_path / "run", count=4))


def test_without_samples_there_is_no_curve(tmp_path):
    folder = three_ladders(tmp_path / "run")
    (folder / "samples.parquet").unlink()
    assert "samples.parquet" in reason(folder)


def resealed(line):
    return seal({name: value for name, value in line.items() if name not in ("part", "crc32")})


def test_rounds_of_another_measurement_make_no_curve(tmp_path):
    folder = three_ladders(tmp_path / "run")
    tradeoff, lines = only(folder), last_rounds(folder)
    for line in lines:
        line["round"]["trials"][-1]["itl"] = [0.5, 0.5]
    (folder / "rounds.jsonl").write_bytes(b"".join(map(resealed, lines)))
    assert "aren't those of its result" in reason(folder, tradeoff)


def test_models_of_other_tasks_make_no_curve(tmp_path):
    folder = three_ladders(tmp_path / "run")
    result = read_result(folder)
    kept = [c for c in result.comparisons if (c.candidate, c.task) != (LADDERS[0], "arc")]
    (tradeoff,) = tradeoffs(replace(result, comparisons=tuple(kept)))
    assert "same tasks" in reason(folder, tradeoff)
