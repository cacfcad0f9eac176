"""lm-eval's own evaluator and command line with the model `ladder`."""

import json
import subprocess
import sys

import pytest
from datasets import Dataset
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager
from transformers import LlamaForCausalLM

import ladder_eval.harness  # noqa: F401 - registers the model
from ladder_eval.errors import UsageError, WorkerError
from ladder_eval.harness.registered import RegisteredLadder
from ladder_eval.harness.stopping import TextEnd

QUESTIONS = ["Which lamp is it?", "Hi", "Rain falls. " * 9, "Sun and rain. " * 3]

WRITING = {
    "task": "writing",
    "output_type": "generate_until",
    "test_split": "test",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["q", "sc"], "max_gen_toks": 12},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
CHOOSING = {
    "task": "choosing",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "{{question}}",
    "doc_to_choice": [" lamp", " a river", " b"],
    "doc_to_target": 1,
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def rows():
    return [{"question": question, "answer": "none"} for question in QUESTIONS]


def answers(model, model_args, config):
    def own(**_):
        return {"test": Dataset.from_list(rows())}

    result = simple_evaluate(
        model,
        model_args=model_args,
        tasks=[ConfigurableTask(config={**config, "custom_dataset": own})],
        # In larger batches lm-eval's own model leaks what follows an end-of-text token.
        batch_size=2 if model == "ladder" else 1,
        device="cpu",
        bootstrap_iters=0,
        task_manager=TaskManager(include_defaults=False),
    )
    samples = result["samples"][config["task"]]
    return [sample["filtered_resps"] for sample in samples], result["config"]


def test_both_models_are_known():
    assert get_model("ladder") is RegisteredLadder
    assert get_model("hf").__name__ == "HFLM"


@pytest.mark.parametrize("more", ["", ",tp=2"], ids=["tp 1", "tp 2"])
def test_texts_are_those_of_lm_evals_own_model(tiny_checkpoint, more):
    found, config = answers("ladder", f"pretrained={tiny_checkpoint},dtype=float32{more}", WRITING)
    expected, _ = answers("hf", f"pretrained={tiny_checkpoint},dtype=float32", WRITING)
    assert found == expected
    assert len({text for (text,) in found}) == len(QUESTIONS)
    assert config["model_residual"] == "standard"
    own = LlamaForCausalLM.from_pretrained(tiny_checkpoint)
    assert config["model_num_parameters"] == own.num_parameters()


def test_choices_are_those_of_lm_evals_own_model_and_ladder_layers_change_them(tiny_checkpoint):
    def logprobs(answered):
        return [logprob for choices, _ in [answered] for doc in choices for logprob, _ in doc]

    args = f"pretrained={tiny_checkpoint},dtype=float32"
    dense = logprobs(answers("ladder", args, CHOOSING))
    assert dense == pytest.approx(logprobs(answers("hf", args, CHOOSING)), abs=5e-4)
    ladder, config = answers("ladder", f"{args},ladder_layers=1+3", CHOOSING)
    assert config["model_ladder_layers"] == [1, 3]
    assert max(abs(a - b) for a, b in zip(dense, logprobs((ladder, None)), strict=True)) > 0.1


def test_answers_can_be_kept(tiny_checkpoint, tmp_path):
    args = f"pretrained={tiny_checkpoint},answers={tmp_path / 'kept.jsonl'}"
    first, _ = answers("ladder", args, WRITING)
    lines = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["answer"][0] for line in lines) == sorted(t for (t,) in first)
    assert answers("ladder", args, WRITING)[0] == first
    assert (tmp_path / "kept.jsonl").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "int4"}, "Unknown dtype 'int4'; known are auto, float32"),
        ({"ladder_layers": "last"}, "ladder_layers='last' must be a number"),
        ({"ladder_layers": "3+x"}, "ladder_layers='3\\+x' must be a number"),
        ({"batch_size": "auto"}, "batch_size 'auto' isn't offered; give a number"),
        ({"tp": "two"}, "tp='two' must be a whole number, 1 or more"),
        ({"max_length": -5}, "max_length=-5 must be a whole number, 1 or more"),
        ({"max_gen_toks": 9.5}, "max_gen_toks=9.5 must be a whole number, 1 or more"),
        ({"seed": True}, "seed=True must be a whole number, 0 or more"),
        ({"think_end_token": 5}, "think_end_token=5 must be a text"),
        ({"enable_thinking": "no"}, "enable_thinking='no' must be True or False"),
        ({"chat_template_args": 3}, "chat_template_args=3 must be a table"),
        ({"batch_size": None}, "batch_size None isn't offered; give a number"),
        ({"trust_remote_code": True}, "Unknown model_args trust_remote_code; known are pretrained"),
        ({"pretrained": ""}, "pretrained='' must be a model"),
        ({"tp": 5}, "tp_size=5 exceeds num_attention_heads=4"),
        ({"residual": "no-comm"}, "no-comm is a bound on speed"),
        ({"pretrained": "nothing"}, "Unknown model 'nothing'"),
        ({"pretrained": "ladder_3b"}, "No checkpoint of ladder_3b is known"),
    ],
    ids=str,
)
def test_wrong_arguments_are_a_sentence(tiny_checkpoint, arguments, message):
    given = {"pretrained": str(tiny_checkpoint), "device": "cpu"} | arguments
    with pytest.raises(UsageError, match=message):
        RegisteredLadder(**given)


