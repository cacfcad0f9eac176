"""Gaps of traces that are written by hand."""

from dataclasses import replace

import pytest

from ladder_eval.distributed.wire import Wire
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import GapRecord
from ladder_eval.results.trace_records import ArmTrace, ComputeSpan, Message, RankTrace
from ladder_eval.speed.gap import Parts, block_seconds, gap, measured_parts, simulated_parts

ONE_LAYER = ModelConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=8,
    max_position_embeddings=8,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
WIRE = Wire(latency=5.0, bandwidth=float("inf"))


def block(kind, begin, end, forward=0):
    return ComputeSpan(kind=kind, layer=0, forward=forward, begin=begin, end=end)


def message(of, start, wait, waited, sent, arrival, forward=0):
    return Message(
        of=of,
        layer=0,
        forward=forward,
        start=start,
        started=start,
        wait=wait,
        waited=waited,
        sent=sent,
        arrival=arrival,
    )


def arm(name, *ranks):
    return ArmTrace(
        arm=name,
        ranks=tuple(
            RankTrace(rank=rank, spans=spans, messages=messages)
            for rank, (spans, messages) in enumerate(ranks)
        ),
    )


# Without communication rank 0 takes 4 and 7, rank 1 takes 2 and 7.
BOUND = arm(
    "no-comm",
    ((block("attention", 0, 4), block("mlp", 4, 11)), ()),
    ((block("attention", 0, 2), block("mlp", 2, 9)), ()),
)
# The same with messages: rank 0's attention takes 5, both MLPs 8, and sums take 1.
STANDARD = arm(
    "standard",
    (
        (block("attention", 100, 105), block("mlp", 113, 121)),
        # It begins to send 1 after its block, is the last to send, and arrives 5 later.
        (
            message("attention", 105, 106, 112, 106, 111),
            message("mlp", 121, 122, 128, 122, 127),
        ),
    ),
    (
        (block("attention", 100, 102), block("mlp", 112, 120)),
        (
            message("attention", 102, 103, 112, 106, 111),
            message("mlp", 120, 120, 128, 122, 127),
        ),
    ),
)


def test_parts_of_a_traced_forward():
    # Rank 0: 28 in all, 5 + 8 of blocks, two waits of 5 + 1. Rank 1: 28, 2 + 8, and waits of
    # 3 + 5 + 1 and 2 + 5 + 1.
    assert measured_parts(STANDARD, 0) == Parts(
        total=28, compute=(13 + 10) / 2, skew=(0 + 5) / 2, link=10, wake_up=2
    )


def test_parts_of_a_simulated_forward():
    # Attention ends at 4 and 2, its sum is there at 9 on both, MLPs end at 16, their sum at 21.
    found = simulated_parts(ONE_LAYER, block_seconds(BOUND, range(1)), WIRE, 0)
    assert found == Parts(total=21, compute=(11 + 9) / 2, skew=(0 + 2) / 2, link=10, wake_up=0)


def test_a_simulated_ladder_waits_only_for_what_it_can_not_hide():
    # Attention of both ranks takes 4, MLPs 7, messages 5: that of attention arrives at 9, before
    # the MLPs end at 11; theirs at 16.
    alike = [[(4, 7)], [(4, 7)]]
    ladder = replace(ONE_LAYER, ladder_layers=(0,))
    found = simulated_parts(ladder, alike, WIRE, 0)
    assert found == Parts(total=16, compute=11, skew=0, link=5, wake_up=0)


def test_parts_sum_to_the_gap():
    found = gap(STANDARD, BOUND, ONE_LAYER, WIRE, (0, 0))
    assert found == GapRecord(
        measured=28, simulated=21, skew=1.5, wake_up=2, link=0, compute=1.5, between=2
    )
    parts = found.skew + found.wake_up + found.link + found.compute + found.between
    assert parts == found.measured - found.simulated


def steps(*totals):
    """An arm of one rank: a prompt, then steps with blocks of 1 and a gap between them."""
    spans = [block("attention", 0, 1000), block("mlp", 1000, 2000)]
    for forward, total in enumerate(totals, 1):
        start = 10_000 * forward
        spans.append(block("attention", start, start + 1, forward))
        spans.append(block("mlp", start + total - 1, start + total, forward))
    return arm("no-comm", (tuple(spans), ()))


def test_the_step_with_the_median_time_is_told():
    found = gap(steps(9, 3, 5), steps(2, 2, 2), ONE_LAYER, WIRE, (0, 0))
    assert (found.measured, found.between, found.compute) == (5, 3, 0)
    # Of two the shorter.
    assert gap(steps(9, 3), steps(2, 2), ONE_LAYER, WIRE, (0, 0)).measured == 3


def test_a_decode_step_has_messages_of_its_own_size():
    # The prompt's message takes 6, a step's 1: only the step is simulated.
    wire = Wire(latency=0.0, bandwidth=100.0)
    both = arm("standard", *(((*steps(2).ranks[0].spans,), ()) for _ in "ab"))
    found = gap(both, both, ONE_LAYER, wire, (600, 100))
    assert found.simulated == 1 + 1 + 1 + 1


def test_without_known_arrivals_there_is_no_gap():
    first, second = STANDARD.ranks
    unknown = tuple(replace(each, sent=None, arrival=None) for each in second.messages)
    trace = replace(STANDARD, ranks=(first, replace(second, messages=unknown)))
    assert gap(trace, BOUND, ONE_LAYER, WIRE, (0, 0)) is None


@pytest.mark.parametrize("rank", [0, 1])
def test_block_times_are_medians_over_forwards(rank):
    spans = tuple(
        span
        for forward, (a, m) in enumerate([(9, 9), (1, 2), (3, 8), (2, 4)])
        for span in (block("attention", 0, a, forward), block("mlp", 10, 10 + m, forward))
    )
    trace = arm("no-comm", (spans, ()), (spans, ()))
    assert block_seconds(trace, range(1, 4))[rank] == [(2, 4)]
