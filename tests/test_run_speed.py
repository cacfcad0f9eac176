"""Whole runs that time their models: with scores, without weights, and where they can't."""

import csv
import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from running import Quiet, copy_of, recorded
from transformers import LlamaConfig, LlamaForCausalLM

import ladder_eval.asked
import ladder_eval.run
import ladder_eval.timing
from ladder_eval.distributed.team import alone
from ladder_eval.distributed.virtual_link import why_unavailable
from ladder_eval.engine import ranks
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution
from ladder_eval.harness.suites import suite_of
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.named import AS_GIVEN, AS_TRAINED, NamedModel
from ladder_eval.models.registry import MODELS
from ladder_eval.options import RunOptions
from ladder_eval.results.published import published_row
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.store import read_result
from ladder_eval.run import run
from ladder_eval.speed.fitting import needed_bytes, with_layers

LAST_TWO = ResidualChoice(ladder_layers=2)
WORKLOAD = Workload(batch_size=1, prompt_len=6, output_len=3)

two_ranks = pytest.mark.skipif(why_unavailable(2) is not None, reason=str(why_unavailable(2)))


@pytest.fixture(scope="module", autouse=True)
def not_under_torchrun():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        yield


def another(checkpoint, folder, **changes):
    """A random checkpoint elsewhere with the same tokenizer, and other sizes if need be."""
    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(checkpoint, **changes))
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(checkpoint / name, folder / name)
    return folder


def ask(data, output_dir, **changes):
    """Options of a run on three documents."""
    given = {"tasks": ("piqa",), "limit": 3, "data_dir": data}
    times = {"prompt_len": WORKLOAD.prompt_len, "output_len": WORKLOAD.output_len}
    return RunOptions(**(given | times | changes), device="cpu", output_dir=output_dir)


@pytest.fixture
def options(tiny_checkpoint, tiny_data, tmp_path):
    """The dense model and its hybrid."""
    return ask(tiny_data, tmp_path / "runs", model=(str(tiny_checkpoint),), residual=LAST_TWO)


@pytest.fixture(scope="module")
def finished(tiny_checkpoint, tiny_data, tmp_path_factory):
    """A run of both, timed on two real ranks; and its result as it was on disk before."""
    if reason := why_unavailable(2):
        pytest.skip(reason)
    place, before, timed = tmp_path_factory.mktemp("timed"), [], ladder_eval.run.time_settings

    def watched(subject, settings, execution, driver, folder, terminal):
        before.append(read_result(folder.path))
        return timed(subject, settings, execution, driver, folder, terminal)

    terminal = Quiet()
    options = ask(tiny_data, place, model=(str(tiny_checkpoint),), residual=LAST_TWO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder_eval.run, "time_settings", watched)
        result, folder = run(options, terminal)
    (scored,) = before
    return SimpleNamespace(
        result=result, folder=folder, scored=scored, lines=terminal.lines, options=options
    )


def test_both_models_are_timed_on_two_ranks(finished, tiny_checkpoint):
    (record,) = finished.result.speed
    assert [(row.arm, row.role, row.residual) for row in record.rows] == [
        ("tiny", "baseline", "standard"),
        ("tiny-ladder-last2", "candidate", "hybrid ladder"),
        ("no-comm", "bound", "no-comm"),
        ("tiny again", "control", "standard"),
    ]
    assert record.rows[1].ladder_layers == (2, 3)
    assert (record.model, record.weights) == ("tiny-ladder-last2", str(tiny_checkpoint.resolve()))
    assert (record.tp_size, record.workload) == (2, WORKLOAD)
    assert (record.rounds, record.rounds_asked) == (9, 9)
    link = record.link
    assert (link.name, link.mode, link.latency_ratio) == ("virtual link", "serial", 0.5)
    assert {model.tp_size for model in finished.result.models} == {1}  # that scored
    # 4 query heads of 16 channels, of which each rank has 2, and 1 of 2 key-value heads.
    layer = 2 * 64 * 32 + 2 * 64 * 16 + 3 * 64 * 64 + 2 * 64
    assert record.weight_bytes_per_rank == (4 * (4 * layer + 129 * 64 + 64),) * 2


