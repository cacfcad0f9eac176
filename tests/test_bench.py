"""Whole benches of tiny shapes: rounds on disk, and records computed again from them."""

import json
import statistics
from dataclasses import replace

import pytest
from running import Quiet

import ladder_eval.timing
from ladder_eval.bench import bench
from ladder_eval.bench_options import BenchOptions
from ladder_eval.distributed.virtual_link import why_unavailable
from ladder_eval.errors import LadderEvalError
from ladder_eval.execution import Execution
from ladder_eval.models.config import config_from_hf
from ladder_eval.results.speed_records import Workload
from ladder_eval.results.store import read_result
from ladder_eval.speed.fitting import needed_bytes, with_layers
from ladder_eval.speed.subject import LoadedSubject

# Three heads, which two ranks share as 2:1, and a vocabulary that they share as 51:50.
SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
# A layer of rank 0: four matrices of 64 and 2 heads, three of 64 and 48 channels, two norms.
# The embedding, and the last norm. All in four bytes.
RANK_0 = 4 * (4 * (4 * 64 * 32 + 3 * 64 * 48 + 2 * 64) + 51 * 64 + 64)
RANK_1 = 4 * (4 * (4 * 64 * 16 + 3 * 64 * 48 + 2 * 64) + 50 * 64 + 64)

PROMPT_LEN, OUTPUT_LEN, ROUNDS = 6, 4, 3
ASKED = ["standard", "ladder", "ladder-1", "parallel", "desync-2x"]
ARMS = [*ASKED, "no-comm", "standard again"]

two_ranks = pytest.mark.skipif(why_unavailable(2) is not None, reason=str(why_unavailable(2)))


@pytest.fixture(scope="module", autouse=True)
def not_under_torchrun():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        yield


def shape_in(folder, **changes):
    """A folder with a shape and no weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SHAPE | changes))
    return folder


@pytest.fixture
def options(tmp_path):
    """A bench of one rank and one round, which needs no other process."""
    return BenchOptions(
        model=str(shape_in(tmp_path / "small")),
        residual=("ladder",),
        tp=(1,),
        prompt_len=(5,),
        output_len=(2,),
        rounds=1,
        device="cpu",
        output_dir=tmp_path / "runs",
    )


@pytest.fixture
def sealed(monkeypatch):
    """No group may be started."""
    monkeypatch.setattr(Execution, "team", lambda _: pytest.fail("a group was started"))


def lines_of(folder):
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two real ranks: the result, its folder, the lines on disk, and what the user saw."""
    if reason := why_unavailable(2):
        pytest.skip(reason)
    place, terminal = tmp_path_factory.mktemp("bench"), Quiet()
    options = BenchOptions(
        model=str(shape_in(place / "three heads")),
        residual=("ladder", "ladder-1", "parallel", "desync-2x"),
        prompt_len=(PROMPT_LEN,),
        output_len=(OUTPUT_LEN,),
        latency_ratio=(0.25,),
        link_mode="pipelined",
        bandwidth_gbs=12.5,
        rounds=ROUNDS,
        device="cpu",
        output_dir=place / "runs",
    )
    result, folder = bench(options, terminal)
    return result, folder, lines_of(folder), terminal.lines


def trials(lines, arm):
    """The trials of an arm, by round."""
    return [
        next(trial for trial in line["round"]["trials"] if trial["arm"] == arm) for line in lines
    ]


def ttft(trial):
    return trial["ttft"]


def tpot(trial):
    return sum(trial["itl"]) / len(trial["itl"])


def e2e(trial):
    return trial["ttft"] + sum(trial["itl"])


PHASES = {"prefill": ttft, "decode": tpot, "total": e2e}


