"""Runs whose answers run as programs or wait for a judge, from the options to the report."""

import csv
import json
import math
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from code_release import write_releases
from judge_server import PROMPT, JudgeServer
from running import Quiet, copy_of

import ladder_eval.asked
from ladder_eval.errors import RecordError, UsageError
from ladder_eval.harness import suites
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources
from ladder_eval.harness.judging.options import Judge
from ladder_eval.harness.judging.prompts import parse_prompt
from ladder_eval.harness.judging.server import Server
from ladder_eval.judging import judge_run
from ladder_eval.options import RunOptions
from ladder_eval.report.tables import comparison_table, markdown
from ladder_eval.results.store import read_result, read_samples
from ladder_eval.run import run

HUB_ID = "tatsu-lab/alpaca_eval"
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
N = 6


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The project's own tasks with short answers."""
    folder = tmp_path / "tasks"
    shutil.copytree(suites._folder(), folder)
    for name in ("alpaca_eval", "humaneval_plus"):
        file = folder / f"{name}.yaml"
        lines = file.read_text().splitlines()
        file.write_text(
            "\n".join("  max_gen_toks: 12" if "max_gen_toks" in line else line for line in lines)
        )
    monkeypatch.setattr(suites, "_folder", lambda: folder)


@pytest.fixture
def data(tmp_path):
    """Six instructions, with the files that length control needs for just these."""
    folder = tmp_path / "data"
    file = folder / "alpaca_eval" / "alpaca_eval_gpt4_baseline" / "eval.parquet"
    file.parent.mkdir(parents=True)
    rows = [
        {"instruction": f"say {i}", "output": "r" * 10, "generator": "ref", "dataset": "made up"}
        for i in range(N)
    ]
    pq.write_table(pa.Table.from_pylist(rows), file)
    with (folder / "alpaca_eval" / "df_gamed.csv").open("w", newline="") as table:
        out = csv.writer(table)
        out.writerow(["index", "preference", "std_delta_len", "instruction_difficulty"])
        for i in range(N):
            out.writerow([i, 0.8, -1.0, (i - 2.5) / 5])
            out.writerow([i, 0.3, 1.0, (i - 2.5) / 5])
    with (folder / "alpaca_eval" / "instruction_difficulty.csv").open("w", newline="") as table:
        out = csv.writer(table)
        out.writerow(["index", "instruction_difficulty"])
        out.writerows([i, (i - 2.5) / 5] for i in range(N))
    return write_releases(folder)


@pytest.fixture
def models(tiny_checkpoint, tmp_path):
    """A candidate and its baseline, with a chat template."""
    found = []
    for name, changes in (
        ("ladder", {"model_type": "llamaLadder", "ladder_layers": 2}),
        ("dense", {}),
    ):
        folder = copy_of(tiny_checkpoint, tmp_path / name, **changes)
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        found.append(str(folder))
    return found


@pytest.fixture
def options(tasks, data, models, tmp_path):
    return RunOptions(
        model=(models[0],),
        baseline=models[1],
        tasks=("alpaca_eval",),
        no_speed=True,
        data_dir=data,
        output_dir=tmp_path / "runs",
        device="cpu",
    )


def judge(server):
    return Judge(
        server=Server(url=server.url, model="judge-1", attempts=2, first_wait_s=0.0, timeout_s=5),
        prompt=parse_prompt(PROMPT, "test"),
    )


def judged(folder, server, data):
    sources = DataSources(data_dir=data, notify=lambda _: None)
    return judge_run(folder, judge(server), sources, lambda total: lambda: None)


def expected(folder, model):
    """What the server says of each output: the longer one wins, 10 letters to e."""
    rows = json.loads((folder / "judge" / "alpaca_eval" / model / "outputs.json").read_text())
    return [1 / (1 + math.exp(-(len(row["output"]) - 10) / 10)) for row in rows]


def test_outputs_wait_for_a_judge_who_finishes_the_run(options, data, models):
    result, folder = run(options, Quiet())
    assert (result.scores, result.tasks, result.pending_tasks) == ((), (), ("alpaca_eval",))
    assert [each.name for each in result.models] == ["dense", "ladder"]
    assert "alpaca_eval waits for a judge" in markdown(result)
    prompts = result.models[0].scored_requests
    assert prompts == N
    with JudgeServer() as server:
        made = judged(folder, server, data)
    assert made.complete
    found = made.result
    assert found == read_result(folder)
    assert found.pending_tasks == ()
    (task,) = found.tasks
    # Of 805 instructions 6 were asked, so that nothing can be said of lengths.
    assert (task.task, task.metric, task.documents) == ("alpaca_eval", "win_rate", N)
    for model in ("ladder", "dense"):
        (score,) = [each for each in found.scores if each.model == model]
        assert score.value == pytest.approx(sum(expected(folder, model)) / N)
        own = read_samples(folder)
        values = own[own["model"] == model]["value"].tolist()
        assert values == pytest.approx(expected(folder, model))
    (comparison,) = found.comparisons
    difference = sum(expected(folder, "ladder")) / N - sum(expected(folder, "dense")) / N
    assert comparison.difference == pytest.approx(difference)
    assert all(each.why_not.startswith("needs all 805") for each in found.judgements)
    assert "what the judge preferred" in (folder / "report.md").read_text()


