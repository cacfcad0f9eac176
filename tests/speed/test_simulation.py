"""Times by hand. a, m and c: seconds of attention, of an MLP and of an empty message."""

import random
from fractions import Fraction
from itertools import product

import pytest

from ladder_eval.distributed.wire import MODES, Wire
from ladder_eval.models.config import ModelConfig
from ladder_eval.speed.simulation import simulate

NEVER_BUSY = float("inf")  # bytes a second


def config_of(layers, residual="standard"):
    """A model; the residual is a topology, `ladder`, or the indices of its ladder layers."""
    if residual == "ladder":
        residual = tuple(range(layers))
    ladder = residual if isinstance(residual, tuple) else ()
    return ModelConfig(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=4,
        vocab_size=8,
        max_position_embeddings=8,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        tie_word_embeddings=True,
        ladder_layers=ladder,
        topology="standard" if ladder else residual,
    )


def time_of(layers, residual, ranks, wire, message_bytes=0):
    """The simulated time of ranks whose layers are all alike, from (attention, MLP) of each."""
    seconds = [[pair] * layers for pair in ranks]
    return simulate(config_of(layers, residual), seconds, wire, message_bytes)


def alike(layers, residual, a, m, c, mode):
    """The time of two ranks that are equally fast, with empty messages."""
    wire = Wire(latency=c, bandwidth=NEVER_BUSY, mode=mode)
    return time_of(layers, residual, [(a, m)] * 2, wire)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("a", "m", "c"), [(4, 7, 2), (4, 7, 5), (7, 4, 5), (4, 7, 100), (3, 3, 0)])
def test_residuals_that_wait_for_every_message(a, m, c, layers, mode):
    # Nothing runs beside a message, so that what the wire does between messages can't matter.
    assert alike(layers, "standard", a, m, c, mode) == layers * (a + m + 2 * c)
    assert alike(layers, "no-comm", a, m, c, mode) == layers * (a + m)
    assert alike(layers, "parallel", a, m, c, mode) == layers * (a + m + c)
    assert alike(layers, "desync-2x", a, m, c, mode) == layers * (a + m + c)
    # Every second layer and the last: 1 message of 1 or 2 layers, 2 of 3.
    messages = {1: 1, 2: 1, 3: 2}[layers]
    assert alike(layers, "desync-4x", a, m, c, mode) == layers * (a + m) + messages * c


# A ladder's block i starts when block i-1 has ended and message i-2 has arrived, s(i) =
# max(e(i-1), r(i-2)); it ends at e(i) = s(i) + its time. Its message arrives at r(i) = e(i) + c on
# a pipelined wire, at r(i) = max(e(i), r(i-1)) + c on a serial one, which carries one at a time.
# The whole ends with the last message.
#
# c below a and m: a message arrives while the next block runs, so that blocks follow each other,
# and only the last message is waited for: L(a+m) + c.
#
# a < c < m, L = 2: blocks 1 and 2 run until a+m. r(1) = a+c is before that, so e(3) = 2a+m.
# r(2) = a+m+c on either wire, as the wire is free. It is later than e(3): s(4) = a+m+c and
# e(4) = a+2m+c. Pipelined: r(4) = a+2m+2c. Serial: r(3) = max(2a+m, a+m+c) + c = a+m+2c, before
# e(4) + c, so that r(4) is the same. Each further layer adds m+c: a + L(m+c).
#
# m < c < a, L = 2: s(3) = max(a+m, a+c) = a+c, e(3) = 2a+c. Block 4 waits for r(2): pipelined
# a+m+c, serial max(a+m, a+c) + c = a+2c; both are before e(3), so e(4) = 2a+m+c. Pipelined:
# r(4) = 2a+m+2c, in general L(a+c) + m. Serial: r(3) = e(3) + c = 2a+2c is later than e(4), so
# r(4) = 2a+3c, in general L(a+c) + c.
#
# c above a and m. Serial: the wire is never free once the first message is sent, since a block
# starts at an arrival and ends before the next: 2L messages one after the other, a + 2Lc.
# Pipelined with a < m: attention (odd blocks) waits for r of attention, MLPs for r of MLPs, and
# the slower chain, e(2) = a+m, e(4) = e(2) + c + m, decides: a + L(m+c). With a > m:
# e(1) = a, s(3) = a+c, e(3) = 2a+c, which is after r(2) = a+m+c; e(4) = e(3) + m: L(a+c) + m.
LADDER = [
    # a, m, c, and the times of L layers on a serial and on a pipelined wire
    (4, 7, 2, lambda n: 11 * n + 2, lambda n: 11 * n + 2),
    (7, 4, 2, lambda n: 11 * n + 2, lambda n: 11 * n + 2),
    (4, 7, 5, lambda n: 4 + 12 * n, lambda n: 4 + 12 * n),
    (7, 4, 5, lambda n: 12 * n + 5, lambda n: 12 * n + 4),
    (4, 7, 9, lambda n: 4 + 18 * n, lambda n: 4 + 16 * n),
    (7, 4, 9, lambda n: 7 + 18 * n, lambda n: 16 * n + 4),
    (4, 7, 0, lambda n: 11 * n, lambda n: 11 * n),
]


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize(("a", "m", "c", "serial", "pipelined"), LADDER)
def test_ladder(a, m, c, serial, pipelined, layers):
    assert alike(layers, "ladder", a, m, c, "serial") == serial(layers)
    assert alike(layers, "ladder", a, m, c, "pipelined") == pipelined(layers)