def test_every_round_is_a_line_with_a_trial_of_every_arm(finished):
    _, _, lines, _ = finished
    assert [line["round"]["number"] for line in lines] == [1, 2, 3]
    orders = [[trial["arm"] for trial in line["round"]["trials"]] for line in lines]
    assert orders == [ARMS, ARMS[::-1], ARMS]
    for line in lines:
        assert (line["tp_size"], line["backend"]) == (2, "gloo")
        assert (line["model"], line["weights"]) == ("three heads", "random")
        assert (line["num_hidden_layers"], line["vocab_size"]) == (4, 101)
        assert (line["dtype"], line["device"]) == ("float32", "cpu")
        assert line["workload"] == {"batch_size": 1, "prompt_len": 6, "output_len": 4}
        assert line["link"] == {
            "mode": "pipelined",
            "bandwidth": 12.5e9,
            "latency": 0.0,
            "ratio": 0.25,
        }
        for trial in line["round"]["trials"]:
            assert trial["ttft"] > 0
            assert len(trial["itl"]) == OUTPUT_LEN - 1
            assert min(trial["itl"]) > 0


def test_medians_follow_from_the_rounds(finished):
    result, _, lines, _ = finished
    (record,) = result.speed
    assert [row.arm for row in record.rows] == ARMS
    for row in record.rows:
        own, base = trials(lines, row.arm), trials(lines, "standard")
        for name, seconds in PHASES.items():
            phase = getattr(row, name)
            times = [seconds(trial) for trial in own]
            assert phase.seconds.value == pytest.approx(statistics.median(times))
            assert (phase.seconds.low, phase.seconds.high) == pytest.approx(
                (min(times), max(times))
            )
            assert (phase.seconds.confidence, phase.seconds.rounds) == (0.75, 3)
            ratios = [seconds(b) / seconds(o) for b, o in zip(base, own, strict=True)]
            if row.arm == "standard":
                assert phase.speedup is None
            else:
                assert phase.speedup.value == pytest.approx(statistics.median(ratios))
        gaps = [statistics.median(trial["itl"]) for trial in own]
        assert row.itl.value == pytest.approx(statistics.median(gaps))
        tokens = [OUTPUT_LEN / e2e(trial) for trial in own]
        assert row.tokens_per_s.value == pytest.approx(statistics.median(tokens))


def test_shares_of_communication_follow_from_the_rounds(finished):
    result, _, lines, _ = finished
    for row in result.speed[0].rows:
        for name, seconds in PHASES.items():
            own, base, least = (
                [seconds(trial) for trial in trials(lines, arm)]
                for arm in (row.arm, "standard", "no-comm")
            )
            exposed = [b - n for b, n in zip(base, least, strict=True)]
            comm = getattr(row, name).comm
            if row.role != "candidate" or min(exposed) <= 0:
                assert comm is None
                continue
            shares = [(b - o) / e for b, o, e in zip(base, own, exposed, strict=True)]
            assert comm.value == pytest.approx(statistics.median(shares))


def test_roles_and_residuals(finished):
    rows = finished[0].speed[0].rows
    told = [(row.role, row.residual, row.ladder_layers) for row in rows]
    assert told == [
        ("baseline", "standard", ()),
        ("candidate", "ladder", (0, 1, 2, 3)),
        ("candidate", "hybrid ladder", (3,)),
        ("candidate", "parallel", ()),
        ("candidate", "desync-2x", ()),
        ("bound", "no-comm", ()),
        ("control", "standard", ()),
    ]
    assert [row.comm_name for row in rows] == [
        *("comm_saved", "hidden_comm", "hidden_comm"),
        *("comm_saved", "comm_saved", "comm_saved", "comm_saved"),
    ]


def test_the_link_is_told(finished):
    result, _, lines, _ = finished
    link = result.speed[0].link
    assert (link.name, link.mode) == ("virtual link", "pipelined")
    assert (link.latency_ratio, link.bandwidth) == (0.25, 12.5e9)
    latencies = [line["round"]["latency"] for line in lines]
    assert min(latencies) > 0
    assert link.latency == statistics.median(latencies)