def test_all_instructions_give_a_length_controlled_rate(options, data, monkeypatch):
    rows = {"alpaca_eval_gpt4_baseline/eval": N}
    monkeypatch.setitem(BENCHMARKS, HUB_ID, replace(BENCHMARKS[HUB_ID], rows=rows))
    _, folder = run(options, Quiet())
    with JudgeServer() as server:
        found = judged(folder, server, data).result
    (task,) = found.tasks
    assert task.metric == "lc_win_rate"
    scores = {(each.model, each.metric): each for each in found.scores}
    records = {each.model: each for each in found.judgements}
    (comparison,) = found.comparisons
    assert comparison.metric == "lc_win_rate"
    for model in ("ladder", "dense"):
        assert scores[model, "lc_win_rate"].value == records[model].lc_win_rate
        assert scores[model, "win_rate"].value == pytest.approx(sum(expected(folder, model)) / N)
    assert comparison.difference == pytest.approx(
        records["ladder"].lc_win_rate - records["dense"].lc_win_rate
    )
    assert comparison.low <= comparison.difference <= comparison.high
    table = markdown(found)
    assert "length-controlled %" in table
    assert comparison_table(found).row_count


def test_missing_verdicts_leave_the_result_and_are_asked_alone(options, data):
    result, folder = run(options, Quiet())
    with JudgeServer(lambda message, attempt: "garbage" if "say 3\n" in message else None) as bad:
        made = judged(folder, bad, data)
        assert not made.complete
        assert read_result(folder) == result
        bad.faults = lambda message, attempt: None
        before = len(bad.answered)
        assert judged(folder, bad, data).complete
        assert len(bad.answered) - before == 2  # one a model
    assert read_result(folder).pending_tasks == ()


def test_a_finished_run_stays_judged(options, data):
    _, folder = run(options, Quiet())
    with JudgeServer() as server:
        found = judged(folder, server, data).result
    again, _ = run(options, Quiet())
    assert again == found


def test_a_run_without_outputs_has_nothing_to_judge(options, data):
    other = replace(options, tasks=("humaneval_plus",), execute_code=True, unsafe_execution=True)
    _, folder = run(replace(other, limit=1), Quiet())
    with pytest.raises(RecordError, match="has no outputs for a judge; run a task that writes"):
        judge_run(folder, None, None, None)


def test_programs_need_consent_before_anything_is_read(options, monkeypatch):
    monkeypatch.setattr("ladder_eval.run.select_models", lambda *_: pytest.fail("too late"))
    with pytest.raises(UsageError, match=r"runs programs that the models write .* --execute-code"):
        run(replace(options, tasks=("humaneval_plus",)), Quiet())
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match="bubblewrap, which isn't installed"):
        run(replace(options, tasks=("humaneval_plus",), execute_code=True), Quiet())


def test_a_judge_needs_something_to_judge(options):
    with pytest.raises(UsageError, match="has no task for a judge, such as alpaca_eval"):
        run(replace(options, tasks=("piqa",), judge_url="http://x/v1", judge_model="j"), Quiet())
    with pytest.raises(UsageError, match="--judge-url and --judge-model belong together"):
        replace(options, judge_url="http://x/v1")


def test_a_run_asks_the_judge_that_is_given(options, monkeypatch):
    with JudgeServer() as server:
        monkeypatch.setattr(ladder_eval.asked, "judge_at", lambda url, model: judge(server))
        given = replace(options, judge_url=server.url, judge_model="judge-1")
        result, folder = run(given, Quiet())
    assert result.pending_tasks == ()
    assert result == read_result(folder)
    assert len(result.judgements) == 2


def test_a_judge_that_goes_away_leaves_the_outputs_and_its_verdicts(options, data, monkeypatch):
    with JudgeServer() as server:
        there = ["say 0\n", "say 1\n"]
        server.faults = lambda message, attempt: (
            None if any(each in message for each in there) else "drop"
        )
        monkeypatch.setattr(ladder_eval.asked, "judge_at", lambda url, model: judge(server))
        given = replace(options, judge_url=server.url, judge_model="judge-1")
        result, folder = run(given, Quiet())
        assert (result.pending_tasks, result.scores) == (("alpaca_eval",), ())
        assert result == read_result(folder)
        assert len(server.answered) == 4  # two a model
        server.faults = lambda message, attempt: None
        assert judged(folder, server, data).complete
        assert len(server.answered) == 2 * N
    assert read_result(folder).pending_tasks == ()


def test_programs_run_and_say_how(options):
    given = replace(
        options, tasks=("humaneval_plus",), execute_code=True, unsafe_execution=True, limit=2
    )
    result, folder = run(given, Quiet())
    (task,) = result.tasks
    assert task.execution.startswith("programs run with the user's rights, unsafe")
    assert "Programs ran with the user's rights (--unsafe-execution)." in result.warnings
    assert {each.metric for each in result.scores} == {"pass@1", "base_pass@1"}
    assert (task.documents, task.official_documents) == (2, 164)
    verdicts = (folder / "code" / "verdicts.jsonl").read_text().splitlines()
    assert verdicts
    run(given, Quiet())
    assert (folder / "code" / "verdicts.jsonl").read_text().splitlines() == verdicts
