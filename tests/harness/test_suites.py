"""Suites and tasks, resolved against the lm-eval that is installed."""

from pathlib import Path

import lm_eval
import pytest
import yaml

from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import BENCHMARKS, Split
from ladder_eval.harness.listings import TASK_HEADINGS, task_rows
from ladder_eval.harness.suites import load_suite, suite_names, suite_of, task_names

QUICK = ["arc_easy", "arc_challenge", "hellaswag", "piqa"]
QUICK += ["sciq", "winogrande", "openbookqa", "mmlu"]
STOCK = Path(lm_eval.__file__).parent / "tasks"


@pytest.fixture(scope="module")
def quick():
    return load_suite("quick")


def test_quick_has_its_eight_tasks(quick):
    assert [task.name for task in quick.tasks] == QUICK
    assert quick.limit == 40
    assert suite_names() == ["quick"]
    assert task_names() == sorted(QUICK)


def test_every_task_of_every_suite_resolves():
    for name in suite_names():
        for task in load_suite(name).tasks:
            for part in task.parts:
                metrics = [metric["metric"] for metric in part.config["metric_list"]]
                assert task.headline in metrics
                assert part.config["output_type"] == "multiple_choice"
                assert all(split.hub_id in BENCHMARKS for split in part.splits)


def test_every_task_can_be_run_alone():
    suite = suite_of(task_names())
    assert suite.limit is None
    assert suite.name == "+".join(sorted(QUICK))
    headlines = {task.name: task.headline for task in suite.tasks}
    assert {name for name in headlines if headlines[name] == "acc"} == {"mmlu", "winogrande"}
    assert set(headlines.values()) == {"acc", "acc_norm"}


def test_mmlu_has_all_subjects(quick):
    (mmlu,) = [task for task in quick.tasks if task.name == "mmlu"]
    assert len({part.name for part in mmlu.parts}) == 57
    assert len({part.evaluated.config for part in mmlu.parts}) == 57
    assert {part.evaluated.name for part in mmlu.parts} == {"test"}
    # 0-shot, so that the examples in dev aren't needed.
    assert mmlu.parts[0].splits == {Split("cais/mmlu", "abstract_algebra", "test")}
    assert (mmlu.version, mmlu.num_fewshot) == ("2", 0)


@pytest.mark.parametrize(
    ("name", "stock", "split"),
    [
        ("arc_easy", "arc/arc_easy", ("allenai/ai2_arc", "ARC-Easy", "validation")),
        ("hellaswag", "hellaswag/hellaswag", ("Rowan/hellaswag", "", "validation")),
        ("winogrande", "winogrande/default", ("allenai/winogrande", "winogrande_xl", "validation")),
        ("openbookqa", "openbookqa/openbookqa", ("allenai/openbookqa", "main", "validation")),
    ],
)
def test_prompts_and_metrics_are_those_of_the_stock_task(name, stock, split):
    (task,) = suite_of([name]).tasks
    (part,) = task.parts
    theirs = yaml.load((STOCK / f"{stock}.yaml").read_text(), _Loose)
    assert (part.name, part.evaluated, task.version) == (name, Split(*split), "1.0")
    for field in ("doc_to_text", "doc_to_choice", "doc_to_target", "metric_list"):
        if not isinstance(theirs[field], _Function):
            assert part.config[field] == theirs[field]


class _Function(str):
    """The name of a function in a stock file."""


class _Loose(yaml.SafeLoader):
    """Reads stock files without importing their functions."""


_Loose.add_constructor("!function", lambda loader, node: _Function(loader.construct_scalar(node)))


@pytest.mark.parametrize("name", ["quik", "arc_easy", "", "../quick"])
def test_unknown_suite_is_a_sentence(name):
    with pytest.raises(UsageError, match=f"Unknown suite '{name}'; known are quick"):
        load_suite(name)


@pytest.mark.parametrize("names", [["arc_easy", "arc"], ["quick"], ["mmlu_anatomy"]])
def test_unknown_task_is_a_sentence(names):
    with pytest.raises(UsageError, match=f"Unknown task '{names[-1]}'; known are arc_challenge, "):
        suite_of(names)


@pytest.mark.parametrize("names", [[], ["piqa", "piqa"]])
def test_tasks_are_different_and_some(names):
    with pytest.raises(UsageError, match="one or more different names"):
        suite_of(names)


def test_listed_tasks_are_those_of_the_suite():
    rows = {row[1]: dict(zip(TASK_HEADINGS, row, strict=True)) for row in task_rows()}
    assert list(rows) == QUICK
    assert rows["hellaswag"] == {
        "suite": "quick",
        "task": "hellaswag",
        "data set": "Rowan/hellaswag",
        "split": "validation",
        "official rows": 10042,
        "shots": 0,
        "headline": "acc_norm",
        "limit": 40,
    }
    assert rows["mmlu"]["official rows"] == 14042
