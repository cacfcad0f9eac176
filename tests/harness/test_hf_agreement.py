"""The adapter and whole tasks beside lm-eval's own model for transformers checkpoints."""

from pathlib import Path

import lm_eval
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import prepare, run_suite
from ladder_eval.harness.samples import sample_rows
from ladder_eval.harness.suites import suite_of

PAIRS = [
    ("Question: Which lamp?\nAnswer:", " stone"),
    ("Question: Which lamp?\nAnswer:", " a river and a cloud"),
    ("Question: Which lamp?\nAnswer:", " b"),
    ("", "Nothing stands before this."),
    ("Ends in a space ", "here"),
    ("<s>Begins with the token", " itself"),
    ("A long one. " * 25, "It ends."),
]
TEXTS = ["Rain falls.", "Gräser wachsen. " * 9, "x" * 64]


@pytest.fixture(scope="module", params=["tiny_checkpoint", "bos_checkpoint"])
def checkpoint(request):
    return request.getfixturevalue(request.param)


def hf(folder, **settings):
    return HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=1, **settings)


def test_choices_agree(checkpoint, make_lm, ask):
    ours, theirs = ask(make_lm(checkpoint), PAIRS), ask(hf(checkpoint), PAIRS)
    assert [a for a, _ in ours] == pytest.approx([a for a, _ in theirs], abs=5e-4)
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]


@pytest.mark.parametrize("max_length", [512, 50])
def test_whole_texts_agree(tiny_checkpoint, make_lm, roll, max_length):
    lm = make_lm(tiny_checkpoint, max_length=max_length)
    theirs = roll(hf(tiny_checkpoint, max_length=max_length), TEXTS)
    assert roll(lm, TEXTS) == pytest.approx(theirs, rel=1e-5)
    assert lm.tally.scored_requests == (3 if max_length == 512 else 1 + 4 + 2)


@pytest.mark.parametrize("limit", [None, 12])
def test_task_agrees(tiny_checkpoint, tiny_data, make_lm, limit):
    sources = DataSources(data_dir=tiny_data, notify=print)
    (task,) = prepare(suite_of(["arc_easy"]), limit=limit, seed=3, sources=sources)
    ours = run_suite(make_lm(), [task])
    rows = list(sample_rows("tiny", [task], ours))
    theirs = simple_evaluate(
        hf(tiny_checkpoint),
        tasks=[stock_arc_easy(tiny_data)],
        samples={"arc_easy": task.chosen["arc_easy"]},
        bootstrap_iters=0,
        task_manager=TaskManager(include_defaults=False),
    )
    for metric in ("acc,none", "acc_norm,none"):
        assert ours["results"]["arc_easy"][metric] == theirs["results"]["arc_easy"][metric]
    samples = theirs["samples"]["arc_easy"]
    assert len(rows) == len(samples) == (limit or 30)
    for row, sample, mine in zip(rows, samples, ours["samples"]["arc_easy"], strict=True):
        assert (row["doc_id"], row["doc_hash"]) == (sample["doc_id"], sample["doc_hash"])
        assert mine["arguments"] == sample["arguments"]
        assert row["value"] == sample["acc_norm"]
        found, expected = (
            [logprob for logprob, _ in each["filtered_resps"]] for each in (mine, sample)
        )
        assert found == pytest.approx(expected, abs=5e-4)


def stock_arc_easy(data):
    """lm-eval's own task file, given our rows."""
    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / "arc" / "arc_easy.yaml")
    file = data / "ai2_arc" / "ARC-Easy" / "validation.parquet"
    rows = Dataset.from_list(pq.read_table(file).to_pylist())
    own = {
        "custom_dataset": lambda **_: {"validation": rows},
        "training_split": None,
        "test_split": None,
    }
    return ConfigurableTask(config={**config, **own})