def test_what_each_rank_held_and_took(finished):
    result, _, lines, _ = finished
    (record,) = result.speed
    assert (record.tp_size, record.heads_per_rank, record.kv_heads_per_rank) == (2, (2, 1), (2, 1))
    assert record.weight_bytes_per_rank == (RANK_0, RANK_1) == (293_888, 228_096)
    assert len(record.peak_memory_bytes) == 2
    assert min(record.peak_memory_bytes) > 50e6
    assert (record.num_hidden_layers, record.all_hidden_layers) == (4, 4)
    assert (record.vocab_size, record.all_vocab_size) == (101, 101)
    assert (record.device, record.dtype, record.threads) == ("cpu", "float32", 1)
    assert (record.rounds, record.rounds_asked, record.warm_up) == (3, 3, 1)
    for block, seconds in enumerate((record.attention_seconds, record.mlp_seconds)):
        expected = [
            statistics.median(line["round"]["decode_blocks"][rank][block] for line in lines)
            for rank in (0, 1)
        ]
        assert list(seconds) == expected


def test_what_was_read_and_what_the_driver_took(finished):
    result, _, lines, _ = finished
    (record,) = result.speed
    copied = [line["round"]["copied_bytes_per_second"] for line in lines]
    assert record.copied_bytes_per_second == statistics.median(copied)
    # Keys and values of 4 layers and 3 heads of 16 channels, with half of the answer in place.
    cache = 2 * 4 * 3 * 16 * (PROMPT_LEN + OUTPUT_LEN / 2) * 4
    step = statistics.median(tpot(trial) for trial in trials(lines, "no-comm"))
    assert record.read_bytes_per_second == pytest.approx((RANK_0 + RANK_1 + cache) / step)
    shares = [trial["driver_seconds"] / e2e(trial) for trial in trials(lines, "standard")]
    assert record.driver_share == pytest.approx(statistics.median(shares))


def test_the_folder_holds_the_result_and_a_report(finished):
    result, folder, _, _ = finished
    assert read_result(folder) == result
    assert folder.name == result.run_id
    assert folder.name.startswith("bench-three heads-")
    assert (result.suite, result.baseline) == ("bench", "standard")
    assert (result.models, result.tasks, result.scores) == ((), (), ())
    assert len(result.provenance.peak_memory_bytes) == 2
    (record,) = result.speed
    assert (record.model, record.weights) == ("three heads", "random")
    report = (folder / "report.md").read_text()
    assert "random weights" in report
    assert "Virtual link, pipelined, latency " in report
    assert " = 0.25 × the mean block time, 12.5 GB/s; float32 on cpu, 1 thread a rank" in report


def test_the_plan_is_told_and_rounds_are_counted(finished):
    assert finished[3] == [
        "Timing standard and ladder and ladder-1 and parallel and desync-2x, random weights, "
        "tp_size 2, float32 on cpu: batch_size 1, prompt 6, output 4, 3 rounds.",
    ]


@two_ranks
def test_every_combination_is_a_record_in_order(options):
    many = replace(options, tp=(2,), batch_size=(1, 2), latency_us=(3.0, 1.0), prompt_len=(3,))
    result, folder = bench(many, Quiet())
    assert [(r.workload.batch_size, r.link.latency) for r in result.speed] == [
        (1, 3e-6),
        (1, 1e-6),
        (2, 3e-6),
        (2, 1e-6),
    ]
    assert {r.workload.output_len for r in result.speed} == {2}
    assert {(r.link.latency_ratio, r.link.mode) for r in result.speed} == {(None, "serial")}
    lines = lines_of(folder)
    assert [line["workload"]["batch_size"] for line in lines] == [1, 1, 2, 2]
    assert [line["round"]["latency"] for line in lines] == [3e-6, 1e-6, 3e-6, 1e-6]
    # Two rows give two tokens in the time of one.
    (last,) = trials(lines[-1:], "ladder")
    ladder = next(row for row in result.speed[-1].rows if row.arm == "ladder")
    assert ladder.tokens_per_s.value == pytest.approx(2 * 2 / e2e(last))


