"""What is said of a candidate, against sums by hand: worse, better, undecided, timed alone."""

import math
from dataclasses import replace

import pytest
from page_records import record, run_of
from report_records import build

from ladder_eval.report.page.glance import glance
from ladder_eval.report.page.headline import choices, headline
from ladder_eval.report.page.verdicts import accuracy_sentence, verdicts
from ladder_eval.results.mean_difference import mean_difference
from ladder_eval.results.records import POOLED


@pytest.fixture
def better():
    return build(arc=(12, 0, 20, 8), boolq=(9, 1, 20, 10))


def test_mean_difference_is_the_mean_of_tasks_by_hand(undecided):
    found = mean_difference(undecided, "lad|der")
    arc, boolq = (each for each in undecided.comparisons if each.task != POOLED)
    assert found.difference == pytest.approx((-2 / 40 + 0) / 2)
    down = math.hypot(arc.difference - arc.low, boolq.difference - boolq.low) / 2
    up = math.hypot(arc.high - arc.difference, boolq.high - boolq.difference) / 2
    assert found.interval.low == pytest.approx(found.difference - down)
    assert found.interval.high == pytest.approx(found.difference + up)
    assert (found.n, found.tasks, found.missing) == (80, ("arc_easy", "boolq"), ())


def test_mean_difference_weighs_tasks_not_documents():
    uneven = build(arc=(0, 10, 10, 0), boolq=(0, 0, 100, 100))
    assert mean_difference(uneven, "lad|der").difference == pytest.approx((-0.5 + 0) / 2)


def test_mean_difference_names_tasks_that_are_missing(undecided):
    partial = replace(undecided, comparisons=undecided.comparisons[:1])
    found = mean_difference(partial, "lad|der")
    assert (found.tasks, found.missing) == (("arc_easy",), ("boolq",))
    assert "the mean of 1 of 2 tasks, without boolq" in accuracy_sentence(found)


def test_no_comparison_has_no_mean_difference(uncompared):
    assert mean_difference(uncompared, "lad|der") is None


def test_worse_is_said_with_its_interval(decided):
    (found,) = verdicts([run_of(decided)])
    # 12 lost of 40, and 1 gained and 9 lost of 40: the mean of −30 and −20 points.
    assert found.outcome == "worse"
    assert found.sentences[0].startswith(
        "lad|der is worse than dense: −25.0 points in the mean of 2 tasks (95 % interval −"
    )
    assert headline([found]).startswith("lad|der is worse than dense by 25.0 points [−")
    assert headline([found]).endswith("its speed wasn't measured.")


def test_better_is_said_with_its_interval(better):
    (found,) = verdicts([run_of(better)])
    assert found.outcome == "better"
    assert "lad|der is better than dense: +25.0 points" in found.sentences[0]


def test_undecided_is_neither_and_says_what_is_possible(undecided):
    (found,) = verdicts([run_of(undecided)])
    (sentence,) = found.sentences
    low, high = found.mean.interval.low, found.mean.interval.high
    assert found.outcome == "undecided"
    assert "Whether lad|der is as good as dense isn't decided: −2.5 points" in sentence
    assert f"from a loss of {-100 * low:.1f} points to a gain of {100 * high:.1f}" in sentence
    assert "worse" not in sentence
    assert "better" not in sentence


def test_conditions_stand_beside_the_verdict(undecided):
    (found,) = verdicts([run_of(undecided)])
    assert found.conditions == (
        "Scored on a subset of 80 of 610 documents, float32 on cpu; weights: converted without "
        "retraining."
    )


def test_speed_of_the_candidate_joins_its_accuracy(decided):
    timed = replace(decided, speed=(record({"lad|der": 1.2}),))
    (found,) = verdicts([run_of(timed)])
    assert found.sentences[1].startswith("Over the virtual link, lad|der decodes 1.20 times as")
    assert headline([found]).endswith(
        "; it decodes 1.20 [1.18, 1.22] times as fast (over the virtual link)."
    )
    ((row,),) = (block.rows for block in glance([found]))
    assert row[:2] == ("lad|der", "dense")
    assert row[4:6] == ("worse", "1.20 [1.18, 1.22]")
    assert row[6].startswith("decoding, measured, tp_size 2 over the virtual link")


def test_of_several_the_fastest_that_is_not_worse_is_named(undecided, decided):
    second = replace(
        decided,
        comparisons=tuple(replace(each, candidate="deep") for each in decided.comparisons),
    )
    both = replace(
        undecided,
        comparisons=(*undecided.comparisons, *second.comparisons),
        speed=(record({"lad|der": 1.1, "deep": 1.4}),),
    )
    assert headline(verdicts([run_of(both)])) == (
        "Of 2 candidates against dense, 1 is undecided and 1 is worse. The fastest that isn't "
        "shown to be worse is lad|der, 1.10 times as fast (over the virtual link)."
    )


def test_random_weights_are_never_left_out(decided):
    timed = replace(decided, speed=(record({"lad|der": 1.25}, weights="random"),))
    found = verdicts([run_of(timed)])
    assert "(over the virtual link and with random weights)" in headline(found)
    assert "random weights" in glance(found)[0].rows[0][6]


def test_speed_alone_says_that_accuracy_is_unknown(uncompared):
    records = (record({"ladder": 1.1}), record({"ladder": 1.4}, tp_size=4))
    bench = replace(uncompared, models=(), tasks=(), scores=(), speed=records)
    found = verdicts([run_of(bench)])
    assert headline(found) == (
        "Speed alone was measured: at best ladder is 1.40 times as fast (over the virtual link); "
        "whether answers are as good isn't known from these runs."
    )
    assert [each.outcome for each in found] == ["—"]
    assert "ladder is 1.10 to 1.40 times as fast in 2 settings" in found[0].sentences[0]
    (block,) = glance(found)
    assert block.columns == ("candidate", "against", "speedup", "timed")
    assert block.rows == (("ladder", "dense", "1.10 to 1.40", "2 settings, measured"),)


def test_a_run_without_baseline_has_no_verdict(uncompared):
    assert verdicts([run_of(uncompared)]) == ()
    assert headline(()).startswith("Nothing was compared")
    assert glance(()) == ()


def test_no_choice_beats_another_where_faster_is_less_accurate(undecided):
    deep = tuple(
        replace(each, candidate="deep")
        for each in build((0, 12, 20, 8), (1, 9, 20, 10)).comparisons
    )
    both = replace(
        undecided,
        comparisons=(*undecided.comparisons, *deep),
        speed=(record({"lad|der": 1.1, "deep": 1.4}),),
    )
    (sentence,) = choices([run_of(both)])
    assert sentence.startswith("No choice beats another one here")
    slow = replace(both, speed=(record({"lad|der": 1.4, "deep": 1.1}),))
    assert choices([run_of(slow)]) == (
        "At least as fast and as accurate, by the estimates: lad|der than deep.",
    )
    assert choices([run_of(undecided)]) == ()


def test_a_speed_up_that_chance_explains_is_called_so(undecided):
    timed = replace(undecided, speed=(record({"lad|der": 1.01}),))
    assert headline(verdicts([run_of(timed)])).endswith(", which can't be told from chance.")