@pytest.mark.parametrize(
    ("layers", "c", "serial", "pipelined"),
    [
        # a = 4, m = 7. c = 2: the standard layer ends its MLP at a+c+m = 13; the ladder layer
        # starts at once, hides that message, and waits for its own last: 13+4+7+2 = 26. A
        # standard layer more puts a+m+2c = 15 before it, a ladder layer more a+m = 11.
        ((2, (1,)), 2, 26, 26),
        ((3, (2,)), 2, 41, 41),
        ((3, (1, 2)), 2, 37, 37),
        # c = 9: the standard MLP ends at 4+9+7 = 20, its message arrives at 29; attention 24.
        # Serial: its message 38; MLP 29 to 36, its message max(36, 38)+9 = 47.
        # Pipelined: 36+9 = 45.
        ((2, (1,)), 9, 47, 45),
        # A ladder layer first. c = 2: blocks until 11, all has arrived at 13; then a+m+2c.
        ((2, (0,)), 2, 28, 28),
        # c = 9: arrivals at 13 and max(11, 13)+9 = 22, or pipelined 11+9 = 20; then 29.
        ((2, (0,)), 9, 51, 49),
    ],
)
def test_hybrid(layers, c, serial, pipelined):
    assert alike(*layers, 4, 7, c, "serial") == serial
    assert alike(*layers, 4, 7, c, "pipelined") == pipelined


# Rank 0 has attention 5 and MLP 1, rank 1 attention 2 and MLP 3.
SKEWED = [(5, 1), (2, 3)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_skew_between_ranks(layers, mode):
    wire = Wire(latency=10, bandwidth=NEVER_BUSY, mode=mode)
    # Every message waits for the slower rank of its block: 5 + 10 + 3 + 10.
    assert time_of(layers, "standard", SKEWED, wire) == 28 * layers
    # Nobody waits for anybody: the slower rank over all, 6 against 5.
    assert time_of(layers, "no-comm", SKEWED, wire) == 6 * layers
    # The slower sum of both blocks, 6, and one message.
    assert time_of(layers, "desync-2x", SKEWED, wire) == 16 * layers
    assert time_of(layers, "parallel", SKEWED, wire) == 16 * layers


def test_skew_in_a_ladder():
    # c = 1, L = 2. Ends of rank 0: 5, 6; of rank 1: 2, 5. Messages are sent by the later: 5 and 6;
    # they arrive at 6 and 7. Block 3 starts when message 1 has arrived: at 6 on both; it ends at
    # 11 and 8. Block 4 starts at 11 on rank 0, at 8 on rank 1 (message 2 arrived at 7), and ends
    # at 12 and 11: message 4 is sent at 12 and arrives at 13.
    for mode in MODES:
        assert time_of(2, "ladder", SKEWED, Wire(latency=1, bandwidth=NEVER_BUSY, mode=mode)) == 13


def test_layers_may_differ():
    # Rank 0 takes 1, 2, 3, 4 and rank 1 takes 4, 1, 1, 5: blocks of the slower 4, 2, 3, 5.
    seconds = [[(1, 2), (3, 4)], [(4, 1), (1, 5)]]
    wire = Wire(latency=1, bandwidth=NEVER_BUSY)
    assert simulate(config_of(2), seconds, wire, 0) == 4 + 2 + 3 + 5 + 4
    assert simulate(config_of(2, "no-comm"), seconds, wire, 0) == 11


@pytest.mark.parametrize(("mode", "expected"), [("serial", 32), ("pipelined", 29)])
def test_the_bytes_of_a_message_take_time(mode, expected):
    wire = Wire(latency=1, bandwidth=100, mode=mode)
    # 600 bytes take 6, and the latency 1: standard pays 7 for each of 4 messages.
    assert time_of(2, "standard", [(4, 3)] * 2, wire, 600) == 14 + 28
    # Ladder. Serial: 4 messages follow the first block, 4 + 4 * 7. Pipelined: block 1 ends at 4,
    # is transferred at 10 and there at 11. Block 2 ends at 7, is transferred at 16, there at 17.
    # Block 3 runs from 11 to 15, is transferred at 22, there at 23. Block 4 runs from 17 to 20,
    # is transferred at 28 and there at 29.
    assert time_of(2, "ladder", [(4, 3)] * 2, wire, 600) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_ladder_is_never_slower_than_standard_nor_faster_than_no_communication(mode):
    draw = random.Random(3)
    for _ in range(200):
        layers, ranks = draw.randint(1, 5), draw.randint(2, 4)
        # Fractions, so that no rounding blurs the comparison.
        seconds = [
            [tuple(Fraction(draw.randint(0, 100)) for _ in "am") for _ in range(layers)]
            for _ in range(ranks)
        ]
        wire = Wire(latency=Fraction(draw.randint(0, 100)), bandwidth=Fraction(10), mode=mode)
        size = draw.choice([0, 100, 500])
        standard, ladder, hybrid, least = (
            simulate(config_of(layers, residual), seconds, wire, size)
            for residual in ("standard", "ladder", (layers - 1,), "no-comm")
        )
        assert least <= ladder <= hybrid <= standard


def test_a_pipelined_wire_is_never_the_slower():
    for a, m, c, layers in product((1, 3, 8), (1, 3, 8), (0, 2, 5, 20), (2, 3)):
        serial, pipelined = (alike(layers, "ladder", a, m, c, mode) for mode in MODES)
        assert pipelined <= serial