def test_one_rank_has_no_link_and_nothing_to_hide(options):
    result, folder = bench(options, Quiet())
    (record,) = result.speed
    link = record.link
    assert (record.tp_size, link.name) == (1, "none")
    assert (link.mode, link.latency, link.latency_ratio, link.bandwidth) == (None,) * 4
    assert [row.arm for row in record.rows] == ["standard", "ladder", "no-comm", "standard again"]
    for row in record.rows:
        for phase in (row.prefill, row.decode, row.total):
            assert (phase.comm, phase.bound, phase.efficiency) == (None, None, None)
    (line,) = lines_of(folder)
    assert (line["link"], line["round"]["latency"]) == (None, None)
    assert (line["tp_size"], line["backend"]) == (1, "none")
    report = (folder / "report.md").read_text()
    assert "speed, random weights, tp_size 1: batch_size 1, prompt 5, output 2" in report
    assert "No messages; " in report
    assert "irtual link" not in report


def test_settings_that_differ_in_the_link_alone_are_one_on_one_rank(options):
    counted, terminal = [], Quiet()
    rounds = terminal.rounds
    terminal.rounds = lambda total: counted.append(total) or rounds(total)
    many = replace(options, latency_us=(1.0, 2.0, 3.0), output_len=(2, 3))
    result, folder = bench(many, terminal)
    assert [record.workload.output_len for record in result.speed] == [2, 3]
    assert counted == [2]
    assert len(lines_of(folder)) == 2
    assert terminal.lines[0].endswith(" float32 on cpu: 2 settings, 1 rounds.")


@pytest.mark.parametrize(
    ("own", "asked", "arms"),
    [
        ({"ladder_layers": 2}, (), {"hybrid ladder": (2, 3)}),
        ({"ladder_layers": [0, 1, 2, 3]}, (), {"ladder": (0, 1, 2, 3)}),
        ({}, (), {"ladder": (0, 1, 2, 3), "parallel": (), "desync-2x": ()}),
        ({"ladder_layers": 2}, ("ladder-1",), {"ladder-1": (3,)}),
        # Both are there whatever is asked for.
        ({}, ("standard", "no-comm", "parallel"), {"parallel": ()}),
    ],
)
def test_a_models_own_residual_is_timed_unless_others_are_asked_for(
    options, tmp_path, own, asked, arms
):
    folder = shape_in(tmp_path / "own", **own)
    result, _ = bench(replace(options, model=str(folder), residual=asked), Quiet())
    (record,) = result.speed
    found = {row.arm: row.ladder_layers for row in record.rows if row.role == "candidate"}
    assert found == arms
    assert record.rows[0].residual == "standard"


def test_so_many_layers_as_asked_for(options):
    terminal = Quiet()
    part = replace(options, layers=2, residual=("ladder", "ladder-2"))
    result, folder = bench(part, terminal)
    (record,) = result.speed
    assert (record.num_hidden_layers, record.all_hidden_layers) == (2, 4)
    layers = {row.arm: row.ladder_layers for row in record.rows}
    assert (layers["ladder"], layers["ladder-2"]) == ((0, 1), (1,))
    assert ", random weights, on 2 of 4 layers, tp_size 1," in terminal.lines[0]
    report = (folder / "report.md").read_text()
    assert "speed, random weights, 2 of 4 layers, tp_size 1: batch_size 1, prompt 5" in report
    assert "; 2 of 4 layers, random weights; " in report


def leave(monkeypatch, folder, layers, **changes):
    """Let as much memory be free as so many layers take."""
    config = config_from_hf(json.loads((folder / "config.json").read_text()))
    config = with_layers(replace(config, **changes), layers)
    work = Workload(batch_size=1, prompt_len=5, output_len=2)
    free = int(needed_bytes(config, work, 1, 4) / 0.85) + 1
    monkeypatch.setattr(ladder_eval.timing, "free_bytes", lambda *_: free)


