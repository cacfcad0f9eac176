"""Whole loads and replays of tiny shapes: rounds on disk, and records computed again from them."""

import json
import math
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
from running import Quiet

from ladder_eval.bench import bench
from ladder_eval.bench_options import BenchOptions
from ladder_eval.distributed.virtual_link import why_unavailable
from ladder_eval.errors import LadderEvalError
from ladder_eval.execution import Execution
from ladder_eval.options import RunOptions
from ladder_eval.results.store import read_result
from ladder_eval.run import run
from ladder_eval.speed.serving import poisson_arrivals

TIMED = ["standard", "ladder", "no-comm", "standard again"]
RATE, REQUESTS = 400.0, 12

two_ranks = pytest.mark.skipif(why_unavailable(2) is not None, reason=str(why_unavailable(2)))


@pytest.fixture(scope="module", autouse=True)
def not_under_torchrun():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        yield


@pytest.fixture(scope="module")
def scored(tiny_checkpoint, tiny_data, tmp_path_factory):
    """An accuracy run: its result and its folder."""
    options = RunOptions(
        model=(str(tiny_checkpoint),),
        no_baseline=True,
        tasks=("arc_easy", "piqa"),
        limit=6,
        data_dir=tiny_data,
        output_dir=tmp_path_factory.mktemp("scored"),
        device="cpu",
        no_speed=True,
        batch_size=4,
    )
    return run(options, Quiet())


@pytest.fixture
def options(tiny_checkpoint, tmp_path):
    """A load of one rank and one round, which needs no other process."""
    return BenchOptions(
        model=str(tiny_checkpoint),
        residual=("ladder",),
        tp=(1,),
        arrivals=(RATE,),
        requests=REQUESTS,
        batch_size=(3,),
        prompt_len=(5,),
        output_len=(3,),
        rounds=1,
        seed=4,
        device="cpu",
        output_dir=tmp_path / "runs",
    )


def timed(options):
    """The result of a bench, the lines of its rounds, and what the user saw."""
    terminal = Quiet()
    result, folder = bench(options, terminal)
    assert read_result(folder) == result
    assert (folder / "report.md").exists()
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return result, lines, terminal.lines


def trial(line, arm):
    return next(t["served"] for t in line["round"]["trials"] if t["arm"] == arm)


def nearest_rank(values, percent):
    return sorted(values)[math.ceil(percent * len(values) / 100) - 1]


def assert_served_in_turn(served, batch_size):
    """First come first served, one batch after the other, of what has arrived by its start."""
    for each in served:
        assert each["arrival"] <= each["start"] < each["first"] <= each["last"]
    starts = sorted({each["start"] for each in served})
    assert [each["start"] for each in served] == sorted(each["start"] for each in served)
    batches = [[each for each in served if each["start"] == start] for start in starts]
    assert max(map(len, batches)) <= batch_size
    for before, after in pairwise(batches):
        assert max(each["last"] for each in before) <= after[0]["start"]
        # Nobody who has arrived is left out while there is room.
        assert len(before) == batch_size or after[0]["arrival"] > before[0]["start"]


def test_a_load_is_served_in_turn_and_its_record_follows_from_the_rounds(options):
    result, (line,), said = timed(options)
    (record,) = result.load
    assert (result.speed, result.replay, result.seed) == ((), (), 4)
    assert line["load"] == {"rate": 400, "seed": 4, "batch_size": 3, "lengths": "as given"}
    assert (line["kind"], line["weights"], line["tp_size"]) == ("measured", "random", 1)
    assert [t["arm"] for t in line["round"]["trials"]] == TIMED
    for row in record.rows:
        served = trial(line, row.arm)
        assert [each["arrival"] for each in served] == poisson_arrivals(RATE, REQUESTS, 4)
        assert_served_in_turn(served, 3)
        ttft = [each["first"] - each["arrival"] for each in served]
        tpot = [(each["last"] - each["first"]) / 2 for each in served]
        assert row.ttft.p50.value == nearest_rank(ttft, 50)
        assert row.ttft.p99.value == max(ttft)
        assert row.tpot.p50.value == nearest_rank(tpot, 50)
    base = record.rows[0].ttft.p50.value
    assert record.rows[1].ttft.speedup_p50.value == base / record.rows[1].ttft.p50.value
    assert said[0].startswith("Timing standard and ladder, random weights, tp_size 1, float32")
    assert "12 requests at 400 a second, 1 load" in said[0]


def test_rates_and_lengths_are_combined(options):
    both = replace(options, arrivals=(300.0, 600.0), output_len=(1, 2), requests=3)
    result, lines, _ = timed(both)
    found = [(record.rate, record.output_lens.longest) for record in result.load]
    assert found == [(300, 1), (300, 2), (600, 1), (600, 2)]
    assert [record.rows[0].tpot is None for record in result.load] == [True, False] * 2
    slow, fast = (trial(lines[i], "ladder") for i in (0, 2))
    assert [s["arrival"] for s in slow] == pytest.approx([2 * f["arrival"] for f in fast])


