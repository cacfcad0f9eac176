"""Whole runs of tiny models, their files read back and their numbers computed again."""

import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from running import Quiet, copy_of, recorded
from safetensors.torch import load_file, save_file

import ladder_eval
import ladder_eval.run
from ladder_eval.engine import ranks
from ladder_eval.errors import DataError, LadderEvalError, RecordError, ScoringError, UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.options import RunOptions
from ladder_eval.results import provenance
from ladder_eval.results.records import POOLED
from ladder_eval.results.store import RunFolder, read_batches, read_result, read_samples
from ladder_eval.run import run

LAST_TWO = ResidualChoice(ladder_layers=2)
DOCUMENTS = {"arc_easy": 30, "piqa": 20}
REQUESTS = 30 * 4 + 20 * 2


@pytest.fixture
def options(tiny_checkpoint, tiny_data, tmp_path):
    return RunOptions(
        model=(str(tiny_checkpoint),),
        residual=LAST_TWO,
        tasks=("arc_easy", "piqa"),
        data_dir=tiny_data,
        output_dir=tmp_path / "runs",
        device="cpu",
        no_speed=True,
    )


@pytest.fixture(scope="module")
def finished(tiny_checkpoint, tiny_data, tmp_path_factory):
    """A finished run of the dense model and its hybrid: result, folder and options."""
    options = RunOptions(
        model=(str(tiny_checkpoint),),
        residual=LAST_TWO,
        tasks=("arc_easy", "piqa"),
        data_dir=tiny_data,
        output_dir=tmp_path_factory.mktemp("finished"),
        device="cpu",
        no_speed=True,
    )
    result, folder = run(options, Quiet())
    return result, folder, options


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_everything_is_in_the_folder(finished):
    result, folder, options = finished
    assert folder.parent == options.output_dir
    assert read_result(folder) == result
    names = {path.name for path in folder.iterdir()}
    assert {"results.json", "samples.parquet", "report.md", "leaderboard.csv"} <= names
    models = ["tiny", "tiny-ladder-last2"]
    assert sorted(path.name for path in (folder / "lm_eval").iterdir()) == models
    assert recorded(folder).keys() == set(models)
    assert (folder / "report.md").read_text().count("tiny-ladder-last2") > 0
    board = pd.read_csv(folder / "leaderboard.csv")
    assert set(board["model"]) == set(models)


def test_models_are_described(finished, tiny_checkpoint):
    dense, hybrid = finished[0].models
    assert finished[0].baseline == dense.name == "tiny"
    assert (dense.residual, dense.adaptation) == ("standard", "as trained")
    assert (hybrid.residual, hybrid.adaptation) == ("hybrid ladder", "converted without retraining")
    assert (dense.ladder_layers, hybrid.ladder_layers) == ((), (2, 3))
    stored = load_file(tiny_checkpoint / "model.safetensors")
    for model in (dense, hybrid):
        assert model.parameters == sum(tensor.numel() for tensor in stored.values())
        assert (model.dtype, model.device, model.tp_size, model.batch_size) == (
            *("float32", "cpu", 1, 32),
        )
        assert model.weights == str(tiny_checkpoint.resolve())
        assert (model.scored_requests, model.reused_requests) == (REQUESTS, 0)
        assert model.bos == "none: the tokenizer adds none"
    assert dense.weights_sha256 == hybrid.weights_sha256
    assert dense.fingerprint != hybrid.fingerprint


def test_tasks_are_described(finished, tiny_data):
    arc, piqa = finished[0].tasks
    assert (arc.dataset, arc.split, arc.metric) == ("allenai/ai2_arc", "validation", "acc_norm")
    assert (arc.documents, arc.documents_in_split, arc.official_documents) == (30, 30, 570)
    assert (piqa.documents, piqa.official_documents, piqa.num_fewshot) == (20, 1838, 0)
    place = tiny_data / "piqa" / "default" / "validation.parquet"
    assert piqa.source == str(place.resolve())
    assert arc.prompts_sha256 != piqa.prompts_sha256


def choices_of(task, document):
    row = json.loads(document)
    return row["choices"]["text"] if task == "arc_easy" else [row["sol1"], row["sol2"]]


def gold_of(task, document):
    row = json.loads(document)
    return "ABCD".index(row["answerKey"]) if task == "arc_easy" else row["label"]