def test_what_does_not_fit_in_memory_is_left_out_and_told(options, tmp_path, monkeypatch):
    leave(monkeypatch, tmp_path / "small", 3)
    terminal = Quiet()
    result, folder = bench(options, terminal)
    (record,) = result.speed
    assert (record.num_hidden_layers, record.all_hidden_layers) == (3, 4)
    assert record.rows[1].ladder_layers == (0, 1, 2)
    assert terminal.lines[0] == (
        "Timing standard and ladder, random weights, on 3 of 4 layers, tp_size 1, float32 on cpu: "
        "batch_size 1, prompt 5, output 2, 1 rounds."
    )
    report = (folder / "report.md").read_text()
    assert "speed, random weights, 3 of 4 layers, tp_size 1: batch_size 1, prompt 5" in report
    assert "; 3 of 4 layers, random weights; " in report
    # Of the whole: 4 heads of 16 channels are 3 here, and 101 tokens.
    layer = 4 * 64 * 48 + 3 * 64 * 96 + 2 * 64
    assert record.weight_bytes_per_rank == (4 * (3 * layer + 101 * 64 + 64),)


def test_a_vocabulary_that_does_not_fit_is_cut_and_told(options, tmp_path, monkeypatch):
    folder = shape_in(tmp_path / "wordy", vocab_size=9000)
    leave(monkeypatch, folder, 2, vocab_size=4096)
    terminal = Quiet()
    result, run_folder = bench(replace(options, model=str(folder)), terminal)
    (record,) = result.speed
    assert (record.num_hidden_layers, record.all_hidden_layers) == (2, 4)
    assert (record.vocab_size, record.all_vocab_size) == (4096, 9000)
    report = (run_folder / "report.md").read_text()
    assert "; 2 of 4 layers and a vocabulary of 4096 of 9000, random weights; " in report
    assert (
        ", random weights, on 2 of 4 layers, with a vocabulary of 4096 of 9000, tp_size 1, "
    ) in terminal.lines[0]
    (line,) = lines_of(run_folder)
    assert (line["num_hidden_layers"], line["vocab_size"]) == (2, 4096)


def test_a_hybrid_cut_to_few_layers_keeps_one_ladder_layer(options, tmp_path, monkeypatch):
    # Of 8 layers 2 and 6 are kept; that neither is the last leaves the last of both to be it.
    folder = shape_in(tmp_path / "deep", num_hidden_layers=8)
    leave(monkeypatch, folder, 2, vocab_size=101)
    result, _ = bench(replace(options, model=str(folder), residual=("ladder-1",)), Quiet())
    (record,) = result.speed
    (row,) = [row for row in record.rows if row.role == "candidate"]
    assert (record.num_hidden_layers, record.all_hidden_layers) == (2, 8)
    assert (row.residual, row.ladder_layers, row.comm_name) == (
        "hybrid ladder",
        (1,),
        "hidden_comm",
    )


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tp": (4,)}, "tp_size=4 exceeds num_attention_heads=3; this model works with 1, 2, 3."),
        (  # The sizes before it could be timed, but nothing is begun that can't be ended.
            {"tp": (1, 2, 4)},
            "tp_size=4 exceeds num_attention_heads=3; this model works with 1, 2, 3.",
        ),
        ({"residual": ("ladder-5",)}, "ladder_layers=5 must be between 0 and 4 layers."),
        ({"link_mode": "parallel"}, "Unknown link mode 'parallel'; known are serial, pipelined."),
        ({"device": "tpu"}, "Unknown device 'tpu'; give cpu, cuda or cuda:N."),
    ],
)
def test_what_can_not_be_timed_is_one_sentence(options, changes, sentence):
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, **changes), Quiet())
    assert str(caught.value) == sentence
    assert not options.output_dir.exists()


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("name", ["desync", "ladder-0", "ladder-x", "ladder-", ""])
def test_an_unknown_residual_is_one_sentence(options, name):
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, residual=("ladder", name)), Quiet())
    assert str(caught.value) == (
        f"Unknown residual {name!r}; known are ladder, ladder-N for the last N layers, and "
        "standard, parallel, desync-2x, desync-4x, no-comm."
    )


