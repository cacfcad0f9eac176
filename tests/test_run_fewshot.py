"""Prompts with examples in whole runs: the same on any number of ranks, and in any subset."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import Quiet

from ladder_eval.harness import suites
from ladder_eval.options import RunOptions
from ladder_eval.run import run

TASK = """
include: lm_eval/tasks/arc/arc_easy.yaml
task: quiz
dataset_path: quiz
dataset_name: null
training_split: null
test_split: null
num_fewshot: 3
"""


@pytest.fixture
def quiz(tmp_path, monkeypatch):
    """A task whose examples come from the evaluated split, and its data."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "quiz.yaml").write_text(TASK)
    monkeypatch.setattr(suites, "_folder", lambda: tmp_path / "tasks")
    rows = [
        {
            "question": f"{i} of {i}?",
            "choices": {"text": [str(i + k) for k in range(4)], "label": list("ABCD")},
            "answerKey": "ABCD"[i % 4],
        }
        for i in range(12)
    ]
    file = tmp_path / "data" / "quiz" / "default" / "validation.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), file)
    return tmp_path


def ask(folder, checkpoint, **more):
    """A run's result and its prompt hashes by document."""
    settings = {
        "model": (str(checkpoint),),
        "no_baseline": True,
        "tasks": ("quiz",),
        "no_speed": True,
        "data_dir": folder / "data",
        "output_dir": folder / "runs",
        "device": "cpu",
    }
    result, path = run(RunOptions(**(settings | more)), Quiet())
    samples = pd.read_parquet(path / "samples.parquet")
    return result, dict(zip(samples["doc_hash"], samples["prompt_hash"], strict=True))


def test_prompts_do_not_depend_on_ranks_or_the_subset(quiz, tiny_checkpoint):
    alone, whole = ask(quiz, tiny_checkpoint)
    _, on_two = ask(quiz, tiny_checkpoint, tp=2)
    _, by_two = ask(quiz, tiny_checkpoint, dp=2, output_dir=quiz / "replicas")
    assert len(whole) == len(set(whole.values())) == 12
    assert on_two == by_two == whole
    _, some = ask(quiz, tiny_checkpoint, limit=5)
    assert len(some) == 5
    assert some.items() < whole.items()
    assert alone.tasks[0].num_fewshot == 3


def test_stock_sequence_is_another_run_and_says_so(quiz, tiny_checkpoint):
    own, drawn = ask(quiz, tiny_checkpoint, limit=5)
    stock, first = ask(quiz, tiny_checkpoint, limit=5, fewshot="stock")
    assert own.run_id != stock.run_id
    assert own.warnings == ()
    assert stock.warnings == (
        "Few-shot examples were drawn in lm-eval's own sequence (--fewshot stock); the documents "
        "are the first 5 of each of its tasks.",
    )
    _, every = ask(quiz, tiny_checkpoint, fewshot="stock")
    assert list(first.items()) == list(every.items())[:5]
    assert not set(first.values()) & set(drawn.values())