def test_accuracies_follow_from_the_recorded_answers(finished):
    result, folder, _ = finished
    right = {}
    for row in read_samples(folder).itertuples():
        logprobs = np.array([logprob for logprob, _ in json.loads(row.answers)])
        choices, gold = choices_of(row.task, row.document), gold_of(row.task, row.document)
        acc = np.argmax(logprobs) == gold
        acc_norm = np.argmax(logprobs / [len(choice) for choice in choices]) == gold
        right.setdefault((row.model, row.task, "acc"), []).append(acc)
        right.setdefault((row.model, row.task, "acc_norm"), []).append(acc_norm)
        assert row.value == acc_norm
    scores = {(s.model, s.task, s.metric): (s.value, s.n) for s in result.scores}
    assert scores == {key: (pytest.approx(np.mean(v)), len(v)) for key, v in right.items()}
    assert {key[:2]: len(v) for key, v in right.items()} == {
        (model, task): n for model in ("tiny", "tiny-ladder-last2") for task, n in DOCUMENTS.items()
    }


def test_comparison_follows_from_the_samples(finished):
    result, folder, _ = finished
    samples = read_samples(folder)
    table = samples.pivot_table(index=["task", "doc_hash"], columns="model", values="value")
    change = table["tiny-ladder-last2"] - table["tiny"]
    found = {c.task: c for c in result.comparisons}
    assert found.keys() == {*DOCUMENTS, POOLED}
    for task, comparison in found.items():
        own = change if task == POOLED else change[task]
        assert comparison.gains == (own > 0).sum()
        assert comparison.losses == (own < 0).sum()
        assert comparison.n == len(own)
        assert comparison.difference == pytest.approx(own.mean())
    assert found[POOLED].gains + found[POOLED].losses > 0  # the two models do differ


def test_both_models_were_asked_the_same(finished):
    samples = read_samples(finished[1])
    columns = ["task", "doc_id", "doc_hash", "prompt_hash", "target_hash", "document"]
    dense, hybrid = (
        samples.loc[samples["model"] == model, columns].reset_index(drop=True)
        for model in ("tiny", "tiny-ladder-last2")
    )
    assert dense.equals(hybrid)
    assert len(dense) == 50


def test_lm_eval_files_hold_the_same_scores(finished):
    result, folder, _ = finished
    scores = {(s.model, s.task, s.metric): s.value for s in result.scores}
    for model in result.models:
        (file,) = (folder / "lm_eval" / model.name).glob("results_*.json")
        theirs = json.loads(file.read_text())
        for task in DOCUMENTS:
            for metric in ("acc", "acc_norm"):
                value = theirs["results"][task][f"{metric},none"]
                assert value == pytest.approx(scores[model.name, task, metric])
        assert theirs["config"]["model"] == model.name
        assert theirs["config"]["model_args"]["fingerprint"] == model.fingerprint


def test_provenance_lets_somebody_repeat_the_run(finished):
    made = finished[0].provenance
    assert made.versions["torch"] == metadata.version("torch")
    assert made.versions["lm-eval"] == metadata.version("lm-eval")
    assert made.versions["ladder-eval"] == ladder_eval.__version__
    assert made.hardware["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert made.hardware["cores"] >= 1
    assert "accelerators" not in made.hardware
    (peak,) = made.peak_memory_bytes
    assert 50e6 < peak < made.hardware["memory_bytes"]
    assert 0 < made.seconds < 600
    assert provenance.hardware(["H200"])["accelerators"] == ["H200"]


def test_commit_is_that_of_the_checkout(monkeypatch, tmp_path):
    def git(*arguments):
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", "-C", tmp_path, *name, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    package = tmp_path / "ladder_eval" / "__init__.py"
    package.parent.mkdir()
    package.touch()
    monkeypatch.setattr(ladder_eval, "__file__", str(package))
    assert provenance.commit() is None
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    head = git("rev-parse", "HEAD")
    assert provenance.commit() == head
    package.write_text("changed")
    assert provenance.commit() == f"{head}-dirty"


def test_same_command_again_scores_nothing(finished, monkeypatch):
    result, folder, options = finished
    before = recorded(folder)
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    again, where = run(options, Quiet())
    assert where == folder
    assert again == result  # and not a record of a run that computed nothing
    assert read_result(folder) == result
    assert recorded(folder) == before


def test_answers_without_a_result_are_all_reused(finished, tmp_path, monkeypatch):
    result, folder, options = finished
    shutil.copytree(folder, tmp_path / folder.name)
    (tmp_path / folder.name / "results.json").unlink()
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    again, _ = run(replace(options, output_dir=tmp_path), Quiet())
    assert (again.scores, again.comparisons) == (result.scores, result.comparisons)
    for model in again.models:
        assert (model.scored_requests, model.reused_requests) == (0, REQUESTS)
        assert (model.scored_tokens, model.scoring_seconds) == (0, 0.0)


@pytest.mark.parametrize("stop_after", [2, 9], ids=["in the baseline", "in the candidate"])
def test_interrupted_run_goes_on_where_it_stopped(finished, options, stop_after):
    undisturbed = finished[0]
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet(stop_after=stop_after))
    (folder,) = options.output_dir.iterdir()
    before = recorded(folder)
    assert not (folder / "results.json").exists()

    result, where = run(options, Quiet())
    assert where == folder
    after = recorded(folder)
    for model in result.models:
        kept = before.get(model.name, [])
        assert after[model.name][: len(kept)] == kept
        assert len(set(after[model.name])) == len(after[model.name]) == REQUESTS
        assert (model.reused_requests, model.scored_requests) == (len(kept), REQUESTS - len(kept))
    assert 0 < sum(map(len, before.values())) < 2 * REQUESTS
    assert result.run_id == undisturbed.run_id
    assert [(s.model, s.task, s.metric, s.n, s.value) for s in result.scores] == [
        (s.model, s.task, s.metric, s.n, s.value) for s in undisturbed.scores
    ]
    assert result.comparisons == undisturbed.comparisons


