"""`ladder-eval judge`: a killed run goes on, and every error is one sentence."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from judge_server import JudgeServer
from typer.testing import CliRunner

import ladder_eval
from ladder_eval.__main__ import app

N = 60
HERE = os.environ | {
    "PYTHONPATH": str(Path(ladder_eval.__file__).parents[1]),
    "NO_PROXY": "127.0.0.1",
}


@pytest.fixture(autouse=True)
def sealed(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    for name, letters in {"model": 12, "ref": 10}.items():
        rows = [
            {"instruction": f"do {i}", "output": "x" * letters, "generator": name} for i in range(N)
        ]
        Path(f"{name}.json").write_text(json.dumps(rows))
    Path("prompt.txt").write_text("{instruction}\n<<{output_1}>>\n<<{output_2}>>")
    rng = np.random.default_rng(0)
    pd.DataFrame(
        {
            "model": np.repeat(["verbose", "concise"], N),
            "index": np.tile(np.arange(N), 2),
            "preference": rng.uniform(size=2 * N),
            "std_delta_len": rng.normal(size=2 * N),
            "instruction_difficulty": np.tile(rng.normal(size=N), 2),
            "not_gamed_baseline": False,
        }
    ).to_csv("gamed.csv", index=False)


def invoke(*arguments):
    return CliRunner().invoke(app, ["judge", *map(str, arguments)])


def asking(judge, *more):
    return (
        *("model.json", "--reference", "ref.json", "--judge-url", judge.url),
        *("--judge-model", "judge-1", "--prompt", "prompt.txt", "--out", "out", *more),
    )


def refused(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line.removeprefix("ladder-eval: ")


def test_a_killed_run_goes_on_and_pays_only_for_what_was_in_flight():
    concurrency = 3
    with JudgeServer(lambda message, attempt: 0.05) as judge:
        command = [sys.executable, "-m", "ladder_eval", "judge", *asking(judge)]
        run = subprocess.Popen(
            [*command, "--concurrency", str(concurrency)], env=HERE, stderr=subprocess.PIPE
        )
        while len(judge.answered) < N // 3 and run.poll() is None:
            time.sleep(0.005)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert N // 3 <= len(judge.answered) < N
        kept = len(Path("out/answers.jsonl").read_bytes().splitlines())
        assert kept >= N // 3 - concurrency
        judge.faults = lambda message, attempt: None
        done = invoke(*asking(judge, "--json"))
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["judged"]["documents"] == N
    assert len(judge.requests) == N
    assert sum(judge.requests.values()) <= N + concurrency
    # exp(0.2) to 1 for the output that is two letters longer
    assert found["rates"]["win_rate"]["percent"] == pytest.approx(100 / (1 + np.exp(-0.2)))


def test_all_three_figures_are_printed_together_and_again_from_annotations():
    with JudgeServer() as judge:
        done = invoke(*asking(judge, "--gamed", "gamed.csv"))
    assert done.exit_code == 0, done.output
    rows = [line for line in done.stdout.splitlines() if "│" in line]
    assert [row.split("│")[1].strip() for row in rows] == [
        "win rate, %",
        "length-controlled win rate, %",
        "mean length, characters",
        "the reference's",
    ]
    assert "cost unknown" in done.stdout
    assert f"{N} responses, {100 * N:,} tokens in" in done.stdout
    again = invoke(
        *("--annotations", "out/annotations.json", "--reference", "ref.json"),
        *("--gamed", "gamed.csv"),
    )
    assert again.exit_code == 0, again.output
    assert [line for line in again.stdout.splitlines() if "│" in line] == rows


def test_without_difficulties_the_length_controlled_rate_says_what_it_needs():
    with JudgeServer() as judge:
        done = invoke(*asking(judge))
    assert "needs --gamed" in done.stdout


def test_incomplete_verdicts_never_look_complete():
    with JudgeServer(lambda m, a: 400 if m.startswith("do 5\n") else None) as judge:
        done = invoke(*asking(judge, "--gamed", "gamed.csv"))
    assert done.exit_code == 1
    rows = [line for line in done.stdout.splitlines() if "│" in line]
    assert len(rows) == 4
    assert all(f"(incomplete: {N - 1} of {N})" in row for row in rows)
    assert "'do 5': error 400" in done.stdout


def test_missing_annotations_shift_difficulties_only_where_that_is_asked_for():
    with JudgeServer() as judge:
        invoke(*asking(judge))
    rows = json.loads(Path("out/annotations.json").read_text())
    rng = np.random.default_rng(1)
    for row in rows:
        row["preference"] = 1 + rng.uniform()
    Path("some.json").write_text(json.dumps(rows[20:]))
    score = ("--annotations", "some.json", "--reference", "ref.json", "--gamed", "gamed.csv")
    ours = json.loads(invoke(*score, "--json").stdout)
    official = json.loads(invoke(*score, "--json", "--official-row-index").stdout)
    assert ours["status"] == official["status"] == f"incomplete: {N - 20} of {N}"
    rates = [one["rates_of_judged_alone"] for one in (ours, official)]
    assert rates[0]["win_rate"] == rates[1]["win_rate"]
    lc = [rate["length_controlled"]["rate"]["percent"] for rate in rates]
    assert lc[0] != pytest.approx(lc[1], abs=1e-6)
    assert official["notes"]
    assert not ours["notes"]


def test_the_reference_against_itself_is_exactly_even():
    Path("model.json").write_text(Path("ref.json").read_text())
    with JudgeServer() as judge:
        done = json.loads(invoke(*asking(judge, "--gamed", "gamed.csv", "--json")).stdout)
    assert done["rates"]["win_rate"]["percent"] == pytest.approx(50)
    assert done["rates"]["length_controlled"]["rate"] == {"percent": 50.0, "stderr": None}


def test_a_wrong_key_is_one_sentence_without_the_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-wrong")
    with JudgeServer(lambda m, a: 401) as judge:
        sentence = refused(*asking(judge, "--api-key-env", "MY_KEY"))
    assert "refused the key (error 401); set MY_KEY" in sentence
    assert "sk-wrong" not in sentence


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "either OUTPUTS"),
        (("model.json", "--annotations", "a.json"), "either OUTPUTS"),
        (("model.json", "--judge-url", "http://h"), "needs --reference, --judge-model, too"),
        (("--annotations", "a.json", "--judge-url", "http://h"), "are verdicts already"),
        (("--annotations", "a.json", "--gamed", "gamed.csv"), "--gamed needs --reference"),
        (("--annotations", "a.json", "--official-row-index"), "need --gamed"),
        (("--annotations", "absent.json"), "can't be read"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(arguments, says):
    assert says in refused(*arguments)


def test_one_price_alone_and_difficulties_of_other_sets_are_refused_before_anything_is_paid():
    with JudgeServer() as judge:
        assert "give both" in refused(*asking(judge, "--prompt-price", "10"))
        pd.read_csv("gamed.csv").query("index < 50").to_csv("gamed.csv", index=False)
        assert "of 50 documents" in refused(*asking(judge, "--gamed", "gamed.csv"))
    assert not judge.requests