@pytest.mark.usefixtures("sealed")
def test_a_shape_that_ranks_can_not_divide_is_one_sentence(options, tmp_path):
    folder = shape_in(tmp_path / "odd", intermediate_size=95)
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, model=str(folder), tp=(2,)), Quiet())
    assert str(caught.value) == (
        "tp_size=2 does not divide intermediate_size=95; this model works with 1."
    )


@pytest.mark.usefixtures("sealed")
def test_more_layers_than_there_are_is_one_sentence(options):
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, layers=5), Quiet())
    assert str(caught.value) == f"{options.model} has 4 layers; give fewer."


@pytest.mark.usefixtures("sealed")
def test_a_folder_without_a_shape_is_one_sentence(options, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, model=str(tmp_path / "empty")), Quiet())
    assert str(caught.value) == (
        f"{tmp_path / 'empty'} has no config.json; give a folder with one, or a name."
    )


@pytest.mark.usefixtures("sealed")
def test_too_few_cores_are_told_unless_the_link_is_real(options, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(
        ladder_eval.timing, "why_unavailable", lambda size, threads: f"no {size} x {threads} cores"
    )
    with pytest.raises(LadderEvalError) as caught:
        bench(replace(options, tp=(2,)), Quiet())
    assert str(caught.value) == (
        "Not over a virtual link: no 2 x 3 cores; give --link real for another."
    )
    assert not options.output_dir.exists()
    with pytest.raises(pytest.fail.Exception, match="a group was started"):
        bench(replace(options, tp=(2,), link="real"), Quiet())


@pytest.mark.usefixtures("sealed")
def test_two_layers_that_do_not_fit_are_one_sentence(options, monkeypatch):
    monkeypatch.setattr(ladder_eval.timing, "free_bytes", lambda *_: 2**29)
    with pytest.raises(LadderEvalError) as caught:
        bench(options, Quiet())
    # 700 MiB for the rank itself, by 0.85; half a GiB is free.
    assert str(caught.value) == (
        "Two layers of this model take 1 GiB to be timed, and 0 GiB are free; use a larger "
        "machine, or --dtype bfloat16."
    )


def test_a_finished_setting_is_kept_when_the_next_one_fails(options, monkeypatch):
    time = LoadedSubject.time

    def failing(self, workload, *arguments, **named):
        if workload.output_len == 3:
            raise KeyboardInterrupt
        return time(self, workload, *arguments, **named)

    monkeypatch.setattr(LoadedSubject, "time", failing)
    with pytest.raises(KeyboardInterrupt):
        bench(replace(options, output_len=(2, 3)), Quiet())
    (folder,) = options.output_dir.iterdir()
    (record,) = read_result(folder).speed
    assert record.workload == Workload(batch_size=1, prompt_len=5, output_len=2)
    assert len(lines_of(folder)) == 1
    assert "output 2" in (folder / "report.md").read_text()


def test_a_round_is_kept_when_the_next_one_fails(options, monkeypatch):
    append = ladder_eval.timing.RunFolder.append

    def failing(self, name, record):
        append(self, name, record)
        if record["round"]["number"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ladder_eval.timing.RunFolder, "append", failing)
    with pytest.raises(KeyboardInterrupt):
        bench(replace(options, rounds=3), Quiet())
    (folder,) = options.output_dir.iterdir()
    assert [line["round"]["number"] for line in lines_of(folder)] == [1, 2]
    assert not (folder / "results.json").exists()


def test_rounds_that_time_did_not_allow_are_a_warning(options):
    # A thousandth of a second is over before the warm-up is.
    result, folder = bench(replace(options, rounds=5, max_minutes=1e-3 / 60), Quiet())
    (record,) = result.speed
    assert (record.rounds, record.rounds_asked) == (1, 5)
    warning = "small: 1 of 5 rounds fitted in the time limit."
    assert result.warnings == (warning,)
    report = (folder / "report.md").read_text()
    assert warning in report
    assert "1 of 5 rounds after 1 warm-up." in report


@pytest.mark.usefixtures("sealed")
def test_two_ranks_are_the_default(options, monkeypatch):
    asked = []
    monkeypatch.setattr(
        ladder_eval.timing, "why_unavailable", lambda size, _: asked.append(size) or "none"
    )
    with pytest.raises(LadderEvalError, match=r"^Not over a virtual link: none;"):
        bench(replace(options, tp=()), Quiet())
    assert asked == [2]


EMULATED_SHAPE = {
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "num_hidden_layers": 6,
    "tie_word_embeddings": False,
}
# Of 8 ranks one: of 12 query heads in 4 groups the last of each pair of ranks has one, the first
# two; all have a key-value head, 12 of 96 channels, and 13 or 12 of 101 tokens.
SHARE = 4 * (2 * 64 * (2 * 16 + 16) + 3 * 64 * 12 + 2 * 64)


def emulated(options, tmp_path, **changes):
    """A bench of one of eight ranks on four of six layers."""
    folder = shape_in(tmp_path / "twelve heads", **EMULATED_SHAPE)
    terminal = Quiet()
    asked = {"model": str(folder), "tp": (8,), "emulate": True, "layers": 4, "rounds": 3}
    asked |= {"residual": ("ladder", "ladder-1"), "output_len": (3,)}
    result, place = bench(replace(options, **(asked | changes)), terminal)
    return result, place, lines_of(place), terminal.lines


@pytest.mark.usefixtures("sealed")
def test_one_of_eight_ranks_is_emulated_by_one_process(options, tmp_path):
    result, folder, lines, told = emulated(options, tmp_path)
    assert told[0].startswith(
        "Emulating standard and ladder and ladder-1, random weights, on 4 of 6 layers, "
        "rank 0 of 8, float32 on cpu: "
    )
    (record,) = result.speed
    assert read_result(folder) == result
    assert (record.kind, record.tp_size) == ("emulated", 8)
    assert (record.num_hidden_layers, record.all_hidden_layers) == (4, 6)
    assert (record.emulation.rank, record.emulation.skew) == (0, None)
    assert record.emulation.extrapolated
    assert record.emulation.lateness == statistics.median(
        line["round"]["lateness"] for line in lines
    )
    assert record.emulation.lateness > 0
    assert (record.link.name, record.link.mode) == ("emulated link", "serial")
    assert record.heads_per_rank == (2, 1, 2, 1, 2, 1, 2, 1)
    # Its share of four layers, of embedding and head, and the last norm.
    assert record.weight_bytes_per_rank == (4 * SHARE + 4 * (2 * 13 * 64 + 64),)
    assert len(record.attention_seconds) == len(record.mlp_seconds) == 1
    assert [row.arm for row in record.rows] == [
        *("standard", "ladder", "ladder-1", "no-comm", "standard again")
    ]
    # What stands for the whole model is named as it.
    assert record.rows[1].ladder_layers == (0, 1, 2, 3, 4, 5)
    assert record.rows[2].ladder_layers == (5,)
    for line in lines:
        assert (line["kind"], line["tp_size"], line["backend"]) == ("emulated", 8, "emulated link")


@pytest.mark.usefixtures("sealed")
def test_emulated_times_are_extrapolated_from_the_rounds(options, tmp_path):
    result, _, lines, _ = emulated(options, tmp_path)
    (record,) = result.speed

    for name in ("standard", "ladder", "no-comm", "standard again"):
        row = next(row for row in record.rows if row.arm == name)
        own = trials(lines, name)
        # Two layers more, each as those after the first.
        prefill = [ttft(t) + 2 * statistics.fmean(t["prefill_layers"][1:]) for t in own]
        decode = [tpot(t) + 2 * statistics.fmean(t["decode_layers"][1:]) for t in own]
        assert row.prefill.seconds.value == pytest.approx(statistics.median(prefill))
        assert row.decode.seconds.value == pytest.approx(statistics.median(decode))
        for trial in own:
            assert 0 < sum(trial["prefill_layers"]) < ttft(trial)
            assert 0 < sum(trial["decode_layers"]) < tpot(trial)
            assert len(trial["prefill_layers"]) == len(trial["decode_layers"]) == 4


@pytest.mark.usefixtures("sealed")
def test_emulated_bandwidth_counts_all_layers_of_one_rank(options, tmp_path):
    result, _, _, _ = emulated(options, tmp_path)
    (record,) = result.speed
    bound = next(row for row in record.rows if row.role == "bound")
    # Head and norm, and six layers with keys and values of one head for 5 + 3 / 2 tokens.
    read = 4 * (13 * 64 + 64) + 6 * (SHARE + 4 * 2 * 16 * 6.5)
    found = record.read_bytes_per_second
    assert found == pytest.approx(read / bound.decode.seconds.value)


@pytest.mark.usefixtures("sealed")
def test_an_emulated_report_says_so_wherever_it_says_a_time(options, tmp_path):
    _, folder, _, _ = emulated(options, tmp_path, skew_us=7.0)
    report = (folder / "report.md").read_text()
    assert (
        "emulated speed, random weights, extrapolated from 4 of 6 layers, tp_size 8 over the "
        "emulated link (serial, 0.5 × block time, 100 GB/s)"
    ) in report
    assert "Emulated and with random weights, ladder decodes " in report
    assert "Emulated: rank 0 of 8 computed its share on one device" in report
    assert "normal with a deviation of 7.00 µs, as given" in report
    assert "Times of all 6 layers are extrapolated from 4." in report
    assert "irtual link" not in report


@pytest.mark.usefixtures("sealed")
def test_all_layers_need_no_extrapolation(options, tmp_path):
    result, _, lines, _ = emulated(options, tmp_path, layers=None)
    (record,) = result.speed
    assert not record.emulation.extrapolated
    arms = ["standard", "ladder", "ladder-1", "no-comm", "standard again"]
    assert [trial["arm"] for trial in lines[0]["round"]["trials"]] == arms


@pytest.mark.usefixtures("sealed")
def test_what_does_not_fit_is_extrapolated(options, tmp_path, monkeypatch):
    # Room for three layers of all ranks, of which desync-4x can repeat two.
    config = config_from_hf(SHAPE | EMULATED_SHAPE | {"model_type": "llama"})
    load = Workload(batch_size=1, prompt_len=5, output_len=3)
    needed = needed_bytes(with_layers(config, 3), load, 8, 4) + 10_000
    monkeypatch.setattr(ladder_eval.timing, "free_bytes", lambda *_: needed / 0.85 / 8)
    for residual, layers in (("ladder", 3), ("desync-4x", 2)):
        result, *_ = emulated(options, tmp_path / residual, layers=None, residual=(residual,))
        (record,) = result.speed
        assert (record.num_hidden_layers, record.all_hidden_layers) == (layers, 6)
        assert record.emulation.extrapolated


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"layers": 3},
            "These residuals are extrapolated from 4 layers or more, not from 3.",
        ),
        (
            {"layers": 3, "residual": ("desync-4x",)},
            "These residuals are extrapolated from a multiple of 2 layers; give --layers 2.",
        ),
        (
            {"tp": (13,)},
            "tp_size=13 exceeds num_attention_heads=12; this model works with "
            "1, 2, 3, 4, 6, 8, 12.",
        ),
    ],
)
def test_what_can_not_be_emulated_is_one_sentence(options, tmp_path, changes, sentence):
    with pytest.raises(LadderEvalError) as caught:
        emulated(options, tmp_path, **changes)
    assert str(caught.value) == sentence
    assert not options.output_dir.exists()


@pytest.mark.usefixtures("sealed")
def test_torchrun_can_not_emulate(options, tmp_path, monkeypatch):
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_PORT": "1"}
    for name, value in (place | {"MASTER_ADDR": "127.0.0.1"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LadderEvalError) as caught:
        emulated(options, tmp_path)
    assert str(caught.value) == (
        "One rank is emulated by one process; start the command without torchrun."
    )
