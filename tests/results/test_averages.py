"""A suite's average, by hand."""

import math
from dataclasses import replace

import pytest

from ladder_eval.results.averages import average_tasks, headlines, suite_average
from ladder_eval.results.records import Provenance, RunResult, Score, TaskRecord


def task(name, metric="acc", kind="none"):
    return TaskRecord(
        task=name,
        dataset=name,
        split="test",
        metric=metric,
        num_fewshot=0,
        version="1",
        documents=9,
        documents_in_split=9,
        official_documents=9,
        source="hub",
        data_sha256="d",
        prompts_sha256="p",
        filter=kind,
    )


def macro(name):
    return replace(task(name), part="macro")


def score(name, value, stderr=0.1, metric="acc", **more):
    return Score(model="m", task=name, metric=metric, value=value, n=9, stderr=stderr, **more)


@pytest.fixture
def result():
    return RunResult(
        run_id="r",
        suite="s",
        limit=None,
        seed=0,
        baseline=None,
        provenance=Provenance(
            versions={},
            commit=None,
            hardware={},
            command=(),
            started_at="2025-01-31T12:00:00+00:00",
            seconds=1.0,
            peak_memory_bytes=(),
        ),
        models=(),
        tasks=(task("arc"), task("sums", "exact_match", "strict"), task("wiki", "word_perplexity")),
        scores=(
            score("arc", 0.5, 0.03),
            score("arc", 0.9, 0.03, metric="acc_norm"),
            score("arc", 0.1, 0.03, part="macro"),
            score("sums", 0.7, 0.04, metric="exact_match", filter="strict"),
            score("sums", 0.9, 0.04, metric="exact_match", filter="flexible"),
            score("wiki", 18.5, 0.4, metric="word_perplexity"),
        ),
        comparisons=(),
    )


def with_average(result, *names):
    return replace(result, average_tasks=names)


def test_headline_is_of_metric_filter_and_whole_task(result):
    found = {name: each.value for name, each in headlines(result, "m").items()}
    assert found == {"arc": 0.5, "sums": 0.7, "wiki": 18.5}
    assert headlines(result, "other") == {}


def test_average_is_of_fractions_with_its_error(result):
    average = suite_average(result, "m")
    assert average.value == pytest.approx(0.6)
    assert average.stderr == pytest.approx(math.sqrt(0.03**2 + 0.04**2) / 2)
    assert (average.counted, average.tasks, average.is_complete) == (2, 2, True)


def test_average_without_some_of_its_tasks_is_incomplete(result):
    average = suite_average(with_average(result, "arc", "sums", "ifeval"), "m")
    assert average.value == pytest.approx(0.6)
    assert (average.counted, average.tasks, average.is_complete) == (2, 3, False)
    assert suite_average(with_average(result, "ifeval"), "m") is None


def test_average_of_the_suites_choice_alone(result):
    average = suite_average(with_average(result, "arc"), "m")
    assert (average.value, average.stderr) == (0.5, pytest.approx(0.03))


def test_perplexity_is_in_no_average(result):
    assert average_tasks(with_average(result, "arc", "wiki", "ifeval")) == ("arc", "ifeval")


def test_error_is_unknown_if_that_of_a_task_is(result):
    agreed = tuple(
        score("arc", 1.0, None) if each.task == "arc" else each for each in result.scores
    )
    changed = replace(result, scores=agreed)
    assert suite_average(changed, "m").stderr is None


def test_where_subjects_count_equally_their_mean_is_the_headline(result):
    macros = replace(result, tasks=(macro("arc"), *result.tasks[1:]))
    assert headlines(result, "m")["arc"].value == 0.5
    assert headlines(macros, "m")["arc"].value == 0.1
    assert suite_average(macros, "m").value == pytest.approx((0.1 + 0.7) / 2)