def test_torn_answers_are_scored_anew_and_told(options):
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet(stop_after=2))
    (log,) = options.output_dir.rglob("requests/*.jsonl")
    with log.open("ab") as file:
        file.write(b'{"key":"half')
    result, _ = run(options, Quiet())
    assert result.warnings == (
        "tiny: the last 12 bytes of recorded answers were torn and were scored anew.",
    )
    assert result.models[0].scored_requests + result.models[0].reused_requests == REQUESTS


def test_the_lengths_of_a_run_that_went_on_are_complete(options):
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet(stop_after=2))
    result, folder = run(options, Quiet())
    stopped, whole = (read_batches(folder, model.name) for model in result.models)
    # The first model's first batches are of the run that was stopped.
    assert stopped == whole
    assert sum(batch.requests for batch in whole) == REQUESTS
    tokens = [
        sum(row.tokens for row in b.scored) + b.new_prefix(a) for a, b in pairwise([None, *whole])
    ]
    assert sum(tokens) == result.models[1].scored_tokens
    assert max(tokens) <= 512 < sum(tokens)


def other_dtype(options, _):
    return replace(options, dtype="bfloat16")


def other_layers(options, _):
    return replace(options, residual=ResidualChoice(ladder_layers=3))


def other_weights(options, folder):
    """The same but for one weight."""
    copy = copy_of(Path(options.model[0]), folder / "tiny")
    tensors = load_file(copy / "model.safetensors")
    tensors["model.norm.weight"][0] += 0.5
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return replace(options, model=(str(copy),))


def other_config(options, folder):
    copy = copy_of(Path(options.model[0]), folder / "tiny", rms_norm_eps=1e-3)
    return replace(options, model=(str(copy),))


def other_tokenizer(options, folder):
    """The same text, but with the ids of two letters swapped."""
    copy = copy_of(Path(options.model[0]), folder / "tiny")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    return replace(options, model=(str(copy),))


def same(options, _):
    """The control: these answers can be taken."""
    return options


@pytest.mark.parametrize(
    ("change", "reused"),
    [
        (same, 12),
        (other_dtype, 0),
        (other_layers, 0),
        (other_weights, 0),
        (other_config, 0),
        (other_tokenizer, 0),
    ],
)
def test_answers_are_never_another_models(finished, options, tmp_path, change, reused):
    changed = replace(change(options, tmp_path / "copies"), tasks=("piqa",), limit=6)
    result, folder = run(changed, Quiet())
    candidate = result.models[-1].name
    # Even with the other run's answers in its place, a run takes none that aren't its own.
    shutil.copy(
        finished[1] / "requests" / "tiny-ladder-last2.jsonl",
        folder / "requests" / f"{candidate}.jsonl",
    )
    (folder / "results.json").unlink()
    again, _ = run(changed, Quiet())
    found = again.models[-1]
    assert (found.reused_requests, found.scored_requests) == (reused, 12 - reused)
    assert again.scores == result.scores