def interrupt(worker):
    raise KeyboardInterrupt


def break_down(worker):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (lambda worker: worker.kill(), WorkerError, "rank 1 was killed by signal 9"),
        (interrupt, KeyboardInterrupt, None),
        (break_down, ZeroDivisionError, None),
    ],
    ids=["killed", "ctrl-c", "exception"],
)
def test_ranks_end_together_in_the_middle_of_a_text(
    tiny_checkpoint, monkeypatch, event, error, message
):
    lm = RegisteredLadder(str(tiny_checkpoint), tp=2, device="cpu", dtype="float32")
    (worker,) = lm._book._loaded()._driver.team._children

    def at_the_third_token(tokens):
        if len(tokens) == 3:
            event(worker)
        return False

    monkeypatch.setattr(TextEnd, "watch", lambda end: at_the_third_token)
    asked = Instance("generate_until", {}, ("Hi, you", {"max_gen_toks": 200}), 0)
    with pytest.raises(error, match=message):
        lm.generate_until([asked])
    assert worker.poll() is not None
    lm.close()


def test_one_model_at_a_time_has_several_ranks(tiny_checkpoint):
    first, second = (RegisteredLadder(str(tiny_checkpoint), tp=2, device="cpu") for _ in "ab")
    asked = [Instance("generate_until", {}, ("Hi", {"max_gen_toks": 3}), 0)]
    texts = first.generate_until(asked)
    with pytest.raises(UsageError, match=r"Another model with tp is open; close\(\) it first"):
        second.generate_until(asked)
    first.close()
    assert second.generate_until(asked) == texts
    second.close()


@pytest.fixture
def task_folder(tmp_path):
    """A task as lm-eval's command line reads it."""
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    config = WRITING | {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
    }
    (tmp_path / "writing.yaml").write_text(json.dumps(config))  # JSON is YAML
    return tmp_path


def lm_eval(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ladder_eval", "lm-eval", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


def test_lm_evals_command_line_knows_the_model(tiny_checkpoint, task_folder):
    done = lm_eval(
        *("run", "--model", "ladder", "--tasks", "writing", "--device", "cpu"),
        *("--model_args", f"pretrained={tiny_checkpoint},ladder_layers=4,dtype=float32"),
        *("--include_path", str(task_folder), "--output_path", str(task_folder / "out")),
        "--log_samples",
    )
    assert done.returncode == 0, done.stderr
    assert "|writing|" in done.stdout
    (file,) = (task_folder / "out").rglob("samples_writing*.jsonl")
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    args = f"pretrained={tiny_checkpoint},ladder_layers=4,dtype=float32"
    expected, _ = answers("ladder", args, WRITING)
    assert [sample["filtered_resps"] for sample in samples] == expected


def test_lm_evals_command_line_ends_with_our_sentences(task_folder):
    done = lm_eval(
        *("run", "--model", "ladder", "--model_args", "pretrained=nothing"),
        *("--tasks", "writing", "--include_path", str(task_folder)),
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ladder-eval: ")