def test_more_than_can_be_served_is_warned_of(options):
    result, *_ = timed(replace(options, arrivals=(1e6,)))
    capacity = result.load[0].rows[0].capacity
    assert result.warnings[0] == (
        f"1e+06 requests a second are more than standard can serve, {capacity:.3g} in batches of "
        "3: its queue grows for as long as requests come, and its ttft says how many came."
    )
    assert len(result.warnings) == len(TIMED)
    assert result.load[0].rows[0].utilisation > 0.9


@two_ranks
def test_two_ranks_serve_over_the_virtual_link(options):
    result, lines, _ = timed(replace(options, tp=(2,), rounds=2, latency_us=(20.0,), requests=6))
    (record,) = result.load
    assert [[t["arm"] for t in line["round"]["trials"]] for line in lines] == [TIMED, TIMED[::-1]]
    link = record.conditions.link
    assert (link.name, link.latency) == ("virtual link", pytest.approx(20e-6))
    assert len(record.conditions.weight_bytes_per_rank) == record.conditions.tp_size == 2
    for line in lines:
        for arm in TIMED:
            assert_served_in_turn(trial(line, arm), 3)


def of_run(options, folder, **changes):
    kept = {"arrivals": (), "batch_size": (1,), "prompt_len": (128,), "output_len": (16,)}
    return replace(options, **{"replay": folder, "requests": None} | kept | changes)


@two_ranks
def test_a_replay_has_all_requests_of_the_run(options, scored):
    run_result, folder = scored
    result, lines, said = timed(of_run(options, folder, tp=(2,), rounds=3, latency_us=(20.0,)))
    (record,) = result.replay
    assert (record.run_id, record.suite) == (run_result.run_id, run_result.suite)
    # Six documents of ARC with four choices, and six of PIQA with two.
    assert record.requests == record.all_requests == record.scored == 6 * 4 + 6 * 2
    # A context is a row, and a row a document; four rows in a batch.
    assert record.batches == 3
    assert record.read_tokens == run_result.models[0].scored_tokens
    assert record.written_tokens == 0
    for row in record.rows:
        seconds = [sum(line["round"]["seconds"][row.arm]) for line in lines]
        assert row.seconds.value == statistics.median(seconds)
        assert row.tokens_per_s.value == pytest.approx(record.read_tokens / row.seconds.value)
    assert "36 requests of tiny in run" in said[0]
    assert all(len(line["round"]["seconds"]["ladder"]) == 3 for line in lines)


def test_a_part_of_a_run_is_whole_batches(options, scored):
    result, lines, _ = timed(of_run(options, scored[1], requests=2))
    (record,) = result.replay
    assert record.batches == len(lines[0]["round"]["seconds"]["ladder"]) == 1
    assert 2 <= record.requests < record.all_requests == 36


def test_a_load_may_have_the_lengths_of_a_run(options, scored):
    load = of_run(options, scored[1], arrivals=(RATE,), batch_size=(3,), requests=9)
    result, (line,), _ = timed(load)
    (record,) = result.load
    assert record.lengths == f"drawn from those of tiny in run {scored[0].run_id}"
    assert record.requests == 9
    assert record.prompt_lens.shortest < record.prompt_lens.longest
    assert record.output_lens.longest == 1
    assert record.rows[0].tpot is None
    lengths = [each["prompt_len"] for each in trial(line, "standard")]
    assert lengths == [each["prompt_len"] for each in trial(line, "ladder")]


@pytest.fixture
def sealed(monkeypatch):
    """No group may be started."""
    monkeypatch.setattr(Execution, "team", lambda _: pytest.fail("a group was started"))


@pytest.mark.usefixtures("sealed")
def test_what_can_not_be_replayed_is_one_sentence(options, scored, tmp_path):
    for folder, sentence in (
        (tmp_path / "nowhere", "nowhere is no folder; give --replay that of an accuracy run."),
        (without_lengths(scored[1], tmp_path / "old"), "the requests of tiny were; run the"),
    ):
        with pytest.raises(LadderEvalError) as caught:
            bench(of_run(options, folder), Quiet())
        assert sentence in str(caught.value)


def without_lengths(folder, place):
    place.mkdir()
    (place / "results.json").write_text((folder / "results.json").read_text())
    return place


def test_a_bench_can_not_be_replayed(options):
    _, folder = bench(replace(options, requests=1), Quiet())
    with pytest.raises(LadderEvalError) as caught:
        bench(of_run(options, folder), Quiet())
    assert str(caught.value) == (
        f"{folder} has scored nothing; give --replay the folder of an accuracy run."
    )
