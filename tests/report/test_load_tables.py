"""Loads and replays as a reader sees them, from records made by hand."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ladder_eval.report.load import (
    brief_load_block,
    load_block,
    load_conditions,
    replay_block,
)
from ladder_eval.report.tables import comparison_table, conditions, markdown
from ladder_eval.results.load_records import (
    Conditions,
    Latency,
    Lengths,
    LoadRecord,
    LoadRow,
    Percentile,
    ReplayRecord,
    ReplayRow,
)
from ladder_eval.results.records import from_json, to_json
from ladder_eval.results.speed_records import Estimate, LinkRecord

CONDITIONS = Conditions(
    model="small",
    weights="random",
    tp_size=2,
    link=LinkRecord(
        name="virtual link", mode="serial", latency=123.4e-6, latency_ratio=0.5, bandwidth=100e9
    ),
    device="cpu",
    dtype="float32",
    threads=1,
    num_hidden_layers=4,
    all_hidden_layers=30,
    vocab_size=49152,
    all_vocab_size=49152,
    heads_per_rank=(6, 3),
    kv_heads_per_rank=(2, 1),
    weight_bytes_per_rank=(3, 2),
    peak_memory_bytes=(5, 4),
    warm_up=1,
    rounds=2,
    rounds_asked=2,
)


def about(value, low=None, high=None):
    return Percentile(value=value, low=low, high=high)


def latency(p50, p99, speedups=None, requests=120):
    return Latency(
        p50=about(*p50),
        p99=about(*p99),
        speedup_p50=None if speedups is None else about(*speedups[0]),
        speedup_p99=None if speedups is None else about(*speedups[1]),
        requests=requests,
    )


def row(arm, role, residual, ttft, tpot):
    return LoadRow(
        arm=arm,
        role=role,
        residual=residual,
        ladder_layers=(),
        ttft=ttft,
        tpot=tpot,
        utilisation=0.634,
        capacity=3.456,
        requests_per_s=1.97,
        mean_batch=1.5,
    )


STANDARD = row(
    *("standard", "baseline", "standard"),
    latency((0.2, 0.19, 0.21), (1.234, 1.1, 1.5)),
    latency((0.05, 0.049, 0.052), (0.061, 0.06, 0.07)),
)
LADDER = row(
    *("ladder", "candidate", "ladder"),
    latency((0.15, 0.14, 0.16), (0.9, 0.8, 1), [(1.333, 1.25, 1.4), (1.371, 1.2, 1.5)]),
    latency((0.04, 0.039, 0.042), (0.05, 0.049, 0.05), [(1.25, 1.2, 1.3), (1.22, 1.1, 1.3)]),
)
CONTROL = row(
    *("standard again", "control", "standard"),
    latency((0.2, 0.19, 0.21), (1.3, 1.1, 1.5), [(1.0, 0.95, 1.06), (0.95, 0.9, 1.1)]),
    latency((0.05, 0.049, 0.052), (0.061, 0.06, 0.07), [(1, 0.99, 1.01), (1, 0.98, 1.02)]),
)
LOAD = LoadRecord(
    conditions=CONDITIONS,
    rate=2.0,
    seed=3,
    requests=120,
    prompt_lens=Lengths(shortest=128, mean=128.0, longest=128),
    output_lens=Lengths(shortest=1, mean=9.6, longest=1600),
    lengths="as given",
    batch_size=4,
    policy="first come first served",
    method="by nearest rank",
    rows=(STANDARD, LADDER, CONTROL),
)
OVER = "Over the virtual link and with random weights, "


def estimate(value, low, high, rounds=9):
    return Estimate(value=value, low=low, high=high, confidence=0.96, rounds=rounds)


REPLAY = ReplayRecord(
    conditions=CONDITIONS,
    run_id="quick-tiny",
    suite="quick",
    requests_of="tiny",
    seed=0,
    requests=1200,
    all_requests=1200,
    scored=1150,
    batches=75,
    read_tokens=20_000,
    written_tokens=777,
    rows=(
        ReplayRow(
            arm="standard",
            role="baseline",
            residual="standard",
            ladder_layers=(),
            seconds=estimate(12.34, 12, 13),
            tokens_per_s=estimate(1683.7, 1600, 1700),
            speedup=None,
        ),
        ReplayRow(
            arm="no-comm",
            role="bound",
            residual="no-comm",
            ladder_layers=(),
            seconds=estimate(6.0, 5.5, 6.5, rounds=2),
            tokens_per_s=estimate(3400, 3300, 3500),
            speedup=estimate(2.0567, 1.9, 2.1),
        ),
    ),
)


def printed(table, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    return console.file.getvalue()


def test_a_result_can_hold_the_records(undecided):
    result = replace(undecided, load=(LOAD, LOAD), replay=(REPLAY,))
    assert from_json(to_json(result)) == result


def test_brief_cells_by_hand():
    block = brief_load_block(LOAD)
    assert block.title == (
        "load, random weights, 4 of 30 layers, tp_size 2 over the virtual link (serial, 0.5 × "
        "block time, 100 GB/s): 2 requests a second, 120 requests, batch_size up to 4"
    )
    assert block.columns == (
        "",
        "ttft p50\nms, n 120",
        "ttft p99\nms, n 120",
        "tpot p50\nms, n 120",
        "tpot p99\nms, n 120",
        "ttft p50\nspeedup",
        "busy %",
    )
    assert block.rows == (
        ("standard", "200", "1234", "50", "61", "—", "63"),
        ("ladder", "150", "900", "40", "50", "1.33", "63"),
        ("standard again", "200", "1300", "50", "61", "1.00", "63"),
    )


def test_sentences_by_hand():
    assert brief_load_block(LOAD).notes == (
        f"{OVER}ladder has its median first token 1.33 [1.25, 1.40] times as soon as standard.",
        "standard against itself (A/A): 1.00 [0.95, 1.06] times.",
        *load_conditions(LOAD),
    )
    assert load_conditions(LOAD) == (
        "Poisson arrivals, seed 3, the same for every residual; first come first served; prompts "
        "of 128 tokens and outputs of 1 to 1,600 tokens (mean 10), as given.",
        "ttft counts from the arrival, with the queue; by nearest rank.",
        "Virtual link, serial, latency 123 µs = 0.5 × the mean block time, 100 GB/s; float32 on "
        "cpu, 1 thread a rank, heads 6:3; 4 of 30 layers, random weights; 2 rounds after 1 "
        "warm-up.",
    )


@pytest.mark.parametrize(
    "ratio",
    [
        (1.05, 1.04, 1.06),  # within the control's interval
        (1.2, 0.99, 1.4),
        (0.97, 0.955, 0.99),
        (1.2, None, None),
    ],
)
def test_what_chance_does_is_no_speedup(ratio):
    ladder = replace(LADDER, ttft=replace(LADDER.ttft, speedup_p50=about(*ratio)))
    first, *_ = brief_load_block(replace(LOAD, rows=(STANDARD, ladder, CONTROL))).notes
    assert first.endswith("as soon as standard, which cannot be told from what chance does.")


def test_slower_is_decided_too():
    slow = replace(LADDER, ttft=replace(LADDER.ttft, speedup_p50=about(0.8, 0.7, 0.9)))
    first, *_ = brief_load_block(replace(LOAD, rows=(STANDARD, slow, CONTROL))).notes
    assert first.endswith("0.80 [0.70, 0.90] times as soon as standard.")


def test_of_few_requests_p99_is_marked():
    def few(each, tpot):
        ttft = replace(each.ttft, requests=100)
        return replace(each, ttft=ttft, tpot=tpot and replace(each.tpot, requests=64))

    block = brief_load_block(
        replace(LOAD, rows=tuple(few(each, True) for each in LOAD.rows), requests=100)
    )
    assert [heading.replace("\n", " ") for heading in block.columns[1:5]] == [
        "ttft p50 ms, n 100",
        "ttft p99 ms, n 100",
        "tpot p50 ms, n 64",
        "tpot p99* ms, n 64",
    ]
    assert (
        "* Of 64 requests, p99 is what the slowest one met; give --requests 100 or more."
        in block.notes
    )


def test_prompts_alone_have_no_tpot():
    rows = tuple(replace(each, tpot=None) for each in LOAD.rows)
    block = brief_load_block(replace(LOAD, rows=rows))
    assert block.rows[1] == ("ladder", "150", "900", "—", "—", "1.33", "63")
    assert not any(note.startswith("*") for note in block.notes)


def test_full_cells_by_hand():
    block = load_block(LOAD)
    assert len(block.columns) == len(block.rows[0]) == len(block.rows[1]) == 14
    cells = dict(zip(block.columns, block.rows[1], strict=True))
    assert cells["ttft p50 ms, n 120"] == "150 [140, 160]"
    assert cells["ttft p99 speedup"] == "1.37 [1.20, 1.50]"
    assert cells["tpot p50 ms, n 120"] == "40.0 [39.0, 42.0]"
    assert (cells["served/s"], cells["full batches/s × batch_size"]) == ("1.97", "3.46")
    assert (cells["busy %"], cells["mean batch"], cells["residual"]) == ("63", "1.50", "ladder")


def test_replayed_cells_and_sentences_by_hand():
    block = replay_block(REPLAY)
    assert block.title == (
        "requests of run quick-tiny, random weights, 4 of 30 layers, tp_size 2 over the virtual "
        "link (serial, 0.5 × block time, 100 GB/s)"
    )
    assert block.rows == (
        ("standard", "12.3 [12.0, 13.0]", "1684 [1600, 1700]", "—"),
        ("no-comm (a bound)", "6.00", "3400 [3300, 3500]", "2.06 [1.90, 2.10]"),
    )
    assert block.notes[0] == (
        "1,200 requests of tiny in run quick-tiny, suite quick: 1,150 scored, 50 written, in the "
        "run's 75 batches; 20,000 tokens read and 777 written by each arm. Lengths are the run's, "
        "with made-up tokens and random weights of the shape small."
    )


def test_a_part_of_a_run_is_said_to_be_one():
    part = replay_block(replace(REPLAY, requests=120, scored=120))
    assert part.notes[0].startswith(
        "120 of 1,200 requests of tiny in run quick-tiny, suite quick (whole batches, seed 0): "
    )


def test_terminal_and_markdown_have_both(undecided):
    result = replace(undecided, load=(LOAD,), replay=(REPLAY,))
    page, text = printed(comparison_table(result), 80), markdown(result)
    for title in (brief_load_block(LOAD).title, replay_block(REPLAY).title):
        assert f"## {title}" in text
        assert title[:60] in page
    assert "| ladder | ladder | 150 [140, 160] |" in text
    assert all(("load", each) in conditions(result) for each in load_conditions(LOAD))
    # 80 columns have room for every name and number.
    assert "standard again" in page
    assert "…" not in page
