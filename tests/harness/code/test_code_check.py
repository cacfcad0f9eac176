"""`ladder-eval code check`, from a file of samples to its scores."""

import json

import pytest
from code_problems import SMALL, row, sandbox_or_skip, write_lines
from code_release import RIGHT as PROGRAMS
from code_release import write_releases
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.errors import DataError
from ladder_eval.harness.code import checking, running
from ladder_eval.harness.code import sandbox as sandboxes
from ladder_eval.harness.code.checking import check, run_name
from ladder_eval.harness.code.ground_truth import GroundTruth
from ladder_eval.harness.code.judging import Verdict, judge
from ladder_eval.harness.code.limits import time_limits, total_limit
from ladder_eval.harness.code.problems import read_problems
from ladder_eval.harness.code.samples import read_samples
from ladder_eval.harness.code.sandbox import Sandbox
from ladder_eval.results.store import RunFolder

RIGHT = "def double(x):\n    return x + x"


@pytest.fixture(autouse=True)
def sealed(monkeypatch, tmp_path):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def problems(tmp_path):
    rows = [row(n) for n in range(3)]
    rows.append(row(3, "slow", base_input=[[1]], plus_input=[]))
    return read_problems("humaneval", write_lines(tmp_path / "HumanEvalPlus.jsonl", rows))


def sample_file(tmp_path, *codes):
    rows = [{"task_id": f"HumanEval/{n}", "solution": code} for n, code in codes]
    return write_lines(tmp_path / "samples.jsonl", rows)


