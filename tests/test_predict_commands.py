"""`ladder-eval predict`: what it prints, and what it refuses."""

import csv
import json
import subprocess
import sys
from itertools import product

import pytest
from test_cli import HERE, invoke, refused

from ladder_eval.models.choice import with_residual
from ladder_eval.models.registry import MODELS
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.constants import calibrated
from ladder_eval.speed.hardware import machines
from ladder_eval.speed.predict import Setting, predict
from ladder_eval.speed.timing_logs import COLUMNS


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    """Wide enough that no table folds."""
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(tmp_path)


def cells(text):
    """Cells of the printed rows."""
    lines = (line for line in text.splitlines() if "│" in line)
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def test_speedups_are_labelled_predicted_with_their_conditions():
    done = invoke(
        *("predict", "speedup", "--model", "standard_1b", "--batch-size", "1,2"),
        *("--residual", "ladder,ladder-10", "--tp", "4", "--prompt-len", "64"),
        *("--output-len", "9", "--all-reduce", "nccl,7us"),
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Predicted speed of standard_1b on NVIDIA H100 SXM")
    rows = cells(done.stdout)
    assert [row[6] for row in rows[:4]] == ["standard", "ladder", "ladder-10", "no-comm"]
    assert [(row[1], row[5]) for row in rows[::4]] == list(product("12", ("nccl", "7us")))
    assert "Predicted, not measured. compile, float16, 1 node; constants of this machine" in (
        done.stdout
    )
    setting = Setting(
        workload=Workload(batch_size=2, prompt_len=64, output_len=9), tp_size=4, all_reduce="7us"
    )
    dense = MODELS["standard_1b"].config
    base, hybrid = (
        predict(with_residual(dense, name), [setting], calibrated("h100_sxm"))[0]
        for name in ("standard", "ladder-10")
    )
    assert rows[14][6:] == [
        "ladder-10",
        f"{hybrid.prefill * 1e3:.1f}",
        f"{hybrid.decode / 8 * 1e3:.3f}",
        f"{18 / hybrid.seconds:,.0f}",
        f"{base.seconds / hybrid.seconds:.3f}",
    ]


def test_json_has_every_condition():
    done = invoke(
        *("predict", "speedup", "--machine", "b200", "--batch-size", "4", "--json"),
        *("--residual", "parallel", "--nodes", "2", "--tp", "16"),
    )
    found = json.loads(done.stdout)
    assert [each["residual"] for each in found] == ["standard", "parallel", "no-comm"]
    assert {each["kind"] for each in found} == {"predicted"}
    assert found[0]["status"].startswith("datasheet only, uncalibrated")
    assert (found[0]["setting"]["nodes"], found[0]["setting"]["tp_size"]) == (2, 16)
    assert found[0]["speedup"] == 1


def test_crossovers_say_where_ladder_pays():
    done = invoke(
        *("predict", "crossover", "--model", "standard_8b", "--tp", "8", "--at-least", "1.2"),
        *("--all-reduce", "nccl,custom"),
    )
    rows = {(row[3], row[4]): row for row in cells(done.stdout)}
    assert list(rows) == list(product(("p2p", "host"), ("nccl", "custom")))
    asked = ("predict", "speedup", "--model", "standard_8b", "--residual", "ladder", "--json")
    first, last = map(int, rows["p2p", "nccl"][10].split(" to "))
    assert first == 1
    found = invoke(*asked, "--batch-size", f"{last},{2 * last}").stdout
    paying, past = (each["speedup"] for each in json.loads(found) if each["residual"] == "ladder")
    assert past < 1.2 <= paying
    # A faster all-reduce leaves less to hide.
    assert float(rows["p2p", "custom"][6]) < float(rows["p2p", "nccl"][6])


def test_machines_are_listed_with_sources():
    rows = cells(invoke("predict", "machines").stdout)
    names = [row[0] for row in rows if row[0]]
    assert names == list(machines())


LOGGED = {"dense": "standard", "ladder": "ladder", "parallel": "parallel", "no_comm": "no-comm"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A file of timings that are just what the packaged constants predict."""
    file = tmp_path_factory.mktemp("logs") / "logs.csv"
    where = calibrated("h100_sxm")
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        models = {"llama-3-8b": "standard_8b", "llama-3-70b": "standard_70b"}
        for (model, name), (word, residual), tp_size, batch, (p2p, link), mode in product(
            models.items(),
            LOGGED.items(),
            (2, 8),
            (1, 4, 64),
            (("on", "p2p"), ("off", "host")),
            ("compile", "cuda_graph+flash"),
        ):
            setting = Setting(
                workload=Workload(batch_size=batch, prompt_len=1024, output_len=512),
                tp_size=tp_size,
                link=link,
                execution=mode,
            )
            made = predict(with_residual(MODELS[name].config, residual), [setting], where)[0]
            writer.writerow([word, model, tp_size, batch, p2p, mode, made.prefill, made.decode])
    return file


def test_a_fit_prints_errors_and_the_papers_table_and_writes_constants(logs, tmp_path):
    output = tmp_path / "constants.json"
    done = invoke("predict", "fit", logs, "--source", "made up", "--output", output)
    assert done.exit_code == 0, done.output
    written = json.loads(output.read_text(encoding="utf-8"))
    packaged = calibrated("h100_sxm")
    assert written["source"] == "made up"
    for name, value in written["constants"].items():
        assert value == pytest.approx(getattr(packaged.constants, name), rel=0.01)
    rows = cells(done.stdout)
    errors = [row for row in rows if row[:2] == ["llama-3-8b", "llama-3-70b"]]
    assert [row[2:4] for row in errors] == [
        ["model", "speed-up"],
        ["medians", "speed-up"],
        ["model", "tokens/s"],
    ]
    assert [float(row[5]) < 0.2 for row in errors] == [True, False, True]
    paper = [row for row in rows if row[0] == "70B" and row[1] == "ladder"]
    assert [row[5] for row in paper] == ["1.29", "1.59", "1.31", "1.60"]
    assert paper[0][6] == paper[0][8]  # logged is what is predicted, in compile mode
    assert [row[6] for row in rows if row[0] == "405B"] == ["—", "—"]
    assert "176B ladder over p2p at batch size 4: published 1.35, predicted" in done.stdout
    used = invoke("predict", "speedup", "--constants", output, "--batch-size", "1")
    assert "constants of this machine, from made up" in used.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("speedup", "--machine", "h300"), "Unknown machine 'h300': known are a100_sxm"),
        (("speedup", "--model", "nothing_8b"), "Unknown model 'nothing_8b'"),
        (("speedup", "--residual", "stairs"), "Unknown residual 'stairs'"),
        (("speedup", "--residual", "ladder-99"), "must be between 0 and 80 layers"),
        (("speedup", "--tp", "5"), "tp_size=5 does not divide"),
        (("speedup", "--tp", "16"), "16 ranks a node are more than the 8"),
        (("speedup", "--tp", "8", "--nodes", "3"), "can't be spread over --nodes 3"),
        (("speedup", "--batch-size", "0"), "--batch-size takes whole numbers from 1"),
        (("speedup", "--batch-size", "many"), "--batch-size takes whole numbers with commas"),
        (("speedup", "--link", "pigeon"), "Unknown link 'pigeon'; known are p2p, host"),
        (("speedup", "--machine", "rtx_4090"), "has no link 'p2p'; it has host"),
        (("speedup", "--all-reduce", "tree"), "Unknown all-reduce 'tree'"),
        (("speedup", "--mode", "slow"), "Unknown mode 'slow'; known are compile"),
        (("speedup", "--dtype", "int4"), "with int4 isn't known"),
        (("speedup", "--constants", "none.json"), "can't be read as JSON"),
        (("fit", "none.csv"), "none.csv can't be read"),
        (("measure", "m.json", "--ranks", "0"), "take whole numbers from 1"),
        (("check", "none", "--machine", "h100_sxm"), "none"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments, sentence):
    assert sentence in refused("predict", *arguments)


def test_help_and_machines_need_no_torch():
    script = """
import sys
import ladder_eval.__main__
from typer.testing import CliRunner
for command in (["predict", "--help"], ["predict", "speedup", "--help"], ["predict", "machines"]):
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