def test_what_is_asked_names_the_folder(options):
    small = replace(options, tasks=("piqa",), limit=4)
    asked = [
        small,
        replace(small, seed=1),
        replace(small, limit=5),
        replace(small, tasks=("arc_easy",)),
        replace(small, no_baseline=True),
    ]
    folders = {run(each, Quiet())[1].name for each in asked}
    assert len(folders) == 5
    assert run(replace(small, batch_size=3), Quiet())[1].name in folders


def test_batch_size_changes_no_score(finished, options):
    result, _ = run(replace(options, batch_size=1), Quiet())
    values = [(s.model, s.task, s.metric, s.value) for s in result.scores]
    assert values == [(s.model, s.task, s.metric, s.value) for s in finished[0].scores]


def test_ladder_checkpoint_needs_a_baseline(options, tiny_checkpoint, tmp_path):
    ladder = copy_of(tiny_checkpoint, tmp_path / "trained", ladder_layers=[2, 3])
    alone = replace(options, model=(str(ladder),), residual=ResidualChoice())
    with pytest.raises(UsageError, match=r"names no dense baseline; give --baseline, or"):
        run(alone, Quiet())
    assert not options.output_dir.exists()
    result, _ = run(replace(alone, no_baseline=True), Quiet())
    assert (result.baseline, result.comparisons) == (None, ())
    assert [(m.name, m.residual) for m in result.models] == [("trained", "hybrid ladder")]
    result, _ = run(replace(alone, baseline=str(tiny_checkpoint)), Quiet())
    assert result.baseline == "tiny"
    assert [m.name for m in result.models] == ["tiny", "trained"]
    assert len(result.comparisons) == 3


def test_trained_and_converted_ladders_answer_alike(finished, options, tiny_checkpoint, tmp_path):
    ladder = copy_of(tiny_checkpoint, tmp_path / "trained", ladder_layers=2)
    alone = replace(options, model=(str(ladder),), residual=ResidualChoice(), no_baseline=True)
    result, _ = run(alone, Quiet())
    converted = [s.value for s in finished[0].scores if s.model == "tiny-ladder-last2"]
    assert [s.value for s in result.scores] == converted


def test_several_candidates_are_compared_with_one_baseline(options, tiny_checkpoint, tmp_path):
    models = [
        str(copy_of(tiny_checkpoint, tmp_path / f"ladder{n}", ladder_layers=n)) for n in (1, 4)
    ]
    several = replace(
        options, model=tuple(models), baseline=str(tiny_checkpoint), residual=ResidualChoice()
    )
    result, folder = run(several, Quiet())
    assert [m.name for m in result.models] == ["tiny", "ladder1", "ladder4"]
    assert [m.residual for m in result.models] == ["standard", "hybrid ladder", "ladder"]
    assert [(c.candidate, c.task) for c in result.comparisons] == [
        (model, task) for model in ("ladder1", "ladder4") for task in ("arc_easy", "piqa", POOLED)
    ]
    assert len(read_samples(folder)) == 3 * 50


@pytest.mark.parametrize("no_baseline", [False, True])
def test_candidates_of_one_name_are_refused(options, tiny_checkpoint, tmp_path, no_baseline):
    """They would share a log and rows of samples."""
    models = [
        str(copy_of(tiny_checkpoint, tmp_path / f"{n}" / "same", ladder_layers=n)) for n in (1, 2)
    ]
    both = replace(
        options,
        model=tuple(models),
        residual=ResidualChoice(),
        no_baseline=no_baseline,
        baseline=None if no_baseline else str(tiny_checkpoint),
    )
    with pytest.raises(UsageError, match="Two models have the name same; rename one"):
        run(both, Quiet())


def test_candidate_with_the_name_of_the_baseline_is_not_dropped(options, tiny_checkpoint, tmp_path):
    other = copy_of(tiny_checkpoint, tmp_path / "tiny", ladder_layers=2)
    both = replace(
        options, model=(str(other),), baseline=str(tiny_checkpoint), residual=ResidualChoice()
    )
    with pytest.raises(UsageError, match="Two models have the name tiny; rename one"):
        run(both, Quiet())


def test_baseline_among_the_candidates_is_run_once(options, tiny_checkpoint, tmp_path):
    ladder = copy_of(tiny_checkpoint, tmp_path / "trained", ladder_layers=2)
    both = replace(
        options,
        model=(str(tiny_checkpoint), str(ladder)),
        baseline=str(tiny_checkpoint),
        residual=ResidualChoice(),
    )
    result, _ = run(both, Quiet())
    assert [m.name for m in result.models] == ["tiny", "trained"]


