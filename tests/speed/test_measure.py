"""Rounds of a driver whose times are made up."""

from dataclasses import replace

import pytest

from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.timing import Timing
from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed import measure as module
from ladder_eval.speed.measure import Link, Measurement, mean_block_seconds, measure

STANDARD = ModelConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=8,
    max_position_embeddings=8,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
ARMS = {
    "standard": STANDARD,
    "ladder": replace(STANDARD, ladder_layers=(0, 1)),
    "no-comm": replace(STANDARD, topology="no-comm"),
}
WORKLOAD = Workload(batch_size=2, prompt_len=6, output_len=3)
NEVER_BUSY = float("inf")
ABSOLUTE = Link(mode="serial", bandwidth=NEVER_BUSY, latency=2.0)
RELATIVE = Link(mode="pipelined", bandwidth=1e9, ratio=0.5)

# Of each rank the forwards, of each forward both layers' (attention, MLP): a prompt and two steps.
PROMPT, FIRST, SECOND = [(4, 7), (4, 7)], [(1, 1), (1, 1)], [(3, 3), (3, 3)]
BLOCKS = ([PROMPT, FIRST, SECOND], [PROMPT, FIRST, SECOND])
# A look at decoding before a round: the first forward is not of it. Rank 0's medians are 3 and 6,
# rank 1's 5 and 1; the slower of each 5 and 6, with a mean of 5.5.
LOOK = (
    [[(90, 90), (90, 90)], [(2, 6), (4, 5)], [(3, 7), (99, 6)], [(3, 6), (1, 6)]],
    [[(90, 90), (90, 90)], [(5, 1), (5, 1)], [(5, 1), (5, 1)], [(5, 1), (5, 1)]],
)


class Driver:
    """Notes what it is asked, and lets time pass on a clock of its own."""

    def __init__(self, seconds=1.0, look=LOOK, blocks=BLOCKS):
        self.now = 0.0
        self.arranged, self.calls, self.watched, self.copies = [], [], [], 0
        self._seconds, self._look, self._blocks = seconds, look, blocks

    def perf_counter(self):
        return self.now

    def arrange(self, arms, carrier, capacity):
        assert not self.calls
        self.arranged.append((list(arms), carrier, capacity))

    def copied_bytes_per_second(self):
        self.copies += 1
        return 1000.0 * self.copies

    def matmul_flops_per_second(self):
        return 1e6 * self.copies

    def time(self, arm, workload, wire, *, cached=0, watched=False):
        # Only without communication is a block's time its computing alone; a warm-up isn't kept.
        assert arm == "no-comm" or not watched
        self.calls.append((arm, workload, wire, cached))
        self.watched.append(watched)
        seconds = self._seconds(len(self.calls)) if callable(self._seconds) else self._seconds
        self.now += seconds
        blocks = ()
        if watched:
            blocks = self._look if cached else self._blocks
        # Tokens after 5, 7 and 10 seconds.
        moments = (5.0, 7.0, 10.0)[: workload.output_len]
        return Timing(seconds=moments, blocks=blocks, driver_seconds=0.25)

    def names(self):
        return [arm for arm, *_ in self.calls]


@pytest.fixture
def run(monkeypatch):
    def run(driver, message_bytes=1200, **changes):
        monkeypatch.setattr(module, "perf_counter", driver.perf_counter)
        what = Measurement(
            **{
                "arms": ARMS,
                "baseline": "standard",
                "bound": "no-comm",
                "workload": WORKLOAD,
                "link": ABSOLUTE,
                "rounds": 3,
            }
            | changes
        )
        return list(measure(driver, what, message_bytes))

    return run


def by_arm(found):
    return {trial.arm: trial for trial in found.trials}


def test_every_second_round_goes_backwards(run):
    driver = Driver()
    rounds = run(driver)
    forwards = ["standard", "ladder", "no-comm"]
    # Warm-up, then three rounds, each after a look.
    look = ["no-comm"]
    ways = (forwards, forwards[::-1], forwards)
    assert driver.names() == forwards + [name for way in ways for name in look + way]
    assert [[t.arm for t in each.trials] for each in rounds] == [forwards, forwards[::-1], forwards]
    assert [each.number for each in rounds] == [1, 2, 3]
    assert [each.copied_bytes_per_second for each in rounds] == [1000, 2000, 3000]
    assert [each.matmul_flops_per_second for each in rounds] == [1e6, 2e6, 3e6]


@pytest.mark.parametrize(("output_len", "short"), [(3, 2), (2, 2), (1, 1)])
def test_each_arm_warms_up_once_with_two_tokens_at_most(run, output_len, short):
    driver = Driver()
    workload = replace(WORKLOAD, output_len=output_len)
    run(driver, workload=workload, rounds=1)
    wire = Wire(latency=2.0, bandwidth=NEVER_BUSY, mode="serial")
    brief = replace(WORKLOAD, output_len=short)
    assert driver.calls[:3] == [(name, brief, wire, 0) for name in ARMS]
    assert driver.calls[4:] == [(name, workload, wire, 0) for name in ARMS]
    # The look and the bound of the round.
    assert driver.watched == [False] * 3 + [True] + [False, False, True]