def invoke(*arguments):
    result = CliRunner().invoke(app, ["code", "check", *map(str, arguments)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def checked(tmp_path, problems, path, sandbox, **options):
    return check(
        read_samples(path, problems),
        problems,
        sandbox,
        folder=tmp_path / "out",
        workers=2,
        **options,
    )


def test_every_outcome_has_its_status(tmp_path, problems):
    path = sample_file(
        tmp_path,
        (0, RIGHT),
        (0, "def double(x):\n    return abs(2 * x)"),
        (0, "def double(x):\n    return 3 * x"),
        (0, "def double(x):\n    return y"),
        (0, "def double(x) return"),
        (0, "def double(x):\n    return len(bytearray(8 << 30))"),
        (0, "def double(x):\n    return 'x' * 10**6"),
    )
    found = checked(tmp_path, problems, path, sandbox_or_skip("bubblewrap"))
    assert [(v.base, v.plus) for _, v in found.verdicts] == [
        ("pass", "pass"),
        ("pass", "wrong answer"),
        ("wrong answer", "wrong answer"),
        ("exception", "exception"),
        ("syntax", "syntax"),
        ("memory", "memory"),
        ("output", "output"),
    ]
    assert [v.detail[:11] for _, v in found.verdicts[:4]] == [
        "",
        "plus test 0",
        "base test 0",
        "base test 0",
    ]


def test_a_subset_says_so_and_is_recorded(tmp_path, problems):
    sandbox_or_skip("bubblewrap")
    path = sample_file(tmp_path, *((n, RIGHT) for n in range(3)))
    options = (path, "--dataset", "humaneval", "--data", tmp_path, "--execute-code")
    code, out, err = invoke(*options)
    assert (code, "3 of 4 problems" in out, "Subset: 3 of 4" in out) == (0, True, True)
    assert "Unsafe" not in out
    folder = err.split("Everything is in ")[1].split(";")[0]
    plain = json.loads((tmp_path / folder / "code.json").read_text())
    assert (plain["subset"], plain["problems"], plain["of"]) == (True, 3, 4)
    assert plain["sandbox"] == "bubblewrap"
    assert [one["value"] for one in plain["scores"]] == [1.0, 1.0]
    code, out, _ = invoke(*options, "--json")
    assert json.loads(out) == plain


def test_consent_comes_before_anything_else(tmp_path, monkeypatch):
    monkeypatch.setattr(sandboxes, "find_sandbox", None)
    code, _, err = invoke(tmp_path / "absent.jsonl", "--dataset", "nothing")
    assert (code, "pass --execute-code" in err, err.count(".")) == (2, True, 1)


def test_a_release_is_a_file_or_in_a_folder_or_told_how_to_get(tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    data = write_releases(tmp_path / "data")
    rows = [{"task_id": name, "solution": code} for name, code in PROGRAMS.items()]
    samples = write_lines(tmp_path / "s.jsonl", [r for r in rows if "Mbpp" in r["task_id"]])
    options = (samples, "--dataset", "mbpp", "--execute-code", "--unsafe-execution")
    outputs = [
        invoke(*options, "--data", place, "--json")
        for place in (data, data / "evalplus" / "MbppPlus.jsonl.gz")
    ]
    assert outputs[0][:2] == outputs[1][:2]
    assert [one["value"] for one in json.loads(outputs[0][1])["scores"]] == [1.0, 1.0]
    code, _, err = invoke(*options, "--data", tmp_path / "nowhere")
    assert (code, err) == (2, f"ladder-eval: {tmp_path}/nowhere doesn't exist; correct --data.")
    code, _, err = invoke(*options)
    assert (code, "MbppPlus.jsonl.gz can't be fetched" in err, "or get the file" in err) == (
        2,
        True,
        True,
    )


def test_without_bubblewrap_it_says_what_to_do(tmp_path, problems, monkeypatch):
    monkeypatch.setattr(sandboxes.shutil, "which", lambda name: None)
    path = sample_file(tmp_path, (0, RIGHT))
    options = (path, "--dataset", "humaneval", "--data", tmp_path, "--execute-code")
    code, _, err = invoke(*options)
    assert code == 2
    assert "apt-get install bubblewrap" in err
    assert "--unsafe-execution" in err
    code, out, _ = invoke(*options, "--unsafe-execution")
    assert (code, "Unsafe execution" in out) == (0, True)
    (result,) = tmp_path.glob("runs/*/code.json")
    assert json.loads(result.read_text())["sandbox"] == "none"


def test_a_bubblewrap_that_cannot_run_is_no_sandbox(tmp_path, monkeypatch):
    sandbox_or_skip("bubblewrap")
    monkeypatch.setattr(sandboxes, "_MOUNTED", "/usr/cannot")
    code, _, err = invoke(tmp_path / "a", "--dataset", "humaneval", "--execute-code")
    assert (code, "can't run here (" in err, "--unsafe-execution" in err) == (2, True, True)


def test_verdicts_are_kept_and_the_same_command_goes_on(tmp_path, problems, monkeypatch):
    path = sample_file(tmp_path, (0, RIGHT), (1, RIGHT), (2, RIGHT + "\n"), (3, RIGHT))
    sandbox, judged = Sandbox("none", SMALL), []

    def interrupted(problem, code, truth, sandbox):
        judged.append(problem.task_id)
        if len(judged) == 3:
            raise KeyboardInterrupt
        return judge(problem, code, truth, sandbox)

    samples = read_samples(path, problems)
    monkeypatch.setattr(checking, "judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check(samples, problems, sandbox, folder=tmp_path / "out", workers=1)
    assert not (tmp_path / "out" / "code.json").exists()
    kept = judged[:2]
    advanced = []
    found = check(
        samples, problems, sandbox, folder=tmp_path / "out", workers=1, advance=advanced.append
    )
    assert not set(judged[3:]) & set(kept)
    assert sum(advanced) == 4
    assert [verdict.plus for _, verdict in found.verdicts] == ["pass"] * 3 + ["exception"]


def test_two_checks_in_one_folder_at_once_are_one_and_a_sentence(tmp_path, problems):
    samples, data = sample_file(tmp_path, (0, RIGHT)), tmp_path / "HumanEvalPlus.jsonl"
    asked = [samples, "--dataset", "humaneval", "--data", data, "--output-dir", tmp_path / "runs"]
    asked += ["--execute-code", "--unsafe-execution"]
    assert invoke(*asked)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    with RunFolder.open(folder):
        code, _, err = invoke(*asked)
    assert (code, f"another process is writing to {folder}; wait for it" in err) == (2, True)


def test_another_sandbox_or_limit_is_another_run(tmp_path, problems):
    samples = read_samples(sample_file(tmp_path, (0, RIGHT)), problems)
    names = {
        run_name(tmp_path, samples, problems, s)
        for s in (Sandbox("none"), Sandbox("bubblewrap"), Sandbox("none", SMALL))
    }
    assert len(names) == 3


def test_a_timeout_is_tried_again_alone(tmp_path, problems, monkeypatch):
    path = sample_file(tmp_path, (0, RIGHT), (1, RIGHT), (2, RIGHT))
    attempts, busy = [], []

    def hurried(problem, code, truth, sandbox):
        attempts.append(problem.task_id)
        busy.append(problem.task_id)
        verdict = judge(problem, code, truth, sandbox)
        alone = busy == [problem.task_id]
        busy.remove(problem.task_id)
        if problem.task_id == "HumanEval/1" and attempts.count("HumanEval/1") == 1:
            return Verdict(base="pass", plus="timeout", detail="plus test 0")
        assert alone or problem.task_id != "HumanEval/1"
        return verdict

    monkeypatch.setattr(checking, "judge", hurried)
    found = checked(tmp_path, problems, path, Sandbox("none", SMALL))
    assert attempts[-1] == "HumanEval/1"
    assert [(v.plus, v.retried) for _, v in found.verdicts] == [
        ("pass", False),
        ("pass", True),
        ("pass", False),
    ]


def test_an_endless_program_stays_a_timeout(tmp_path, problems):
    path = sample_file(tmp_path, (0, "def double(x):\n    while True: pass"), (1, RIGHT))
    found = checked(tmp_path, problems, path, Sandbox("none", SMALL))
    (_, endless), (_, right) = found.verdicts
    assert (endless.base, endless.retried) == ("timeout", True)
    assert right.plus == "pass"


def test_limits_are_evalplus_rule_on_measured_times():
    assert time_limits([0.0, 0.2, 0.5]) == [1.0, 1.0, 2.0]
    assert total_limit([1.0] * 2, SMALL) == 8.0
    assert total_limit([0.1], SMALL) == SMALL.total_seconds


def test_expected_results_are_computed_once(tmp_path, problems, monkeypatch):
    sandbox = Sandbox("none", SMALL)
    truths = GroundTruth(problems, sandbox)
    first = truths.of(problems.by_id["HumanEval/0"])
    assert first.values == {"base": [2, 4], "plus": [-6, 2 * 10**30]}
    assert all(0 <= s < 1 for level in first.seconds.values() for s in level)
    monkeypatch.setattr(running, "run", None)
    monkeypatch.setattr("ladder_eval.harness.code.ground_truth.run", None)
    assert GroundTruth(problems, sandbox).of(problems.by_id["HumanEval/0"]) == first
    (kept,) = truths.folder.iterdir()
    kept.write_bytes(kept.read_bytes()[:-9])
    with pytest.raises(TypeError):  # damaged, so it's computed again
        truths.of(problems.by_id["HumanEval/0"])


def test_expected_results_are_not_among_what_a_program_gets(tmp_path, problems, monkeypatch):
    jobs, kept = [], running._plain
    monkeypatch.setattr(running, "_plain", lambda *job: jobs.append(kept(*job)) or jobs[-1])
    sandbox = Sandbox("none", SMALL)
    truth = GroundTruth(problems, sandbox).of(problems.by_id["HumanEval/0"])
    jobs.clear()
    assert judge(problems.by_id["HumanEval/0"], RIGHT, truth, sandbox).plus == "pass"
    assert len(jobs) == 2
    for job in jobs:
        assert "return 2 *" not in json.dumps(job)
        assert str(2 * 10**30) not in json.dumps(job)
        assert hex(2 * 10**30) not in json.dumps(job)


def test_levels_share_no_state(tmp_path, problems):
    """As in evalplus, each level has a process of its own."""
    code = (
        "seen = []\ndef double(x):\n    seen.append(x)\n    return 2 * x if len(seen) < 3 else None"
    )
    found = checked(tmp_path, problems, sample_file(tmp_path, (0, code)), Sandbox("none", SMALL))
    assert found.verdicts[0][1] == Verdict(base="pass", plus="pass")


def test_a_canonical_solution_that_fails_ends_the_run(tmp_path):
    broken = row(0, canonical_solution="    return y\n")
    problems = read_problems("humaneval", write_lines(tmp_path / "b.jsonl", [broken]))
    with pytest.raises(DataError, match=r"canonical solution of HumanEval/0 .*NameError"):
        checked(tmp_path, problems, sample_file(tmp_path, (0, RIGHT)), Sandbox("none", SMALL))


def test_numbers_that_make_no_sense_are_refused(tmp_path):
    code, _, err = invoke(tmp_path, "--dataset", "mbpp", "--execute-code", "--workers", 0)
    assert (code, "at least 1" in err) == (2, True)
