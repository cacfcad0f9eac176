"""Loads and replays of a driver whose times are made up."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.timing import Timing
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.recorded_work import PrefixPiece, RecordedBatch, ScoredRow, WrittenText
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed import load as load_module
from ladder_eval.speed import measure as measure_module
from ladder_eval.speed import replay as replay_module
from ladder_eval.speed.load import Load, time_load
from ladder_eval.speed.measure import Link
from ladder_eval.speed.replay import Replay, draw_batches, time_replay
from ladder_eval.speed.serving import Asked
from ladder_eval.speed.subject import LoadedSubject, Subject

STANDARD = ModelConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=50,
    max_position_embeddings=8,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
ARMS = {"standard": STANDARD, "ladder": replace(STANDARD, ladder_layers=(0, 1))}
TIMED = ["standard", "ladder", "no-comm", "standard again"]
# Seconds of one forward of each arm.
STEP = {"standard": 4.0, "ladder": 2.0, "no-comm": 1.0, "standard again": 4.0}
LINK = Link(mode="serial", bandwidth=1e9, ratio=0.5)


class Driver:
    """Two ranks; a forward takes its arm's step, a look at a block 6 seconds."""

    def __init__(self):
        self.now = 0.0
        self.calls, self.looks, self.capacity = [], [], None
        self.team = SimpleNamespace(
            tp=TensorParallel(0, 2), backend="gloo", device=torch.device("cpu")
        )

    def perf_counter(self):
        return self.now

    def arrange(self, arms, carrier, capacity):
        assert list(arms) == TIMED
        self.capacity = capacity

    def time(self, arm, workload, wire, *, cached=0, watched=False):
        if watched:
            self.looks.append((workload, cached))
        blocks = [[(6.0, 6.0), (6.0, 6.0)]] * workload.output_len
        return Timing(seconds=(1.0,) * workload.output_len, blocks=(blocks, blocks))

    def write(self, arm, prompt_lens, output_lens, wire):
        self.calls.append((arm, tuple(prompt_lens), tuple(output_lens), wire))
        start, steps = self.now, max(output_lens)
        self.now += steps * STEP[arm]
        return tuple(start + (step + 1) * STEP[arm] for step in range(steps))

    def score_as(self, arm, batch, wire):
        self.calls.append((arm, batch, wire))
        self.now += STEP[arm]
        return self.now

    def peak_device_memory(self):
        return [7, 8]


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()

    class Clock:
        def now(self):
            return driver.now

        def wait_until(self, moment):
            driver.now = max(driver.now, moment)

    monkeypatch.setattr(load_module, "WallClock", Clock)
    monkeypatch.setattr(replay_module, "perf_counter", driver.perf_counter)
    monkeypatch.setattr(measure_module, "perf_counter", driver.perf_counter)
    return driver


def loaded(driver):
    subject = Subject(name="small", arms=ARMS, baseline="standard", whole=STANDARD)
    return LoadedSubject(
        driver=driver, subject=subject, dtype=torch.float32, weight_bytes=[100, 90]
    )


def asked(arrival, prompt_len=5, output_len=3):
    return Asked(arrival=arrival, prompt_len=prompt_len, output_len=output_len)


LOAD = Load(
    requests=(asked(1.0), asked(2.0, prompt_len=7), asked(3.0, output_len=1), asked(100.0)),
    rate=0.5,
    seed=9,
    batch_size=2,
    lengths="as given",
)


def time_it(driver, work, rounds=2, deadline=float("inf")):
    made, subject = [], loaded(driver)
    what = subject.measurement(work.largest, LINK, rounds, deadline)
    timed = time_load if isinstance(work, Load) else time_replay
    return timed(subject, what, work, made.append), made


# Short batches of one and of two requests with each arm.
WARM_UP = 2 * len(TIMED)