@pytest.mark.parametrize(
    ("link", "all_reduce", "carrier"),
    [
        (ABSOLUTE, None, "virtual link"),
        (RELATIVE, None, "virtual link"),
        (None, None, None),
        (None, "one-shot", "one-shot"),
    ],
)
def test_arms_are_arranged_once_and_first(run, link, all_reduce, carrier):
    driver = Driver()
    run(driver, link=link, all_reduce=all_reduce)
    assert driver.arranged == [(list(ARMS), carrier, 1200)]


@pytest.mark.parametrize(("link", "latency"), [(ABSOLUTE, 2), (None, None)])
def test_the_times_of_a_look_change_nothing_but_a_ratio(run, link, latency):
    # The look is taken all the same: it brings back what the copy has driven out.
    driver = Driver()
    rounds = run(driver, link=link)
    steps = Workload(batch_size=2, prompt_len=1, output_len=5)
    wire = None if link is None else Wire(latency=2.0, bandwidth=NEVER_BUSY, mode="serial")
    looks = [call for call in driver.calls if call[3]]
    assert looks == [("no-comm", steps, wire, 6)] * 3
    assert [i for i, call in enumerate(driver.calls) if call[3]] == [3, 7, 11]
    assert {call[2] for call in driver.calls[4:7]} == {wire}
    assert [each.latency for each in rounds] == [latency] * 3


def test_a_ratio_follows_what_a_block_takes_in_decoding(run):
    driver = Driver()
    (found,) = run(driver, link=RELATIVE, rounds=1)
    none = Wire(latency=0.0, bandwidth=1e9, mode="pipelined")
    wire = Wire(latency=2.75, bandwidth=1e9, mode="pipelined")  # half of 5.5
    assert [call[2] for call in driver.calls[:3]] == [none] * 3
    # Decoding alone: one token is read, after as many as the prompt has.
    steps = Workload(batch_size=2, prompt_len=1, output_len=5)
    assert driver.calls[3] == ("no-comm", steps, none, 6)
    assert driver.calls[4:] == [(name, WORKLOAD, wire, 0) for name in ARMS]
    assert found.latency == 2.75


def test_each_round_looks_anew(run):
    driver = Driver()
    run(driver, link=RELATIVE)
    looks = [i for i, (*_, cached) in enumerate(driver.calls) if cached]
    assert looks == [3, 7, 11]


def test_with_one_token_a_ratio_follows_the_prompt(run):
    # Medians of the only forward: 4 and 7 on rank 0, 6 and 2 on rank 1: (6 + 7) / 2 * 0.5.
    blocks = ([PROMPT], [[(6, 2), (6, 2)]])
    driver = Driver(blocks=blocks)
    one = replace(WORKLOAD, output_len=1)
    (found,) = run(driver, link=RELATIVE, workload=one, rounds=1)
    none = Wire(latency=0.0, bandwidth=1e9, mode="pipelined")
    assert driver.calls[3] == ("no-comm", one, none, 0)
    assert found.latency == 3.25
    assert found.decode_blocks == ()
    assert found.prefill_blocks == ((4, 7), (6, 2))
    for trial in found.trials:
        assert (trial.ttft, trial.itl, trial.decode_bound) == (5, (), None)
        assert trial.prefill_bound is not None


def test_mean_block_seconds_by_hand():
    assert mean_block_seconds([(3, 6), (5, 1)]) == 5.5
    assert mean_block_seconds([(3, 6)]) == 4.5


def test_trials_and_blocks_say_what_the_driver_said(run):
    found = run(Driver(), rounds=1)[0]
    for trial in found.trials:
        assert (trial.ttft, trial.itl, trial.driver_seconds) == (5, (2, 3), 0.25)
    # Medians: over the prompt's layers, and over layers and both steps.
    assert found.prefill_blocks == ((4, 7), (4, 7))
    assert found.decode_blocks == ((2, 2), (2, 2))


def test_bounds_of_empty_messages_by_hand(run):
    # Latency 2. Standard waits for 4 messages: 30 for the prompt; a ladder whose blocks are all
    # longer hides all but the last: 24; blocks alone take 22.
    # Decoding: a step of blocks of 1 takes 12, 4 alone, and with a ladder, bound by a wire that
    # carries one message after the other, 1 + 4 * 2 = 9. One of blocks of 3: 20, 12, and 14.
    trials = by_arm(run(Driver(), rounds=1)[0])
    assert trials["ladder"].prefill_bound == pytest.approx((30 - 24) / (30 - 22))
    assert trials["ladder"].decode_bound == pytest.approx((12 + 20 - 9 - 14) / (12 + 20 - 4 - 12))
    assert (trials["standard"].prefill_bound, trials["standard"].decode_bound) == (0, 0)
    assert (trials["no-comm"].prefill_bound, trials["no-comm"].decode_bound) == (1, 1)