def test_two_runs_in_one_folder_are_refused(finished):
    _, folder, options = finished
    before = files(folder)
    with (
        RunFolder.open(folder),
        pytest.raises(RecordError, match="another process is writing to"),
    ):
        run(options, Quiet())
    assert files(folder) == before


def test_missing_data_is_told_before_a_model_is_loaded(options, monkeypatch, tmp_path):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    terminal = Quiet()
    with pytest.raises(DataError) as caught:
        run(replace(options, tasks=("arc_easy", "sciq", "mmlu", "winogrande")), terminal)
    message = str(caught.value)
    assert message.startswith(
        "Missing data: allenai/sciq validation, allenai/winogrande winogrande_xl validation, "
        "cais/mmlu test of 57 configurations. "
    )
    assert "ai2_arc" not in message
    assert "`ladder-eval data fetch`" in message
    assert "\n" not in message
    assert len([line for line in terminal.lines if line.startswith("fetching ")]) == 1


def test_nothing_is_written_beside_data_and_weights(options, tiny_data, tiny_checkpoint):
    before = files(tiny_data), files(tiny_checkpoint)
    run(options, Quiet())
    assert (files(tiny_data), files(tiny_checkpoint)) == before


def test_nan_ends_the_run_without_a_result(options, tiny_checkpoint, tmp_path):
    broken = copy_of(tiny_checkpoint, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["model.norm.weight"].fill_(math.nan)
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    wrong = replace(options, model=(str(broken),), residual=ResidualChoice())
    with pytest.raises(ScoringError, match=r"gave nan .*Question: "):
        run(wrong, Quiet())
    (folder,) = options.output_dir.iterdir()
    assert recorded(folder) == {"broken": []}
    assert not (folder / "results.json").exists()


def test_truncation_is_a_warning(options, tiny_checkpoint, tmp_path):
    short = copy_of(tiny_checkpoint, tmp_path / "short", max_position_embeddings=40)
    result, _ = run(replace(options, model=(str(short),), residual=ResidualChoice()), Quiet())
    (model,) = result.models
    assert model.truncated_requests > 0
    assert result.warnings == (
        f"short: {model.truncated_requests} requests were longer than the model can read and "
        "lost the start of their context.",
    )


def test_plan_says_what_will_run(options):
    terminal = Quiet()
    run(replace(options, limit=5), terminal)
    (plan,) = terminal.lines
    assert plan.startswith(
        "Scoring tiny (standard) and tiny-ladder-last2 (hybrid ladder) "
        "on 10 documents from 2 tasks, "
        "float32 on cpu: about "
    )


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("gpu", "Unknown device 'gpu'"),
        ("cuda:99", "There is no device cuda:99"),
        ("mps", "Unknown device 'mps'"),
        ("meta", "Unknown device 'meta'"),
    ],
)
def test_devices_that_are_not_here_are_refused(options, device, sentence):
    with pytest.raises(LadderEvalError, match=sentence):
        run(replace(options, device=device), Quiet())
    assert not options.output_dir.exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_close(finished, options, dtype):
    result, folder = run(replace(options, dtype=dtype, tasks=("piqa",)), Quiet())
    assert {model.dtype for model in result.models} == {dtype}
    ours, exact = (
        [
            logprob
            for answers in read_samples(where).query("task == 'piqa' and model == 'tiny'").answers
            for logprob, _ in json.loads(answers)
        ]
        for where in (folder, finished[1])
    )
    assert ours != exact
    assert ours == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("rows", [[], [{"goal": "a"}]], ids=["no rows", "no columns"])
def test_data_of_another_shape_is_a_sentence(options, tmp_path, rows):
    place = tmp_path / "data" / "piqa" / "default" / "validation.jsonl"
    place.parent.mkdir(parents=True)
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wrong = replace(options, data_dir=tmp_path / "data", tasks=("piqa",))
    with pytest.raises(DataError) as caught:
        run(wrong, Quiet())
    assert "\n" not in str(caught.value)


def test_samples_are_plain_parquet(finished):
    table = pq.read_table(finished[1] / "samples.parquet")
    assert table.num_rows == 100
    assert table.column("value").to_pylist() == read_samples(finished[1])["value"].tolist()