def test_every_arm_serves_the_same_arrivals_and_rounds_go_back_and_forth(driver):
    record, rounds = time_it(driver, LOAD)
    assert [[trial.arm for trial in each.trials] for each in rounds] == [TIMED, TIMED[::-1]]
    for each in rounds:
        for trial in each.trials:
            assert [s.arrival for s in trial.served] == [1, 2, 3, 100]
            assert [s.prompt_len for s in trial.served] == [5, 7, 5, 5]
    # standard: alone from 1, done at 13; two from 13, with first tokens at 17; then from 100.
    standard, ladder, *_ = rounds[0].trials
    assert [round(s.first, 6) for s in standard.served] == [5, 17, 17, 104]
    assert [round(s.last, 6) for s in standard.served] == [13, 25, 17, 112]
    # ladder: from 1 to 7, from 7 with first tokens at 9.
    assert [round(s.ttft, 6) for s in ladder.served] == [2, 7, 6, 2]
    row = record.rows[1]
    assert (row.arm, row.ttft.p50.value) == ("ladder", pytest.approx(2))
    assert row.ttft.speedup_p99.value == pytest.approx(15 / 7)
    assert row.tpot.speedup_p50.value == pytest.approx(2)
    assert (row.tpot.requests, row.ttft.requests) == (3, 4)
    assert row.capacity == pytest.approx(2 / 6)


def test_the_latency_follows_a_full_batch_of_median_lengths(driver):
    record, rounds = time_it(driver, LOAD)
    # Half of the mean block time; decoding after a cached prompt of the median length.
    assert [each.latency for each in rounds] == [3, 3]
    assert driver.looks == [(Workload(batch_size=2, prompt_len=1, output_len=5), 5)] * 2
    wires = {call[-1] for call in driver.calls[WARM_UP:]}
    assert wires == {Wire(latency=3.0, bandwidth=1e9, mode="serial")}
    # Messages of two prompts of seven tokens, eight wide, in four bytes.
    assert driver.capacity == 2 * 7 * 8 * 4
    link = record.conditions.link
    assert (link.name, link.latency, link.latency_ratio) == ("virtual link", 3, 0.5)


def test_batches_of_every_size_are_computed_before_the_first_round(driver):
    time_it(driver, LOAD)
    free = Wire(latency=0.0, bandwidth=1e9, mode="serial")
    sizes = [((5,), (2,)), ((5, 7), (2, 2))]
    expected = [(arm, *size, free) for arm in TIMED for size in sizes]
    assert driver.calls[:WARM_UP] == expected


def test_a_record_says_what_it_holds_for(driver):
    record, _ = time_it(driver, LOAD, rounds=3)
    made = record.conditions
    assert (made.model, made.weights, made.kind) == ("small", "random", "measured")
    assert (made.tp_size, made.heads_per_rank, made.kv_heads_per_rank) == (2, (1, 1), (1, 1))
    assert (made.weight_bytes_per_rank, made.peak_memory_bytes) == ((100, 90), (7, 8))
    assert (made.rounds, made.rounds_asked, made.warm_up) == (3, 3, 1)
    assert (record.rate, record.seed, record.batch_size, record.requests) == (0.5, 9, 2, 4)
    assert (record.prompt_lens.shortest, record.prompt_lens.longest) == (5, 7)
    assert record.prompt_lens.mean == 5.5
    assert "static batches" in record.policy


def test_a_round_that_would_end_too_late_is_not_begun(driver):
    # A round of four arms takes over 400 seconds here.
    record, rounds = time_it(driver, LOAD, rounds=5, deadline=1000.0)
    assert len(rounds) == 2
    assert (record.conditions.rounds, record.conditions.rounds_asked) == (2, 5)


SCORED = RecordedBatch(
    scored=(ScoredRow(8, 3, 4, 2), ScoredRow(5, 2, 2, 1)), prefix=(PrefixPiece("header", 3),)
)
WRITTEN = RecordedBatch(written=(WrittenText(9, 5), WrittenText(3, 2)))
REPLAY = Replay(
    run_id="run",
    suite="quick",
    requests_of="tiny",
    all_requests=6,
    seed=0,
    batches=(SCORED, WRITTEN),
)


