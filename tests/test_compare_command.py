"""`compare` and `gate` across run folders: tables, verdicts, exit codes, refusals."""

import csv
import json

import pytest
from run_folders import model, rows, task, timed, write_run
from typer.testing import CliRunner

from ladder_eval.__main__ import app
from ladder_eval.results.statistics import paired_difference_interval


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line.removeprefix("ladder-eval: ")


def answers(gains, losses, same):
    baseline = [0] * gains + [1] * losses + [1] * same
    return baseline, [1] * gains + [0] * losses + [1] * same


def one_run(folder, counts, *, whole=None, speedups=(1.5,) * 9):
    """A run of dense and ladder on one task."""
    baseline, candidate = answers(*counts)
    return write_run(
        folder,
        rows("dense", "arc", baseline) + rows("ladder", "arc", candidate),
        models=[model("dense"), model("ladder", residual="ladder")],
        tasks=[task("arc", "acc", sum(counts), whole)],
        baseline="dense",
        rounds=timed(speedups, candidate="ladder", baseline="dense"),
    )


def alone(folder, name, values, prompt="asked", **changes):
    """A run of one model on one task."""
    return write_run(
        folder,
        rows(name, "arc", values, prompt=prompt),
        models=[model(name, **changes)],
        tasks=[task("arc", "acc", len(values))],
    )


def test_two_runs_are_compared(tmp_path):
    baseline, candidate = answers(3, 9, 188)
    a, b = alone(tmp_path / "a", "ladder", candidate), alone(tmp_path / "b", "dense", baseline)
    found = json.loads(invoke("compare", a, b, "--json").stdout)["comparison"]
    (arc,) = found["tasks"]
    expected = paired_difference_interval(3, 9, 200)
    assert arc["comparison"]["low"] == pytest.approx(expected.low)
    assert arc["comparison"]["difference"] == pytest.approx(-0.03)
    assert found["changed"] == 12
    ends = paired_difference_interval(3, 9, 200, 0.92)
    assert found["endpoint"]["interval"]["low"] == pytest.approx(ends.low)
    assert found["endpoint"]["verdict"] == "INCONCLUSIVE"
    assert found["look"]["level"] == pytest.approx(0.04)


def test_pairs_do_not_depend_on_the_order(tmp_path):
    baseline, candidate = answers(3, 9, 188)
    samples = rows("ladder", "arc", candidate)[::-1]
    tasks = [task("arc", "acc", 200)]
    a = write_run(tmp_path / "a", samples, models=[model("ladder")], tasks=tasks)
    b = alone(tmp_path / "b", "dense", baseline)
    (arc,) = json.loads(invoke("compare", a, b, "--json").stdout)["comparison"]["tasks"]
    assert (arc["comparison"]["gains"], arc["comparison"]["losses"]) == (3, 9)


def test_changed_documents_are_listed(tmp_path):
    run = one_run(tmp_path / "run", (1, 2, 30))
    assert "Changed documents: 3" in invoke("compare", run, run).stdout
    with (run / "flips.csv").open() as file:
        changed = list(csv.DictReader(file))
    assert [(row["doc_id"], row["change"]) for row in changed] == [
        ("0", "gain"),
        ("1", "loss"),
        ("2", "loss"),
    ]
    assert changed[0]["doc_hash"] == "arc-0"
    assert changed[0]["candidate_model"] == "ladder"


def test_different_prompts_are_refused_by_name(tmp_path):
    a = alone(tmp_path / "a", "ladder", [1, 0, 1, 1, 1], prompt="otherwise")
    b = alone(tmp_path / "b", "dense", [1, 1, 1, 1, 1])
    line = refused("compare", a, b)
    assert line.startswith("the models were asked differently in arc document arc-0")
    assert "and 2 more" in line
    assert not (a / "flips.csv").exists()
    assert not (tmp_path / "claims.jsonl").exists()


def test_missing_documents_are_refused_by_name(tmp_path):
    a = alone(tmp_path / "a", "ladder", [1, 0, 1])
    b = alone(tmp_path / "b", "dense", [1, 0, 1, 1])
    line = refused("compare", a, b)
    assert line.startswith("only one of the models answered arc document arc-3")


def test_the_model_of_a_run_is_chosen(tmp_path):
    _, candidate = answers(1, 2, 30)
    names = ("dense", "ladder", "parallel")
    run = write_run(
        tmp_path / "run",
        [row for name in names for row in rows(name, "arc", candidate)],
        models=[model(name) for name in names],
        tasks=[task("arc", "acc", 33)],
        baseline="dense",
    )
    assert "choose as" in refused("compare", run, run)
    assert "among dense, ladder, parallel" in refused("compare", f"{run}:other", run)
    found = json.loads(invoke("compare", f"{run}:parallel", f"{run}:ladder", "--json").stdout)
    assert found["comparison"]["baseline"] == "ladder"
    assert "can't be compared with itself" in refused("compare", f"{run}:dense", run)


