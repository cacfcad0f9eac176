"""Tasks whose answers are programs: what is asked, what runs, and what that is worth."""

import json
from contextlib import contextmanager

import pytest
from code_release import RIGHT, write_releases
from lm_eval.api.model import LM

from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.chat import Prompting
from ladder_eval.harness.code.limits import Limits
from ladder_eval.harness.code.problems import read_problems
from ladder_eval.harness.code.sandbox import Sandbox
from ladder_eval.harness.code.task import Programs, words
from ladder_eval.harness.evaluation import prepare, run_suite, written_tokens
from ladder_eval.harness.samples import sample_rows
from ladder_eval.harness.suites import suite_of
from ladder_eval.results.summary import scores

HUB = {"humaneval": "evalplus/humanevalplus", "mbpp": "evalplus/mbppplus"}


class Written(LM):
    """A model that answers what a function says, given the task id's function and the repeat."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.prompts = answer, []

    tokenizer_name = "none"

    def chat_template(self, chat_template=False):
        return "template"

    def apply_chat_template(self, history, add_generation_prompt=True):
        return "".join(f"[{turn['role']}] {turn['content']}" for turn in history) + "[assistant]"

    def generate_until(self, requests, disable_tqdm=False):
        self.prompts = [request.args[0] for request in requests]
        return [self.answer(request.doc, place) for place, request in enumerate(requests)]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise AssertionError

    loglikelihood_rolling = loglikelihood


class Bar:
    def __init__(self, total):
        self.left = total

    def advance(self, number):
        self.left -= number


@pytest.fixture
def asked(tmp_path):
    """Runs a task with a model's answers: samples, and the verdicts on disk."""
    data = write_releases(tmp_path / "data")
    bars = []

    @contextmanager
    def bar(total):
        bars.append(Bar(total))
        yield bars[-1]

    def run(task, answer, *, chat=False, prompts=None):
        suite = suite_of([task])
        suite = suite.for_chat() if chat else suite
        sources = DataSources(data_dir=data, notify=lambda _: None)
        tasks = prepare(suite, limit=None, seed=0, sources=sources)
        name = "mbpp" if task.startswith("mbpp") else "humaneval"
        title = {"humaneval": "HumanEvalPlus", "mbpp": "MbppPlus"}[name]
        programs = Programs(
            sandbox=Sandbox("none", Limits(memory=2**30, load_seconds=2, total_seconds=4)),
            problems={HUB[name]: read_problems(name, data / "evalplus" / f"{title}.jsonl.gz")},
            folder=tmp_path / "code",
            bar=bar,
        )
        model = Written(answer)
        result = run_suite(model, tasks, Prompting(apply_chat_template=chat), programs)
        assert all(each.left == 0 for each in bars)
        if prompts is not None:
            prompts += model.prompts
        return list(sample_rows("m", tasks, result)), tasks

    return run


def body(task_id):
    return RIGHT[task_id].partition("\n")[2]


def test_completions_continue_their_prompt(asked):
    """One completion is right, one passes the base tests alone, one is no program."""
    answers = {"0": body("HumanEval/0"), "1": '    return "b" if x == "a b" else 1\n', "2": "    )"}
    rows, _ = asked("humaneval_plus", lambda doc, _: answers[doc["task_id"][-1]])
    assert [row["value"] for row in rows] == [1.0, 0.0, 0.0]
    assert [json.loads(row["metrics"])["base_pass@1"] for row in rows] == [1.0, 1.0, 0.0]
    verdicts = [json.loads(row["answers"])[0][0] for row in rows]
    assert [(v["base"], v["plus"]) for v in verdicts] == [
        ("pass", "pass"),
        ("pass", "wrong answer"),
        ("syntax", "syntax"),
    ]
    assert "def double(x):" in verdicts[0]["program"]
    assert {row["filter"] for row in rows} == {"evalplus"}


def test_the_chat_template_asks_for_a_whole_program_in_a_fence(asked):
    def answer(doc, _):
        return f"Sure!\n\n```python\n{RIGHT[doc['task_id']]}```\nThat is it."

    prompts = []
    rows, _ = asked("humaneval_plus", answer, chat=True, prompts=prompts)
    assert [row["value"] for row in rows] == [1.0, 1.0, 1.0]
    assert all(p.startswith("[user] Write the Python function") for p in prompts)
    assert all(p.endswith("```[assistant]") for p in prompts)


def test_mbpp_is_asked_by_evalplus_prompt(asked):
    prompts = []
    rows, _ = asked("mbpp_plus", lambda doc, _: RIGHT[doc["task_id"]], prompts=prompts)
    assert [row["value"] for row in rows] == [1.0, 1.0, 1.0]
    assert prompts[0] == '"""\nWrite a function double.\n"""\n'


def test_pass_at_k_is_the_unbiased_estimate(asked):
    """Of 20 samples, 20, 5 and 0 pass: 1, 1 - C(15, 10) / C(20, 10) and 0."""
    right = {"0": 20, "1": 5, "2": 0}
    seen = {}

    def answer(doc, _):
        number = seen[doc["task_id"]] = seen.get(doc["task_id"], 0) + 1
        good = number <= right[doc["task_id"][-1]]
        return body(doc["task_id"]) if good else "    return None\n"

    rows, tasks = asked("humaneval_plus_sampled", answer)
    metrics = [json.loads(row["metrics"]) for row in rows]
    assert [m["pass@1"] for m in metrics] == pytest.approx([1, 0.25, 0])
    assert [m["pass@10"] for m in metrics] == pytest.approx([1, 1 - 3003 / 184756, 0])
    assert written_tokens(tasks) == 3 * 20 * 768
    import pandas as pd

    found = {each.metric: each for each in scores(pd.DataFrame(rows))}
    assert found["pass@10"].value == pytest.approx((2 - 3003 / 184756) / 3)
    assert found["pass@1"].n == 3


def test_verdicts_are_on_disk_and_shared_by_equal_programs(asked, tmp_path):
    rows, _ = asked("humaneval_plus", lambda doc, _: body(doc["task_id"]))
    log = tmp_path / "code" / "verdicts.jsonl"
    before = log.read_text()
    assert len(before.splitlines()) == 3
    again, _ = asked("humaneval_plus", lambda doc, _: body(doc["task_id"]))
    assert again == rows
    assert log.read_text() == before


def test_the_record_says_how_programs_ran():
    assert words(Sandbox("none", Limits())).startswith("programs run with the user's rights, uns")
    assert words(Sandbox("bubblewrap", Limits())).startswith("programs run in bubblewrap, evalplus")