def test_a_replay_has_the_batches_of_the_run(driver):
    record, rounds = time_it(driver, REPLAY)
    assert [list(each.seconds) for each in rounds] == [TIMED, TIMED[::-1]]
    # One forward scores; the longest of the texts takes five.
    assert rounds[0].seconds["standard"] == (4, 20)
    assert rounds[1].seconds["ladder"] == (2, 10)
    # The baseline computes them once before the first round.
    assert [call[0] for call in driver.calls[:4]] == ["standard"] * 4
    (_, batch, _), (_, prompts, outputs, _) = driver.calls[2:4]
    assert [len(piece) for piece in batch.prefix] == [3]
    assert [len(row.ids) for row in batch.rows] == [8, 5]
    assert [[target.column for target in row.targets] for row in batch.rows] == [
        [5, 5, 6, 7],
        [3, 4],
    ]
    assert [row.positions[0] for row in batch.rows] == [3, 3]
    assert max(max(row.ids) for row in batch.rows) < 50
    assert (prompts, outputs) == ((9, 3), (5, 2))
    assert (record.read_tokens, record.written_tokens) == (3 + 13 + 12, 7)
    assert (record.requests, record.scored, record.batches) == (5, 3, 2)
    assert (record.run_id, record.suite, record.requests_of) == ("run", "quick", "tiny")
    standard, ladder, *_ = record.rows
    assert (standard.seconds.value, ladder.seconds.value) == (24, 12)
    assert standard.tokens_per_s.value == pytest.approx(35 / 24)
    assert (standard.speedup, ladder.speedup.value) == (None, 2)


def test_equal_prefixes_of_a_replay_are_equal_again_and_others_differ(driver):
    header, other = PrefixPiece("header", 5), PrefixPiece("other", 5)
    row = (ScoredRow(2, 1, 1, 1),)
    batches = [RecordedBatch(scored=row, prefix=(p,)) for p in (header, header, other)]
    record, _ = time_it(driver, replace(REPLAY, batches=tuple(batches)), rounds=1)
    one, same, another = (call[1].prefix for call in driver.calls[:3])
    assert one == same != another
    assert record.read_tokens == 3 * 2 + 2 * 5


def test_the_largest_message_may_be_that_of_the_targets(driver):
    many = RecordedBatch(scored=(ScoredRow(1, 1, 9, 9),))
    time_it(driver, replace(REPLAY, batches=(many,)), rounds=1)
    assert driver.capacity == 9 * 16  # and not 1 * 8 * 4


def test_a_replay_takes_its_latency_from_the_median_batch(driver):
    small, large = (RecordedBatch(scored=(ScoredRow(size, 1, 1, 1),)) for size in (3, 40))
    work = replace(REPLAY, batches=(large, SCORED, small))
    time_it(driver, work, rounds=1)
    assert driver.looks == [(Workload(batch_size=1, prompt_len=13, output_len=1), 0)]
    assert work.largest == Workload(batch_size=1, prompt_len=40, output_len=1)


def test_whole_batches_are_drawn_until_there_are_enough_requests():
    batches = [RecordedBatch(scored=(ScoredRow(size, 1, 2, 2),)) for size in range(1, 21)]
    assert draw_batches(batches, None, 0) == tuple(batches)
    assert draw_batches(batches, 1000, 0) == tuple(batches)
    assert sum(batch.requests for batch in draw_batches(batches, 8, 0)) == 8
    some = draw_batches(batches, 7, 0)
    assert sum(batch.requests for batch in some) == 8
    sizes = [batch.scored[0].tokens for batch in some]
    assert sizes == sorted(sizes)  # as the run has computed them
    assert some == draw_batches(batches, 7, 0)
    assert len({draw_batches(batches, 7, seed) for seed in range(5)}) > 1
