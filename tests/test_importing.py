"""What lm-eval wrote about its own model, beside a run of this package on one board."""

import json
import shutil
from functools import partial
from pathlib import Path

import lm_eval
import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml
from running import Quiet
from safetensors.torch import load_file

from ladder_eval.errors import RecordError, UsageError
from ladder_eval.importing import Import, import_results
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.options import RunOptions
from ladder_eval.report.board_pages import board_blocks
from ladder_eval.report.leaderboard import Wanted, read_board
from ladder_eval.results.pairing import compare, pair
from ladder_eval.results.samples import samples_of
from ladder_eval.results.store import read_result, read_samples
from ladder_eval.run import run


def stock(data, name, folder, rows):
    """lm-eval's own task file, given our rows."""
    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / folder / f"{name}.yaml")
    dataset = Dataset.from_list(pq.read_table(data / rows / "validation.parquet").to_pylist())
    own = {
        "custom_dataset": lambda **_: {"validation": dataset},
        "training_split": None,
        "test_split": None,
    }
    return ConfigurableTask(config={**config, **own})


@pytest.fixture(scope="module")
def written(tiny_checkpoint, tiny_data, tmp_path_factory):
    """What `lm_eval --model hf --output_path ... --log_samples` writes, and what it returns."""
    folder = tmp_path_factory.mktemp("lm_eval")
    tracker = EvaluationTracker(output_path=str(folder))
    found = simple_evaluate(
        "hf",
        model_args={"pretrained": str(tiny_checkpoint), "dtype": "float32"},
        tasks=[
            stock(tiny_data, "arc_easy", "arc", "ai2_arc/ARC-Easy"),
            stock(tiny_data, "piqa", "piqa", "piqa/default"),
        ],
        device="cpu",
        batch_size=1,
        bootstrap_iters=100,  # of means the standard error is a formula
        evaluation_tracker=tracker,
        task_manager=TaskManager(include_defaults=False),
    )
    samples = found.pop("samples")
    results = json.loads(json.dumps(found["results"]))
    tracker.save_results_aggregated(found, samples)
    for name, rows in samples.items():
        tracker.save_results_samples(name, rows)
    return folder, results


@pytest.fixture
def copied(written, tmp_path):
    """A copy to spoil, and its results file."""
    shutil.copytree(written[0], tmp_path / "lm_eval")
    (file,) = (tmp_path / "lm_eval").rglob("results_*.json")
    return tmp_path / "lm_eval", file


def wanted(results, tmp_path, **changes):
    settings = {"tasks": ("arc_easy", "piqa"), "output_dir": tmp_path / "runs"} | changes
    return Import(results=results, **settings)


def test_scores_are_those_of_lm_eval(written, tmp_path):
    folder, results = written
    result, run_folder = import_results(wanted(folder, tmp_path))
    assert read_result(run_folder) == result
    (model,) = result.models
    values = {(each.task, each.metric): each for each in result.scores}
    assert set(values) == {(t, m) for t in ("arc_easy", "piqa") for m in ("acc", "acc_norm")}
    for (task, metric), score in values.items():
        assert score.value == pytest.approx(results[task][f"{metric},none"], abs=1e-12)
        assert score.stderr == pytest.approx(results[task][f"{metric}_stderr,none"], rel=1e-9)
        assert score.model == model.name
    assert {each.task: each.documents for each in result.tasks} == {"arc_easy": 30, "piqa": 20}
    assert (run_folder / "report.md").read_text().count("imported from results_") == 1


def test_what_lm_eval_does_not_say_is_unknown(written, tiny_checkpoint, tmp_path):
    result, _ = import_results(wanted(written[0], tmp_path, name="mine", residual="standard"))
    (model,) = result.models
    assert (model.name, model.residual, model.dtype) == ("mine", "standard", "float32")
    assert (model.weights_sha256, model.adaptation, model.bos) == ("unknown",) * 3
    assert (model.tp_size, model.num_hidden_layers, model.batch_size) == (None, None, 1)
    stored = load_file(tiny_checkpoint / "model.safetensors")
    assert model.parameters == sum(tensor.numel() for tensor in stored.values())
    assert f"hf: pretrained={tiny_checkpoint},dtype=float32" in model.origin
    assert model.origin.endswith(")")
    assert f"of lm-eval {lm_eval.__version__} (" in model.origin


@pytest.fixture(scope="module")
def own_run(tiny_checkpoint, tiny_data, tmp_path_factory):
    """The same model and its hybrid on the same documents, by this package."""
    options = RunOptions(
        model=(str(tiny_checkpoint),),
        residual=ResidualChoice(ladder_layers=2),
        tasks=("arc_easy", "piqa"),
        data_dir=tiny_data,
        output_dir=tmp_path_factory.mktemp("own"),
        device="cpu",
        no_speed=True,
    )
    return run(options, Quiet())


def test_an_imported_model_stands_beside_a_runs(written, own_run, tmp_path):
    _, folder = own_run
    shutil.copytree(folder, tmp_path / "runs" / folder.name)
    import_results(wanted(written[0], tmp_path, name="theirs"))
    board = read_board(tmp_path / "runs", Wanted())
    assert board.skipped == ()
    assert board.models["group"].nunique() == 1
    assert sorted(board.models["model"]) == ["theirs", "tiny", "tiny-ladder-last2"]
    mean = board.models.set_index("model")["mean_headline"]
    assert mean["theirs"] == mean["tiny"]
    (block,) = board_blocks(board.models)
    assert [row[0] for row in block.rows] == ["1", "2", "3"]
    assert any(note.startswith("‡ theirs: imported from results_") for note in block.notes)


