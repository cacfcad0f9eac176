"""Suites and tasks, resolved against the lm-eval that is installed."""

import collections
import sys
from pathlib import Path

import lm_eval
import pytest
import yaml

from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import BENCHMARKS, Split
from ladder_eval.harness.listings import (
    ALONE,
    SUITE_HEADINGS,
    TASK_HEADINGS,
    suite_rows,
    task_rows,
)
from ladder_eval.harness.suites import (
    OUTPUTS,
    PROGRAMS,
    load_suite,
    suite_names,
    suite_of,
    task_names,
)
from ladder_eval.harness.task_files import with_functions

QUICK = ["arc_easy", "arc_challenge", "hellaswag", "piqa"]
QUICK += ["sciq", "winogrande", "openbookqa", "mmlu"]
PAPER = ["paper-pretrained", "paper-adapted"]
SMALL = ["quick", "smoke"]
LEFT = ("validation_split", "test_split")
STOCK = Path(lm_eval.__file__).parent / "tasks"


@pytest.fixture(scope="module")
def quick():
    return load_suite("quick")


def test_quick_has_its_eight_tasks(quick):
    assert [task.name for task in quick.tasks] == QUICK
    assert quick.limit == 40
    assert {task.num_fewshot for task in quick.tasks} == {0}
    splits = {task.name: task.parts[0].evaluated.name for task in quick.tasks}
    assert {name for name in splits if splits[name] != "validation"} == {"mmlu"}
    assert quick.average == tuple(QUICK)
    assert (quick.answering(OUTPUTS), quick.answering(PROGRAMS)) == ((), ())
    assert not quick.apply_chat_template


def test_all_suites_and_tasks_are_known():
    assert suite_names() == sorted([*PAPER, "open-llm-leaderboard-v1", "llama-3.1", *SMALL])
    assert {*QUICK, "wikitext", "gsm8k", "ifeval", "mmlu_llama"} < set(task_names())


def test_every_task_of_every_suite_resolves():
    for name in suite_names():
        suite = load_suite(name)
        assert set(suite.average) <= set(names(suite))
        for task in suite.tasks:
            assert task.headline in task.metrics
            for part in task.parts:
                filters = [each["name"] for each in part.config.get("filter_list") or []]
                assert task.filter in (filters or [None])
                assert all(split.hub_id in BENCHMARKS for split in part.splits)


def test_every_task_can_be_run_alone():
    suite = suite_of(task_names())
    assert (suite.limit, suite.apply_chat_template) == (None, False)
    assert suite.average == ()
    headlines = {task.name: (task.headline, task.filter) for task in suite.tasks}
    assert headlines["arc_easy"] == ("acc_norm", None)
    assert headlines["winogrande"] == ("acc", None)
    assert headlines["gsm8k_cot"] == ("exact_match", "strict-match")
    assert headlines["wikitext"] == ("word_perplexity", None)


def names(suite):
    return [task.name for task in suite.tasks]


def test_paper_suites_are_as_published():
    """The shots and the tasks of the averages of arXiv 2501.06589."""
    scratch, adapted = map(load_suite, PAPER)
    assert scratch.average == tuple(each for each in names(scratch) if each != "wikitext")
    assert len(scratch.average) == 6
    assert {task.num_fewshot for task in scratch.tasks} == {0}
    assert {task.headline for task in scratch.tasks[:-1]} == {"acc"}
    on_test = [task.name for task in scratch.tasks if task.parts[0].evaluated.name == "test"]
    assert on_test == ["arc_challenge", "arc_easy", "sciq", "wikitext"]
    assert {task.name: task.num_fewshot for task in adapted.tasks if task.num_fewshot} == {
        "mmlu": 5,
        "arc_challenge": 25,
        "hellaswag": 10,
        "gsm8k_cot": 8,
    }
    assert len(adapted.average) == 9
    assert "truthfulqa_mc2" in names(adapted)
    assert "truthfulqa_mc2" not in adapted.average
    assert adapted.answering(PROGRAMS) == ("humaneval_plus",)
    assert adapted.answering(OUTPUTS) == ("alpaca_eval",)
    assert all(sentence.endswith(".") for sentence in (*scratch.inferred, *adapted.inferred))


def test_leaderboard_and_llama_suites_average_over_subjects():
    board, llama = load_suite("open-llm-leaderboard-v1"), load_suite("llama-3.1")
    assert {task.name: task.num_fewshot for task in board.tasks} == {
        "arc_challenge": 25,
        "hellaswag": 10,
        "mmlu": 5,
        "truthfulqa_mc2": 0,
        "winogrande": 5,
        "gsm8k": 5,
    }
    assert [task.name for task in board.tasks if task.is_macro] == ["mmlu"]
    assert [task.name for task in llama.tasks if task.is_macro] == ["mmlu_llama"]
    assert (llama.apply_chat_template, llama.fewshot_as_multiturn) == (True, True)
    mmlu = llama.tasks[0]
    assert (mmlu.headline, mmlu.filter, mmlu.num_fewshot) == ("exact_match", "strict_match", 5)
    assert mmlu.parts[0].examples == Split("cais/mmlu", "abstract_algebra", "dev")
    # The same task elsewhere is as it was.
    assert not any(task.is_macro for task in load_suite("quick").tasks)


def test_subjects_have_the_categories_of_the_stock_files(quick):
    counts = collections.Counter(part.category for part in quick.tasks[-1].parts)
    assert counts == {"stem": 19, "social_sciences": 12, "humanities": 13, "other": 13}
    assert {part.category for task in quick.tasks[:-1] for part in task.parts} == {None}