def test_scores_are_on_disk_before_anything_is_timed(finished):
    assert finished.scored.speed == ()
    assert finished.scored.scores == finished.result.scores != ()
    assert finished.scored.models == finished.result.models
    assert read_result(finished.folder) == finished.result


def test_scores_are_those_of_a_run_without_times(finished, tmp_path):
    plain, folder = run(replace(finished.options, no_speed=True, output_dir=tmp_path), Quiet())
    assert plain.speed == ()
    assert (plain.scores, plain.comparisons) == (
        finished.result.scores,
        finished.result.comparisons,
    )
    assert folder.name == finished.folder.name
    assert not (folder / "rounds.jsonl").exists()
    assert "speedup" not in (folder / "report.md").read_text()


def test_times_are_in_every_file(finished, tiny_checkpoint):
    lines = (finished.folder / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"]["number"] for line in lines] == list(range(1, 10))
    conditions = json.loads(lines[0])
    del conditions["round"], conditions["part"], conditions["crc32"]
    assert conditions == {
        "kind": "measured",
        "model": "tiny-ladder-last2",
        "weights": str(tiny_checkpoint.resolve()),
        "num_hidden_layers": 4,
        "vocab_size": 258,
        "dtype": "float32",
        "device": "cpu",
        "tp_size": 2,
        "backend": "gloo",
        "link": {"mode": "serial", "bandwidth": 100e9, "latency": 0.0, "ratio": 0.5},
        "workload": {"batch_size": 1, "prompt_len": 6, "output_len": 3},
    }
    report = (finished.folder / "report.md").read_text()
    assert (
        "speed, tp_size 2 over the virtual link (serial, 0.5 × block time, 100 GB/s): batch_size "
        "1, prompt 6, output 3"
    ) in report
    assert "random weights" not in report
    with (finished.folder / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        speedups = {row["model"]: row["decode_speedup"] for row in csv.DictReader(file)}
    decode = finished.result.speed[0].rows[1].decode
    assert float(speedups["tiny-ladder-last2"]) == decode.speedup.value
    assert speedups["tiny"] == ""


def test_what_will_be_timed_is_told(finished):
    scoring, timing = finished.lines
    assert scoring.startswith("Scoring tiny (standard) and tiny-ladder-last2 (hybrid ladder) on 3 ")
    assert timing == (
        "Timing tiny and tiny-ladder-last2, with their weights, tp_size 2, float32 on cpu: "
        "batch_size 1, prompt 6, output 3, 9 rounds, at most 7 min."
    )


def test_the_same_command_again_neither_scores_nor_times(finished, monkeypatch):
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.setattr(ladder_eval.run, "time_settings", lambda *_: pytest.fail("timed"))
    before = (finished.folder / "rounds.jsonl").read_bytes()
    again, folder = run(finished.options, Quiet())
    assert (again, folder) == (finished.result, finished.folder)
    assert read_result(folder) == finished.result
    assert (folder / "rounds.jsonl").read_bytes() == before


@pytest.fixture
def timed(monkeypatch, finished):
    """What runs ask to be timed, on no ranks: each gets the record that the real run has."""
    asked = []

    @contextmanager
    def nobody(_):
        with alone(torch.device("cpu")) as team:
            yield team

    def noted(subject, settings, execution, driver, folder, terminal):
        asked.append(SimpleNamespace(subject=subject, settings=settings, execution=execution))
        for setting in settings:
            yield replace(finished.result.speed[0], workload=setting.workload)

    monkeypatch.setattr(Execution, "team", nobody)
    monkeypatch.setattr(ladder_eval.run, "time_settings", noted)
    return asked


def interrupted(*_):
    raise KeyboardInterrupt


def test_an_interrupted_timing_keeps_the_scores(options, timed, monkeypatch):
    noted = ladder_eval.run.time_settings
    monkeypatch.setattr(ladder_eval.run, "time_settings", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(options, Quiet())
    (folder,) = options.output_dir.iterdir()
    scored, answers = read_result(folder), recorded(folder)
    assert len(scored.scores) == 4  # two metrics of two models
    assert scored.speed == ()

    monkeypatch.setattr(ladder_eval.run, "time_settings", noted)
    monkeypatch.setattr(ranks, "load_model", lambda *_, **__: pytest.fail("loaded"))
    result, _ = run(options, Quiet())
    assert len(timed) == 1
    assert recorded(folder) == answers
    assert (result.scores, result.models) == (scored.scores, scored.models)
    assert [record.workload for record in result.speed] == [WORKLOAD]
    assert read_result(folder) == result

    monkeypatch.setattr(ladder_eval.run, "time_settings", lambda *_: pytest.fail("timed"))
    assert run(options, Quiet())[0] == result


def test_other_work_is_timed_anew(options, timed):
    run(options, Quiet())
    result, folder = run(replace(options, output_len=5), Quiet())
    assert [each.settings[0].workload.output_len for each in timed] == [3, 5]
    (record,) = result.speed
    assert record.workload == replace(WORKLOAD, output_len=5)
    assert read_result(folder) == result


def test_nothing_is_timed_where_nobody_asked(options, timed):
    result, _ = run(replace(options, no_speed=True), Quiet())
    assert (timed, result.speed) == ([], ())
    result, _ = run(replace(options, no_baseline=True), Quiet())  # no baseline, no speed-up
    assert (timed, result.speed) == ([], ())


def not_timed(options):
    """The line that says why, and the result, which has to have scores all the same."""
    terminal = Quiet()
    result, folder = run(options, terminal)
    assert result.speed == ()
    assert len(result.scores) == 4
    assert read_result(folder) == result
    (line,) = [line for line in terminal.lines if line.startswith("Not timed: ")]
    return line


def test_a_shape_that_two_ranks_can_not_divide_is_not_timed(
    options, timed, tiny_checkpoint, tmp_path
):
    odd = another(tiny_checkpoint, tmp_path / "odd", intermediate_size=127)
    line = not_timed(replace(options, model=(str(odd),)))
    assert line == "Not timed: its shape can't be divided by 2 ranks."
    assert timed == []


def test_with_too_few_cores_nothing_is_timed(options, timed, monkeypatch):
    monkeypatch.setattr(ladder_eval.timing, "why_unavailable", lambda size, _: f"no {size} cores")
    assert not_timed(options) == "Not timed: no 2 cores."
    assert timed == []


def test_no_second_group_is_started_where_nothing_is_timed(options, timed, monkeypatch):
    sizes, team = [], Execution.team
    monkeypatch.setattr(Execution, "team", lambda self: sizes.append(self.tp_size) or team(self))
    monkeypatch.setattr(ladder_eval.timing, "why_unavailable", lambda size, _: f"no {size} cores")
    not_timed(options)
    assert sizes == [1]
    monkeypatch.setattr(ladder_eval.timing, "why_unavailable", lambda *_: None)
    run(options, Quiet())
    assert sizes == [1, 1, 2]
    run(options, Quiet())  # its times are there
    assert sizes == [1, 1, 2, 1]
    assert len(timed) == 1


def test_one_process_of_torchrun_is_not_timed(options, timed, monkeypatch):
    place = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    for name, value in (place | {"MASTER_ADDR": "localhost", "MASTER_PORT": 1}).items():
        monkeypatch.setenv(name, str(value))
    assert not_timed(options) == ("Not timed: torchrun started one process, and messages need two.")
    assert timed == []


def test_replicas_have_ended_when_one_is_timed(options, timed, monkeypatch):
    ranks, team = [], Execution.team
    monkeypatch.setattr(
        Execution, "team", lambda self: ranks.append((self.tp_size, self.dp_size)) or team(self)
    )
    run(replace(options, tp=2, dp=2), Quiet())
    assert ranks == [(2, 2), (2, 1)]
    assert len(timed) == 1


def test_threads_that_the_user_asked_for_need_cores_too(options, timed, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(
        ladder_eval.timing, "why_unavailable", lambda size, threads: f"no {size} x {threads} cores"
    )
    assert not_timed(options) == "Not timed: no 2 x 3 cores."


def test_times_of_a_later_command_leave_where_the_scores_were_made(options, timed, monkeypatch):
    scored, _ = run(replace(options, no_speed=True), Quiet())
    monkeypatch.setattr("sys.argv", ["ladder-eval", "later"])
    starts = iter(["2031-01-01T00:00:00+00:00"])
    stopwatch = ladder_eval.run.Stopwatch
    monkeypatch.setattr(
        stopwatch,
        "provenance",
        lambda self, *arguments, made=stopwatch.provenance: replace(
            made(self, *arguments), started_at=next(starts)
        ),
    )
    result, _ = run(options, Quiet())
    assert len(result.speed) == 1
    assert result.provenance == scored.provenance


@two_ranks
@pytest.mark.usefixtures("two_rounds")
def test_rounds_are_only_ever_added(by_name):
    _, folder = run(by_name, Quiet())
    before = (folder / "rounds.jsonl").read_text()
    _, again = run(by_name, Quiet())
    lines = (again / "rounds.jsonl").read_text()
    assert again == folder
    assert lines.startswith(before)
    numbers = [json.loads(line)["round"]["number"] for line in lines.splitlines()]
    assert numbers == [1, 2, 1, 2]


def test_a_candidate_of_another_shape_is_not_timed(options, timed, tiny_checkpoint, tmp_path):
    other = another(tiny_checkpoint, tmp_path / "other", intermediate_size=96)
    other = copy_of(other, tmp_path / "other-ladder", ladder_layers=2)
    same = copy_of(tiny_checkpoint, tmp_path / "same-ladder", ladder_layers=2)
    given = {"baseline": str(tiny_checkpoint), "residual": ResidualChoice()}
    result, _ = run(replace(options, model=(str(other), str(same)), **given), Quiet())
    assert [model.name for model in result.models] == ["tiny", "other-ladder", "same-ladder"]
    (asked,) = timed
    assert list(asked.subject.arms) == ["tiny", "same-ladder"]
    alone_, _ = run(replace(options, model=(str(other),), **given), Quiet())
    assert (len(timed), alone_.speed) == (1, ())
    assert len(alone_.comparisons) == 2  # answers can be compared: the task, and pooled


@pytest.fixture
def leave(tiny_checkpoint, monkeypatch):
    """Let as much memory be free as so many layers take in a dtype."""

    def leave(layers, dtype_bytes):
        config = with_layers(read_config(tiny_checkpoint), layers)
        free = int(needed_bytes(config, WORKLOAD, 2, dtype_bytes) / 0.85) + 1
        monkeypatch.setattr(ladder_eval.timing, "free_bytes", lambda *_: free)

    return leave


def test_a_model_that_fits_in_part_is_timed_with_random_weights(options, timed, leave):
    leave(3, 4)
    run(options, Quiet())
    (asked,) = timed
    assert (asked.execution.dtype, asked.subject.config.num_hidden_layers) == ("float32", 3)
    assert (asked.subject.folder, asked.subject.weights) == (None, "random")
    assert asked.subject.whole.num_hidden_layers == 4


def test_half_the_bytes_are_taken_where_only_they_fit(options, timed, leave):
    leave(2, 2)
    run(options, Quiet())
    (asked,) = timed
    assert (asked.execution.dtype, asked.subject.config.num_hidden_layers) == ("bfloat16", 2)
    assert asked.execution.tp_size == 2


def test_a_dtype_that_was_given_is_kept(options, timed, leave):
    leave(2, 2)
    assert not_timed(replace(options, dtype="float32")).startswith(
        "Not timed: Two layers of this model take 2 GiB to be timed, and 2 GiB are free; "
    )
    assert timed == []


@pytest.fixture
def named(tiny_checkpoint):
    """The tiny shape under names without weights, among them two of the paper's."""
    config = read_config(tiny_checkpoint)
    shared = {"about": "tiny", "weights": None}
    dense = {"config": config, "baseline": None, "adaptation": AS_TRAINED} | shared
    ladder = {"config": config.with_ladder(4), "adaptation": AS_GIVEN} | shared
    parallel = replace(config, topology="parallel")
    models = [
        NamedModel(name="tiny_dense", **dense),
        NamedModel(name="tiny_ladder", baseline="tiny_dense", **ladder),
        NamedModel(name="tiny_parallel", baseline="tiny_dense", **(ladder | {"config": parallel})),
        NamedModel(name="standard_3b", **dense),
        NamedModel(name="ladder_3b", baseline="standard_3b", **ladder),
    ]
    kept = dict(MODELS)
    MODELS.update({model.name: model for model in models})
    yield
    MODELS.clear()
    MODELS.update(kept)


@pytest.fixture
def by_name(named, options):
    """A run of a name without weights, with nothing to score."""
    return replace(options, model=("tiny_ladder",), residual=ResidualChoice(), tasks=())


@pytest.fixture
def one_task(monkeypatch):
    """The default suite has a task of which there is data."""
    monkeypatch.setattr(ladder_eval.asked, "load_suite", lambda _: suite_of(("piqa",)))


@pytest.fixture
def two_rounds(monkeypatch):
    """Enough to see what is timed."""
    monkeypatch.setattr(ladder_eval.run, "DEFAULT_ROUNDS", 2)


NONE_KNOWN = (
    "No checkpoint of tiny_dense and tiny_ladder is known, so that only speed is measured; to "
    "compare answers, give --checkpoint and --baseline-checkpoint, or a --models-file."
)


@two_ranks
@pytest.mark.usefixtures("two_rounds")
def test_a_name_without_weights_is_timed_with_random_ones(by_name):
    terminal = Quiet()
    result, folder = run(by_name, terminal)
    assert terminal.lines[0] == NONE_KNOWN
    assert (result.models, result.tasks, result.scores, result.comparisons) == ((), (), (), ())
    assert (result.suite, result.baseline, result.warnings) == ("speed", "tiny_dense", ())
    assert result.published == ()  # these names are no paper's
    (record,) = result.speed
    assert (record.model, record.weights, record.tp_size) == ("tiny_ladder", "random", 2)
    assert [row.arm for row in record.rows] == [
        *("tiny_dense", "tiny_ladder", "no-comm", "tiny_dense again"),
    ]
    assert record.rows[1].residual == "ladder"
    assert len(result.provenance.peak_memory_bytes) == 2
    assert read_result(folder) == result
    report = (folder / "report.md").read_text()
    assert (
        "speed, random weights, tp_size 2 over the virtual link (serial, 0.5 × block time, 100 "
        "GB/s): batch_size 1, prompt 6, output 3"
    ) in report


def test_all_candidates_are_timed_beside_one_baseline(by_name, timed):
    result, _ = run(replace(by_name, model=("tiny_ladder", "tiny_parallel")), Quiet())
    (asked,) = timed
    assert list(asked.subject.arms) == ["tiny_dense", "tiny_ladder", "tiny_parallel"]
    assert asked.subject.arms["tiny_parallel"].topology == "parallel"
    assert result.baseline == "tiny_dense"


def test_what_the_paper_prints_is_put_beside(by_name, timed):
    result, folder = run(replace(by_name, model=("ladder_3b",)), Quiet())
    assert result.published == (published_row("standard_3b"), published_row("ladder_3b"))
    assert [row.metrics["arc_challenge"] for row in result.published] == [38.99, 36.77]
    report = (folder / "report.md").read_text()
    assert "| arc_challenge | 38.99 | 36.77 |" in report
    assert "(not measured here)" in report


@pytest.mark.parametrize(
    "changes",
    [{"tasks": ("piqa",)}, {"suite": "quick"}, {"no_speed": True}],
    ids=["tasks", "suite", "no speed"],
)
def test_what_needs_weights_is_refused_without(by_name, timed, changes):
    with pytest.raises(UsageError) as caught:
        run(replace(by_name, **changes), Quiet())
    assert str(caught.value) == (
        "No checkpoint of tiny_dense and tiny_ladder is known, so that tasks can't be scored; "
        "give --checkpoint and --baseline-checkpoint, or a --models-file."
    )
    assert timed == []
    assert not by_name.output_dir.exists()


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        ("cores", "This can't be timed here: no 2 cores"),
        ("memory", "Two layers of this model take 2 GiB to be timed, "),
    ],
)
def test_what_can_neither_be_scored_nor_timed_is_one_sentence(
    by_name, timed, leave, monkeypatch, problem, sentence
):
    if problem == "cores":
        monkeypatch.setattr(
            ladder_eval.timing, "why_unavailable", lambda size, _: f"no {size} cores"
        )
    else:
        leave(2, 2)
    with pytest.raises(UsageError) as caught:
        run(replace(by_name, dtype="float32"), Quiet())
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")
    assert not str(caught.value).endswith("..")
    assert not list(by_name.output_dir.rglob("results.json"))


@pytest.mark.parametrize("problem", ["cores", "memory"])
def test_what_can_not_be_timed_still_has_published_rows(
    by_name, timed, leave, monkeypatch, problem
):
    if problem == "cores":
        monkeypatch.setattr(ladder_eval.timing, "why_unavailable", lambda size, _: f"no {size}")
    else:
        leave(2, 2)
    terminal = Quiet()
    result, folder = run(replace(by_name, model=("ladder_3b",), dtype="float32"), terminal)
    assert timed == []
    assert (result.models, result.speed) == ((), ())
    assert result.published == (published_row("standard_3b"), published_row("ladder_3b"))
    assert read_result(folder) == result
    assert "| arc_challenge | 38.99 | 36.77 |" in (folder / "report.md").read_text()
    (line,) = [line for line in terminal.lines if line.startswith("Not timed: ")]
    why = {"cores": "no 2.", "memory": "Two layers of this model take 2 GiB to be timed, "}[problem]
    assert line.startswith(f"Not timed: {why}")
    assert line.endswith(".")
    assert not line.endswith("..")


@pytest.mark.parametrize("changes", [{"no_baseline": True}, {"model": ("tiny_dense",)}])
def test_a_run_that_can_do_nothing_is_one_sentence(by_name, timed, changes):
    with pytest.raises(UsageError) as caught:
        run(replace(by_name, **changes), Quiet())
    assert str(caught.value) == (
        "There is nothing to score without weights, and nothing to time without a baseline and "
        "another residual; give --checkpoint, or a --model such as ladder_3b."
    )
    assert timed == []
    assert not by_name.output_dir.exists()


def test_other_work_of_a_name_without_weights_has_another_folder(by_name, timed, monkeypatch):
    monkeypatch.setattr(ladder_eval.timing, "why_unavailable", lambda *_: None)
    folders = [
        run(replace(by_name, **changes), Quiet())[1]
        for changes in ({}, {"output_len": 5}, {"prompt_len": 7}, {"tp": 4}, {"dtype": "bfloat16"})
    ]
    assert len(set(folders)) == 5
    assert all(folder.name.startswith("speed-tiny_ladder-") for folder in folders)
    assert run(by_name, Quiet())[1] == folders[0]


@pytest.fixture
def other_checkpoint(tiny_checkpoint, tmp_path):
    """Other dense weights of the same shape."""
    return another(tiny_checkpoint, tmp_path / "retrained")


def test_both_checkpoints_are_evaluated_and_timed(
    by_name, timed, tiny_checkpoint, other_checkpoint
):
    given = {"checkpoint": other_checkpoint, "baseline_checkpoint": tiny_checkpoint}
    terminal = Quiet()
    result, _ = run(replace(by_name, tasks=("piqa",), **given), terminal)
    assert not any(line.startswith("No checkpoint") for line in terminal.lines)
    dense, ladder = result.models
    assert (dense.name, dense.weights) == ("tiny_dense", str(tiny_checkpoint.resolve()))
    assert (ladder.name, ladder.weights) == ("tiny_ladder", str(other_checkpoint.resolve()))
    assert (dense.adaptation, ladder.adaptation) == (AS_TRAINED, AS_GIVEN)
    assert ladder.ladder_layers == (0, 1, 2, 3)
    assert (result.baseline, len(result.comparisons)) == ("tiny_dense", 2)
    assert len(result.speed) == 1
    (asked,) = timed
    # All arms run on one model's weights: times don't depend on their values.
    assert (asked.subject.name, asked.subject.folder) == ("tiny_ladder", tiny_checkpoint)
    assert asked.subject.weights == str(tiny_checkpoint.resolve())
    assert list(asked.subject.arms) == ["tiny_dense", "tiny_ladder"]


@two_ranks
@pytest.mark.usefixtures("one_task", "two_rounds")
def test_a_candidates_checkpoint_alone_is_scored_alone(by_name, tiny_checkpoint, tmp_path):
    # Its config.json names the residual, and the baseline is timed on its weights all the same.
    trained = copy_of(tiny_checkpoint, tmp_path / "trained", ladder_layers=4)
    terminal = Quiet()
    result, _ = run(replace(by_name, checkpoint=trained), terminal)
    assert terminal.lines[0] == (
        "No checkpoint of tiny_dense is known, so that only tiny_ladder is scored; to compare "
        "answers, give --checkpoint and --baseline-checkpoint, or a --models-file."
    )
    (model,) = result.models
    assert (model.name, model.residual, model.adaptation) == ("tiny_ladder", "ladder", "as trained")
    assert (result.baseline, result.comparisons) == (None, ())
    assert {score.model for score in result.scores} == {"tiny_ladder"}
    (record,) = result.speed
    assert [row.arm for row in record.rows][:2] == ["tiny_dense", "tiny_ladder"]
    assert record.weights == str(trained.resolve())


def test_a_models_file_does_the_same(by_name, timed, tiny_checkpoint, other_checkpoint, tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(
        f"tiny_ladder: {{checkpoint: {other_checkpoint}}}\n"
        f"tiny_dense: {{checkpoint: {tiny_checkpoint}}}\n"
    )
    flags = {"checkpoint": other_checkpoint, "baseline_checkpoint": tiny_checkpoint}
    asked = replace(by_name, tasks=("piqa",))
    (one, here), (two, there) = (
        run(replace(asked, output_dir=tmp_path / name, **given), Quiet())
        for name, given in (("flags", flags), ("file", {"models_file": file}))
    )
    assert here.name == there.name
    assert one.scores == two.scores
    assert [m.weights_sha256 for m in one.models] == [m.weights_sha256 for m in two.models]
    first, second = timed
    assert first == second


def test_a_flag_wins_over_the_file(by_name, timed, tiny_checkpoint, other_checkpoint, tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(
        f"tiny_ladder: {{checkpoint: {tiny_checkpoint}}}\n"
        f"tiny_dense: {{checkpoint: {tiny_checkpoint}}}\n"
    )
    given = {"models_file": file, "checkpoint": other_checkpoint}
    result, _ = run(replace(by_name, tasks=("piqa",), **given), Quiet())
    assert [model.weights for model in result.models] == [
        str(tiny_checkpoint.resolve()),
        str(other_checkpoint.resolve()),
    ]


@pytest.mark.parametrize("changes", [{"tasks": ("piqa",)}, {"no_speed": True, "suite": "quick"}])
@pytest.mark.usefixtures("one_task")
def test_a_missing_baseline_alone_only_means_no_comparison(
    by_name, timed, other_checkpoint, changes
):
    terminal = Quiet()
    result, _ = run(replace(by_name, checkpoint=other_checkpoint, **changes), terminal)
    assert "so that only tiny_ladder is scored" in terminal.lines[0]
    assert [model.name for model in result.models] == ["tiny_ladder"]
    assert (result.baseline, result.comparisons) == (None, ())
    assert len(result.scores) == 2


def test_a_mistyped_name_with_a_checkpoint_is_one_sentence(by_name, timed, other_checkpoint):
    # Its checkpoint would be run as the dense model that its config.json says.
    with pytest.raises(UsageError) as caught:
        run(replace(by_name, model=("tiny_laddr",), checkpoint=other_checkpoint), Quiet())
    assert str(caught.value).startswith(
        "Unknown model 'tiny_laddr': it is neither a named model (closest are tiny_ladder"
    )
    assert timed == []
    assert not by_name.output_dir.exists()


def test_a_name_of_the_models_file_may_have_a_checkpoint(
    by_name, timed, tiny_checkpoint, other_checkpoint, tmp_path
):
    file = tmp_path / "models.yaml"
    file.write_text(f"mine: {{checkpoint: {tiny_checkpoint}}}\n")
    given = {"model": ("mine",), "models_file": file, "no_baseline": True, "tasks": ("piqa",)}
    result, _ = run(replace(by_name, checkpoint=other_checkpoint, **given), Quiet())
    (model,) = result.models
    assert (model.name, model.weights) == ("mine", str(other_checkpoint.resolve()))


def test_a_baselines_checkpoint_needs_a_baseline(options, timed, other_checkpoint):
    with pytest.raises(UsageError) as caught:
        run(replace(options, baseline_checkpoint=other_checkpoint), Quiet())
    assert str(caught.value) == ("--baseline-checkpoint needs a --baseline whose checkpoint it is.")
    assert not options.output_dir.exists()