def test_an_imported_model_can_be_compared_in_pairs(written, own_run, tmp_path):
    _, folder = import_results(wanted(written[0], tmp_path, name="theirs"))
    theirs, ours = read_samples(folder), read_samples(own_run[1])
    pairs = pair(samples_of(ours, "tiny"), samples_of(theirs, "theirs"))
    assert len(pairs) == 50
    assert all(each.baseline == each.candidate for each in pairs)
    (found,) = (
        each
        for each in own_run[0].comparisons
        if (each.candidate, each.task) == ("tiny-ladder-last2", "pooled")
    )
    hybrid = compare(
        *("tiny-ladder-last2", "theirs"),
        pair(samples_of(ours, "tiny-ladder-last2"), samples_of(theirs, "theirs")),
    )[-1]
    assert (hybrid.difference, hybrid.low, hybrid.high) == (found.difference, found.low, found.high)


def test_other_documents_are_ranked_apart(copied, own_run, tmp_path):
    """One label changed, and every number with it as lm-eval would have it."""
    folder, _ = copied
    (file,) = folder.rglob("samples_piqa_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["doc_hash"] = "another document"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copytree(own_run[1], tmp_path / "runs" / "own")
    import_results(wanted(folder, tmp_path, name="theirs"))
    board = read_board(tmp_path / "runs", Wanted())
    groups = board.models.groupby("group")["model"].apply(sorted).tolist()
    assert sorted(groups) == [["theirs"], ["tiny", "tiny-ladder-last2"]]
    notes = [note for block in board_blocks(board.models) for note in block.notes]
    apart = [note for note in notes if note.startswith("Ranked apart from other rows")]
    assert len(apart) == 2
    assert all("by documents' hash " in note for note in apart)


def test_aggregated_results_alone_are_ranked_apart_and_said_so(copied, own_run, tmp_path):
    folder, file = copied
    values = json.loads(file.read_text())
    for samples in folder.rglob("samples_*.jsonl"):
        samples.unlink()
    shutil.copytree(own_run[1], tmp_path / "runs" / "own")
    result, run_folder = import_results(wanted(folder, tmp_path, name="theirs"))
    assert not (run_folder / "samples.parquet").exists()
    for score in result.scores:
        known = values["results"][score.task]
        assert score.value == known["acc_norm,none"]
        assert score.stderr == known["acc_norm_stderr,none"]
        assert (score.low, score.high, score.method) == (None, None, "")
    assert [each.n for each in result.scores] == [30, 20]
    assert "only aggregated results were imported" in result.warnings[0]
    blocks = board_blocks(read_board(tmp_path / "runs", Wanted()).models)
    assert len(blocks) == 2
    (alone,) = (block for block in blocks if len(block.rows) == 1)
    assert any("what the model was asked isn't known" in note for note in alone.notes)


def test_samples_of_another_evaluation_are_refused(copied, tmp_path):
    folder, file = copied
    values = json.loads(file.read_text())
    values["results"]["piqa"]["acc_norm,none"] += 0.05
    file.write_text(json.dumps(values))
    with pytest.raises(RecordError, match="the samples of piqa give acc_norm"):
        import_results(wanted(folder, tmp_path))
    assert not (tmp_path / "runs").exists()


def spoil_json(folder, file):
    file.write_text("{")


def spoil_results(folder, file):
    file.write_text("[]")


def spoil_samples(folder, file):
    next(folder.rglob("samples_piqa_*.jsonl")).write_text('{"doc_id": 0}\n')


def spoil_value(name, value, _, file):
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: value}))


def spoil_hash(folder, file):
    samples = next(folder.rglob("samples_piqa_*.jsonl"))
    first, *rest = samples.read_text().splitlines()
    samples.write_text("\n".join([json.dumps(json.loads(first) | {"doc_hash": 7}), *rest]))


def spoil_twice(folder, file):
    shutil.copy(file, file.with_name("results_2020-01-01T00-00-00.000000.json"))


def spoil_away(folder, file):
    file.unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (spoil_json, "isn't valid JSON"),
        (spoil_results, "has no results of lm-eval's"),
        (spoil_samples, "is no sample of lm-eval's"),
        (spoil_twice, "holds 2 results"),
        (partial(spoil_value, "n-samples", {"arc_easy": [1]}), "aren't as lm-eval writes them"),
        (partial(spoil_value, "n-shot", {"arc_easy": {"a": 1}}), "aren't as lm-eval writes them"),
        (partial(spoil_value, "n-shot", {"arc_easy": 2**70}), "num_fewshot"),
        (partial(spoil_value, "results", {"piqa": [{}]}), "aren't as lm-eval writes them"),
        (partial(spoil_value, "model_name", "\ud800"), "isn't valid JSON"),
        (spoil_hash, "aren't as lm-eval writes them"),
        (spoil_away, r"holds no results_\*\.json"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(copied, tmp_path, spoil, sentence):
    spoil(*copied)
    with pytest.raises((RecordError, UsageError), match=sentence):
        import_results(wanted(copied[0], tmp_path))


def test_missing_tasks_are_named(written, tmp_path):
    with pytest.raises(UsageError, match="and none of winogrande's"):
        import_results(wanted(written[0], tmp_path, tasks=("winogrande",)))
    with pytest.raises(UsageError, match="give --suite or --tasks"):
        import_results(wanted(written[0], tmp_path, tasks=()))
    result, _ = import_results(wanted(written[0], tmp_path, tasks=(), suite="quick"))
    assert [task.task for task in result.tasks] == ["arc_easy", "piqa"]
    assert result.warnings[0].startswith("The imported results have nothing on arc_challenge, ")
    board = read_board(tmp_path / "runs", Wanted())
    assert np.isnan(board.models["mean_headline"].astype(float)).all()