def part_of(suite, name):
    return next(task for task in load_suite(suite).tasks if task.name == name).parts[0]


@pytest.mark.parametrize(
    ("suite", "name", "examples", "left"),
    [
        ("paper-adapted", "arc_challenge", "train", {"training_split", "test_split"}),
        ("paper-adapted", "hellaswag", "train", {"training_split", "validation_split"}),
        ("paper-pretrained", "arc_easy", None, {"test_split"}),
        ("paper-pretrained", "piqa", None, {"validation_split"}),
        ("paper-adapted", "mmlu", "dev", {"test_split"}),
        ("paper-adapted", "gsm8k_cot", None, {"test_split"}),
        ("smoke", "openbookqa", "validation", {"validation_split"}),
    ],
)
def test_only_splits_that_are_read_are_left(suite, name, examples, left):
    part = part_of(suite, name)
    assert (part.examples and part.examples.name) == examples
    config = part.to_lm_eval()
    assert {each for each in config if each.endswith("ing_split") or each in LEFT} == left


def test_functions_are_imported_for_lm_eval_alone():
    part = part_of("paper-adapted", "truthfulqa_mc2")
    assert part.config["process_results"].endswith("tasks/functions.truthfulqa_mc2_results")
    assert callable(part.to_lm_eval()["process_results"])


def test_making_ifeval_downloads_nothing(monkeypatch):
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk, "download", lambda *_: pytest.fail("a download"))
    monkeypatch.setattr(nltk.data, "path", [])
    place = STOCK / "ifeval" / "utils.agg_inst_level_acc"
    monkeypatch.delitem(sys.modules, "lm_eval.tasks.ifeval.instructions_util", raising=False)
    assert callable(with_functions([str(place)], Path("/nowhere"))[0])
    assert callable(suite_of(["ifeval"]).tasks[0].parts[0].to_lm_eval()["process_results"])


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
    with pytest.raises(UsageError, match=f"Unknown suite '{name}'; known are llama-3.1, "):
        load_suite(name)


@pytest.mark.parametrize("names", [["arc_easy", "arc"], ["quick"], ["mmlu_anatomy"]])
def test_unknown_task_is_a_sentence(names):
    with pytest.raises(
        UsageError, match=f"Unknown task '{names[-1]}'; known are alpaca_eval, arc_challenge, "
    ):
        suite_of(names)


@pytest.mark.parametrize("names", [[], ["piqa", "piqa"]])
def test_tasks_are_different_and_some(names):
    with pytest.raises(UsageError, match="one or more different names"):
        suite_of(names)


def test_listed_tasks_are_those_of_the_suites(tiny_data, tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path))
    rows = {row[:2]: dict(zip(TASK_HEADINGS, row, strict=True)) for row in task_rows(tiny_data)}
    assert {task for task, suite in rows if suite == "quick"} == set(QUICK)
    assert {task for task, suite in rows if suite == ALONE} == set(task_names())
    assert rows["hellaswag", "paper-adapted"] == {
        "task": "hellaswag",
        "suite": "paper-adapted",
        "data set": "Rowan/hellaswag",
        "split": "validation",
        "official rows": 10042,
        "shots": 10,
        "headline": "acc_norm,none",
        "at hand": "no",
    }
    assert rows["piqa", "quick"]["at hand"] == rows["arc_easy", ALONE]["at hand"] == "yes"
    assert rows["arc_easy", "paper-pretrained"]["at hand"] == "no"  # its test split
    assert rows["mmlu", "open-llm-leaderboard-v1"]["headline"] == "acc,none (macro)"
    assert rows["gsm8k", ALONE]["headline"] == "exact_match,strict-match"


def test_listed_suites_say_what_they_are_of():
    rows = {row[0]: dict(zip(SUITE_HEADINGS, row, strict=True)) for row in suite_rows()}
    assert rows["paper-adapted"]["tasks"] == 10
    assert (rows["quick"]["documents"], rows["llama-3.1"]["chat template"]) == ("40 a task", "yes")


def test_programs_are_completed_or_asked_for_in_the_chat_template():
    """evalplus' stop strings end completions; in the chat template the whole answer counts."""
    (plain,) = suite_of(["humaneval_plus_sampled"]).tasks
    (chat,) = suite_of(["humaneval_plus_sampled"]).for_chat().tasks
    assert plain.parts[0].config["doc_to_text"] == "{{prompt}}"
    assert "\ndef " in plain.parts[0].config["generation_kwargs"]["until"]
    assert chat.parts[0].config["doc_to_text"].startswith("Write the Python function")
    asked = plain.parts[0].config["generation_kwargs"]
    assert chat.parts[0].config["generation_kwargs"] == asked | {"until": []}
    assert (asked["temperature"], plain.parts[0].config["repeats"]) == (0.8, 20)
    assert plain.metrics == ("pass@1", "pass@10", "base_pass@1", "base_pass@10")


def test_mbpp_asks_as_humaneval_but_for_what_ends_a_completion():
    (own,), (other,) = (suite_of([name]).tasks for name in ("mbpp_plus", "humaneval_plus"))
    differing = {k for k, v in own.parts[0].config.items() if other.parts[0].config[k] != v}
    assert differing == {"task", "dataset_path", "generation_kwargs"}
    assert own.headline == other.headline == "pass@1"