def test_bounds_count_the_bytes_of_a_prompt_and_of_a_token(run):
    # 1200 bytes take 12, with the latency 14, more than a block: standard 22 + 4 * 14, a ladder
    # 4 + 4 * 14. A token's 200 bytes take 2, with the latency 4, more than a block as well:
    # standard 4 + 16 and 12 + 16, a ladder 1 + 16 and 3 + 16.
    link = replace(ABSOLUTE, bandwidth=100.0)
    ladder = by_arm(run(Driver(), link=link, rounds=1)[0])["ladder"]
    assert ladder.prefill_bound == pytest.approx((78 - 60) / (78 - 22))
    assert ladder.decode_bound == pytest.approx((20 + 28 - 17 - 19) / (20 + 28 - 4 - 12))


def test_bounds_know_which_rank_is_slower(run):
    # Prompt, latency 2: rank 0 takes 4 and 7, rank 1 takes 6 and 1. Standard: 6+2+7+2 a layer, 34.
    # Alone: the slower of 2 * 11 and 2 * 7, 22. Ladder: ends 4, 11 and 6, 7; messages arrive at 8
    # and 13. Block 3: 11 to 15, and 8 to 14, its message at 17. Block 4: 15 to 22, and from 14
    # on: the last message at 24.
    slower = [[(6, 1), (6, 1)], FIRST, SECOND]
    ladder = by_arm(run(Driver(blocks=(BLOCKS[0], slower)), rounds=1)[0])["ladder"]
    assert ladder.prefill_bound == pytest.approx((34 - 24) / (34 - 22))


@pytest.mark.parametrize(("pairs", "other"), [(32, 20 - 14), (64, 0)])
def test_of_many_steps_64_stand_for_all(run, pairs, other):
    # Up to 64 steps all count; of 128, every second one, here those of blocks of 1.
    many = [PROMPT, *[FIRST, SECOND] * pairs]
    load = replace(WORKLOAD, output_len=2 * pairs + 1)
    ladder = by_arm(run(Driver(blocks=(many, many)), workload=load, rounds=1)[0])["ladder"]
    exposed = 8 if other == 0 else 8 + 20 - 12
    assert ladder.decode_bound == pytest.approx((12 - 9 + other) / exposed)


@pytest.mark.parametrize("link", [None, replace(ABSOLUTE, latency=0.0)])
def test_without_anything_to_hide_there_are_no_bounds(run, link):
    driver = Driver()
    (found,) = run(driver, link=link, rounds=1)
    assert found.latency == (None if link is None else 0)
    assert {(t.prefill_bound, t.decode_bound) for t in found.trials} == {(None, None)}
    if link is None:
        assert {wire for _, _, wire, _ in driver.calls} == {None}


@pytest.mark.parametrize(
    # Warm-up takes 3 seconds, a round with its look 4: they end at 7, 11, 15.
    ("deadline", "expected"),
    [(0, 1), (7, 1), (10.5, 1), (11, 2), (14.5, 2), (15, 3), (1000, 3)],
)
def test_no_round_but_the_first_would_end_after_the_deadline(run, deadline, expected):
    driver = Driver(seconds=1.0)
    assert len(run(driver, deadline=deadline)) == expected
    assert driver.now == 3 + 4 * expected


def test_the_longest_round_so_far_is_the_measure(run):
    # A first round of 8 seconds and a second of 4, after a warm-up of 6, end at 18. A third of
    # 4 would end in time, one of 8 would not.
    driver = Driver(seconds=lambda call: 2.0 if call <= 7 else 1.0)
    assert len(run(driver, deadline=25)) == 2
    driver = Driver(seconds=lambda call: 2.0 if call <= 7 else 1.0)
    assert len(run(driver, deadline=26)) == 3


def test_a_link_follows_its_ratio_alone_where_it_has_one():
    link = Link(mode="serial", bandwidth=5.0, latency=7.0)
    assert link.wire(3.0) == Wire(latency=7.0, bandwidth=5.0, mode="serial")
    assert replace(link, ratio=2.0).wire(3.0) == Wire(latency=6.0, bandwidth=5.0, mode="serial")
    assert replace(link, ratio=0.0).wire(3.0).latency == 0


@pytest.mark.parametrize(
    "wrong", [{"mode": "radio"}, {"bandwidth": 0.0}, {"latency": -1.0}, {"bandwidth": float("nan")}]
)
def test_a_link_that_makes_no_sense_is_refused_at_once(wrong):
    with pytest.raises(UsageError):
        Link(**({"mode": "serial", "bandwidth": 5.0} | wrong))