def test_no_run_is_one_sentence(tmp_path):
    assert "isn't a finished run" in refused("compare", tmp_path, tmp_path)
    assert "missing doesn't exist" in refused("compare", f"{tmp_path / 'missing'}:ladder", tmp_path)


def test_a_control_is_the_baseline_run_otherwise(tmp_path):
    run = one_run(tmp_path / "run", (1, 2, 30))
    baseline, _ = answers(1, 2, 30)
    control = alone(tmp_path / "control", "dense", [1 - baseline[0], *baseline[1:]], batch_size=1)
    shown = invoke("compare", run, run, "--control", control).stdout
    assert "dense against itself (batch_size 1, not 8): changed documents: 1" in shown
    sizes = {"a": (512,), "b": (512, 2048)}
    a, b = (alone(tmp_path / n, "dense", baseline, batch_tokens=sizes[n]) for n in sizes)
    shown = invoke("compare", run, a, "--control", b).stdout
    assert "dense against itself (batch_tokens 512 and 2048, not 512): changed" in shown
    same = alone(tmp_path / "same", "dense", baseline)
    assert "controls nothing" in refused("compare", run, run, "--control", same)
    other = alone(tmp_path / "other", "ladder", baseline, batch_size=1)
    assert "is no control" in refused("compare", run, run, "--control", other)


def test_perplexities_alone_have_no_endpoint(tmp_path):
    def nats(name, values):
        own = rows(name, "wiki", values, metric="word_perplexity")
        return [row | {"metrics": json.dumps({"word_perplexity": [-3.0, 1]})} for row in own]

    run = write_run(
        tmp_path / "run",
        nats("dense", [3.0, 2.0, 2.5]) + nats("ladder", [3.1, 2.2, 2.4]),
        models=[model("dense"), model("ladder")],
        tasks=[task("wiki", "word_perplexity", 3)],
        baseline="dense",
        rounds=timed([1.5] * 9, candidate="ladder", baseline="dense"),
    )
    assert "No primary endpoint" in invoke("compare", run, run).stdout
    assert "no drop can be judged" in refused("gate", run, run)


@pytest.mark.parametrize(
    ("counts", "speedup", "code", "verdict"),
    [
        ((5, 5, 1990), 1.5, 0, "GO"),
        ((5, 200, 1795), 1.5, 1, "NO-GO"),
        ((5, 5, 1990), 1.0, 1, "NO-GO"),
        ((5, 5, 90), 1.5, 3, "INCONCLUSIVE"),
        ((5, 5, 1990), 1.2, 3, "INCONCLUSIVE"),
    ],
)
def test_exit_codes_of_the_gate(tmp_path, counts, speedup, code, verdict):
    run = one_run(tmp_path / "run", counts, speedups=(speedup,) * 9)
    done = invoke("gate", run, run, "--max-drop", "1.0", "--min-speedup", "1.2")
    assert done.exit_code == code, done.output
    assert done.stdout.startswith(f"{verdict}: ladder against dense")
    assert "Baseline against itself (A/A)" in done.stdout
    assert "ladder: ladder (16 layers), as trained; float32 on cpu, tp_size 1" in done.stdout
    assert "weights random, tp_size 2" in done.stdout


def test_the_gate_as_json_has_both_axes(tmp_path):
    run = one_run(tmp_path / "run", (5, 5, 1990))
    done = invoke("gate", run, run, "--min-speedup", "1.2", "--last", "--json")
    found = json.loads(done.stdout)
    assert found["verdict"] == "GO"
    expected = paired_difference_interval(5, 5, 2000, 0.9)
    assert found["comparison"]["endpoint"]["interval"]["low"] == pytest.approx(expected.low)
    assert found["speed"]["interval"]["low"] > 1.2
    assert found["speed"]["level"] == 0.05


def test_a_run_without_times_cant_pass_the_gate(tmp_path):
    run = one_run(tmp_path / "run", (5, 5, 190), speedups=())
    assert "run it without --no-speed" in refused("gate", run, run)


def test_going_on_after_a_look_is_corrected_for(tmp_path):
    small = one_run(tmp_path / "small", (5, 5, 90), whole=20_000)
    large = one_run(tmp_path / "large", (6, 6, 1988), whole=20_000)
    first = invoke("compare", small, small).stdout
    assert "Look 1 at this claim, at 4 % one-sided; 1 % is left" in first
    assert "would show it within the margin" in first
    assert "Look 1 " in invoke("compare", small, small).stdout
    second = json.loads(invoke("compare", large, large, "--json").stdout)["comparison"]
    assert second["look"]["number"] == 2
    assert second["endpoint"]["level"] == pytest.approx(0.008)
    assert len((tmp_path / "claims.jsonl").read_text().splitlines()) == 2
    assert invoke("compare", large, large, "--last").exit_code == 0
    more = one_run(tmp_path / "more", (6, 6, 2988))
    assert "was its last" in refused("compare", more, more)


def test_a_small_benchmark_cant_decide(tmp_path):
    run = one_run(tmp_path / "run", (5, 5, 90))
    assert "Not decidable here" in invoke("compare", run, run).stdout
