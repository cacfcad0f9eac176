"""Runs of tasks that ask for text, beside lm-eval's own model on the same prompts."""

import json
import shutil

import lm_eval.models.huggingface
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lm_eval.api.instance import Instance
from running import Quiet

from ladder_eval.errors import UsageError
from ladder_eval.harness import suites
from ladder_eval.options import RunOptions
from ladder_eval.results.store import read_result
from ladder_eval.run import run

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
TASK = """
include: lm_eval/tasks/gsm8k/gsm8k-cot.yaml
task: sums
dataset_path: sums
dataset_name: null
num_fewshot: 0
filter_list:
  - name: number
    filter: [{function: regex, regex_pattern: "([0-9]+)"}, {function: take_first}]
generation_kwargs: {until: ["Q:", "\\u0001"], do_sample: false, max_gen_toks: 12}
"""


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """A task of made-up sums, and its data."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "sums.yaml").write_text(TASK)
    monkeypatch.setattr(suites, "_folder", lambda: folder)
    rows = [{"question": f"{i} and {i}?", "answer": f"It is\n#### {2 * i}"} for i in range(9)]
    file = tmp_path / "data" / "sums" / "default" / "test.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), file)
    return tmp_path


def options(folder, checkpoint, **more):
    return RunOptions(
        **{
            "model": (str(checkpoint),),
            "no_baseline": True,
            "tasks": ("sums",),
            "no_speed": True,
            "data_dir": folder / "data",
            "output_dir": folder / "runs",
            "device": "cpu",
        }
        | more
    )


def lm_eval_says(checkpoint, prompts):
    lm = lm_eval.models.huggingface.HFLM(
        pretrained=str(checkpoint), device="cpu", dtype="float32", batch_size=1
    )
    kwargs = {"until": ["Q:", "\x01"], "do_sample": False, "max_gen_toks": 12}
    asked = [Instance("generate_until", {}, (prompt, dict(kwargs)), 0) for prompt in prompts]
    return lm.generate_until(asked, disable_tqdm=True)


def recorded(path):
    """All texts that a run has generated."""
    (file,) = (path / "requests").glob("*.jsonl")
    return sorted(json.loads(line)["answer"][0] for line in file.read_text().splitlines())


@pytest.mark.parametrize("ranks", [{}, {"tp": 2}, {"dp": 2}], ids=str)
def test_texts_are_those_of_lm_evals_own_model(sums, tiny_checkpoint, ranks):
    result, path = run(options(sums, tiny_checkpoint, **ranks), Quiet())
    prompts = [f"Q: {i} and {i}?\nA:" for i in range(9)]
    assert recorded(path) == sorted(lm_eval_says(tiny_checkpoint, prompts))
    (model,) = result.models
    assert (model.scored_requests, model.prompts) == (9, "as plain text")
    assert 0 < model.cut_texts <= 9
    (score,) = result.scores
    assert (score.metric, score.n) == ("exact_match", 9)
    again, _ = run(options(sums, tiny_checkpoint, **ranks), Quiet())
    assert again == read_result(path) == result


def test_chat_template_is_applied_and_recorded(sums, tiny_checkpoint, tmp_path):
    folder = tmp_path / "chat"
    shutil.copytree(tiny_checkpoint, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    result, path = run(
        options(sums, folder, apply_chat_template=True, system_instruction="Add.", batch_size=2),
        Quiet(),
    )
    prompts = [f"[system] Add.\n[user] Q: {i} and {i}?\nA:\n[assistant]" for i in range(9)]
    assert recorded(path) == sorted(lm_eval_says(tiny_checkpoint, prompts))
    (model,) = result.models
    assert model.prompts.startswith("in the chat template, after 'Add.' (SHA-256 ")
    (file,) = (path / "lm_eval").rglob("results_*.json")
    written = json.loads(file.read_text())
    assert (written["system_instruction"], written["chat_template"]) == ("Add.", TEMPLATE)
    plain, other = run(options(sums, folder), Quiet())
    assert other != path
    assert plain.models[0].reused_requests == 0


def test_no_chat_template_is_a_sentence_before_anything_is_generated(sums, tiny_checkpoint):
    with pytest.raises(UsageError, match="has no chat template; leave --apply-chat-template out"):
        run(options(sums, tiny_checkpoint, apply_chat_template=True), Quiet())


def test_turns_need_the_chat_template(sums, tiny_checkpoint):
    with pytest.raises(UsageError, match="--fewshot-as-multiturn needs --apply-chat-template"):
        run(options(sums, tiny_checkpoint, fewshot_as_multiturn=True), Quiet())


SUITE = """
group: chat
task: [sums]
metadata:
  headline: {sums: "exact_match,number"}
  average: [sums]
  apply_chat_template: true
"""


def test_a_suite_may_apply_the_chat_template_and_the_user_not(sums, tiny_checkpoint, tmp_path):
    (sums / "tasks" / "chat.yaml").write_text(SUITE)
    folder = tmp_path / "chat"
    shutil.copytree(tiny_checkpoint, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    chat, _ = run(options(sums, folder, tasks=(), suite="chat"), Quiet())
    plain, _ = run(
        options(sums, folder, tasks=(), suite="chat", apply_chat_template=False), Quiet()
    )
    assert chat.models[0].prompts.startswith("in the chat template (SHA-256 ")
    assert plain.models[0].prompts == "as plain text"
    assert chat.run_id != plain.run_id
    assert (chat.average_tasks, chat.pending_tasks) == (("sums",), ())


def test_thoughts_are_left_out(sums, tiny_checkpoint):
    texts = recorded(run(options(sums, tiny_checkpoint), Quiet())[1])
    end = next(char for text in texts for char in text[1:4] if char.isascii())
    result, path = run(options(sums, tiny_checkpoint, think_end_token=end), Quiet())
    assert result.models[0].prompts == f"as plain text, thoughts up to {end} left out"
    assert not any(end in text for text in recorded(path))
    assert recorded(path) != texts


def test_the_plan_says_how_much_may_be_written(sums, tiny_checkpoint):
    terminal = Quiet()
    run(options(sums, tiny_checkpoint, limit=4), terminal)
    (plan,) = [line for line in terminal.lines if line.startswith("Scoring tiny")]
    assert ", and the time to write up to 48 tokens; answers already" in plan  # 4 of 12
