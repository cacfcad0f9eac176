"""Times, speed-ups and their conditions as a reader sees them, from a record made by hand."""

import io
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from ladder_eval.report.board_pages import board_blocks
from ladder_eval.report.leaderboard import leaderboard, to_csv
from ladder_eval.report.speed import (
    brief_speed_block,
    published_block,
    speed_block,
    speed_conditions,
)
from ladder_eval.report.tables import comparison_table, conditions, markdown
from ladder_eval.results.published import published_row
from ladder_eval.results.records import from_json, to_json
from ladder_eval.results.speed_records import (
    EmulationRecord,
    Estimate,
    LinkRecord,
    PhaseRecord,
    SpeedRecord,
    SpeedRow,
    Workload,
)


def about(value, low, high):
    """A median of nine rounds."""
    return Estimate(value=value, low=low, high=high, confidence=1 - 20 / 512, rounds=9)


def phase(seconds, speedup=None, comm=None, bound=None, efficiency=None):
    ends = (seconds, speedup, comm, bound, efficiency)
    names = ("seconds", "speedup", "comm", "bound", "efficiency")
    found = {
        name: None if each is None else about(*each) for name, each in zip(names, ends, strict=True)
    }
    return PhaseRecord(**found)


def row(arm, role, residual, phases, itl, tokens_per_s):
    prefill, decode, total = phases
    return SpeedRow(
        arm=arm,
        role=role,
        residual=residual,
        ladder_layers=(0, 1) if residual == "ladder" else (),
        comm_name="hidden_comm" if residual == "ladder" else "comm_saved",
        prefill=prefill,
        decode=decode,
        total=total,
        itl=about(*itl),
        tokens_per_s=about(*tokens_per_s),
    )


STANDARD = row(
    "standard",
    "baseline",
    "standard",
    (
        phase((0.4567, 0.45, 0.47)),
        phase((0.01234, 0.012, 0.0131)),
        phase((0.6418, 0.63, 0.66)),
    ),
    itl=(0.0122, 0.012, 0.0125),
    tokens_per_s=(24.93, 24.24, 25.4),
)
LADDER = row(
    "ladder",
    "candidate",
    "ladder",
    (
        phase(
            (0.3, 0.29, 0.31),
            (1.522, 1.449, 1.6),
            (0.75, 0.6, 0.9),
            (0.9, 0.88, 0.92),
            (0.8333, 0.7, 1.0),
        ),
        phase(
            (0.009876, 0.0095, 0.0102),
            (1.249, 1.2, 1.304),
            (0.934, 0.8, 1.012),
            (0.987, 0.97, 0.99),
            (0.946, 0.82, 1.043),
        ),
        phase((0.448, 0.44, 0.46), (1.433, 1.4, 1.5), (0.8, 0.7, 0.9)),
    ),
    itl=(0.0098, 0.0094, 0.0101),
    tokens_per_s=(1035.7, 998.6, 1040.2),
)
PARALLEL = row(
    "parallel",
    "candidate",
    "parallel",
    (
        phase((0.4, 0.39, 0.41), (1.142, 1.1, 1.2)),
        phase((0.0125, 0.012, 0.013), (0.987, 0.95, 1.02), (-0.12, -0.3, 0.05), (0.5, 0.49, 0.51)),
        phase((0.5875, 0.57, 0.6), (1.092, 1.05, 1.1)),
    ),
    itl=(0.0124, 0.012, 0.013),
    tokens_per_s=(27.23, 26.7, 28.1),
)
BOUND = row(
    "no-comm",
    "bound",
    "no-comm",
    (
        phase((0.25, 0.24, 0.26), (1.827, 1.8, 1.9)),
        phase((0.0087, 0.0085, 0.009), (1.418, 1.4, 1.5)),
        phase((0.3805, 0.37, 0.39), (1.687, 1.6, 1.7)),
    ),
    itl=(0.0087, 0.0085, 0.009),
    tokens_per_s=(42.05, 41.0, 43.2),
)
CONTROL = row(
    "standard again",
    "control",
    "standard",
    (
        phase((0.455, 0.45, 0.46), (1.004, 0.98, 1.02)),
        phase((0.0123, 0.012, 0.013), (1.006, 0.978, 1.034)),
        phase((0.64, 0.63, 0.65), (1.003, 0.99, 1.01)),
    ),
    itl=(0.0123, 0.012, 0.013),
    tokens_per_s=(25.0, 24.6, 25.4),
)
VIRTUAL = LinkRecord(
    name="virtual link", mode="serial", latency=123.4e-6, latency_ratio=0.5, bandwidth=100e9
)
GLOO = LinkRecord(name="gloo", mode=None, latency=None, latency_ratio=None, bandwidth=None)
RECORD = SpeedRecord(
    model="small",
    weights="random",
    workload=Workload(batch_size=1, prompt_len=128, output_len=16),
    tp_size=2,
    link=VIRTUAL,
    device="cpu",
    dtype="float32",
    threads=1,
    num_hidden_layers=80,
    all_hidden_layers=80,
    vocab_size=32000,
    all_vocab_size=32000,
    heads_per_rank=(6, 3),
    kv_heads_per_rank=(2, 1),
    weight_bytes_per_rank=(3 * 2**30, 2**30 // 2),
    peak_memory_bytes=(5 * 2**30, 5 * 2**28),
    warm_up=1,
    rounds=9,
    rounds_asked=9,
    attention_seconds=(0.000124, 0.000061),
    mlp_seconds=(0.00035, 0.01236),
    copied_bytes_per_second=25e9,
    read_bytes_per_second=20e9,
    driver_share=0.0123,
    rows=(STANDARD, LADDER, PARALLEL, BOUND, CONTROL),
)


def prefill_only(record):
    """The same with one token to generate."""
    rows = tuple(replace(each, decode=None, itl=None) for each in record.rows)
    work = replace(record.workload, output_len=1)
    return replace(record, workload=work, rows=rows, read_bytes_per_second=None)


def printed(table, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    return console.file.getvalue()


def test_the_record_is_one_that_a_result_can_hold(undecided):
    result = replace(undecided, speed=(RECORD, prefill_only(RECORD)))
    assert from_json(to_json(result)) == result


def test_brief_cells_by_hand():
    block = brief_speed_block(RECORD)
    assert block.title == (
        "speed, random weights, tp_size 2 over the virtual link (serial, 0.5 × block time, "
        "100 GB/s): batch_size 1, prompt 128, output 16"
    )
    assert block.columns == (
        *("", "ttft ms", "tpot ms", "decode\nspeedup", "interval", "hidden/\nsaved %"),
    )
    assert block.rows == (
        ("standard", "457", "12.3", "—", "—", "—"),
        ("ladder", "300", "9.88", "1.25", "[1.20, 1.30]", "93"),
        ("parallel", "400", "12.5", "0.99", "[0.95, 1.02]", "−12"),
        ("no-comm (a bound)", "250", "8.7", "1.42", "[1.40, 1.50]", "—"),
        ("standard again", "455", "12.3", "1.01", "[0.98, 1.03]", "—"),
    )


# What a verdict must not be quoted without.
OVER = "Over the virtual link and with random weights, "


def test_brief_sentences_by_hand():
    assert brief_speed_block(RECORD).notes == (
        f"{OVER}ladder decodes 1.25 times as fast as standard (96 % interval 1.20 to 1.30, "
        "9 rounds) and "
        "hides 93 % [80, 101] of the exposed communication, of 99 % that its dependencies allow.",
        f"{OVER}parallel decodes 0.99 times as fast as standard (96 % interval 0.95 to 1.02, "
        "9 rounds), "
        "which can't be told from what chance does here.",
        "standard against itself (A/A): 1.01 (96 % interval 0.98 to 1.03, 9 rounds).",
        "Virtual link, serial, latency 123 µs = 0.5 × the mean block time, 100 GB/s; float32 on "
        "cpu, 1 thread a rank, heads 6:3; random weights; 9 rounds after 1 warm-up.",
        "No-comm reads 20.0 GB/s, 80 % of the 25.0 GB/s that a plain copy reads and writes.",
    )


def test_all_cells_by_hand():
    block = speed_block(RECORD)
    assert block.title == brief_speed_block(RECORD).title
    cells = [dict(zip(block.columns, each, strict=True)) for each in block.rows]
    standard, ladder, parallel, bound, control = cells
    assert standard == {
        "": "standard",
        "residual": "standard",
        "ttft ms": "457 [450, 470]",
        "tpot ms": "12.3 [12.0, 13.1]",
        "itl ms": "12.2 [12.0, 12.5]",
        "e2e latency ms": "642 [630, 660]",
        "tokens/s": "24.9 [24.2, 25.4]",
        "prefill speedup": "—",
        "decode speedup": "—",
        "e2e speedup": "—",
        "prefill hidden/saved %": "—",
        "decode hidden/saved %": "—",
        "decode bound %": "—",
        "decode efficiency": "—",
    }
    assert ladder == {
        "": "ladder",
        "residual": "ladder",
        "ttft ms": "300 [290, 310]",
        "tpot ms": "9.88 [9.50, 10.2]",
        "itl ms": "9.80 [9.40, 10.1]",
        "e2e latency ms": "448 [440, 460]",
        "tokens/s": "1036 [999, 1040]",
        "prefill speedup": "1.52 [1.45, 1.60]",
        "decode speedup": "1.25 [1.20, 1.30]",
        "e2e speedup": "1.43 [1.40, 1.50]",
        "prefill hidden/saved %": "75.0 [60.0, 90.0]",
        "decode hidden/saved %": "93.4 [80.0, 101]",
        "decode bound %": "98.7 [97.0, 99.0]",
        "decode efficiency": "0.946 [0.820, 1.04]",
    }
    assert parallel["decode hidden/saved %"] == "−12.0 [−30.0, 5.00]"
    assert parallel["decode bound %"] == "50.0 [49.0, 51.0]"
    assert (parallel["prefill hidden/saved %"], parallel["decode efficiency"]) == ("—", "—")
    assert (bound[""], bound["residual"]) == ("no-comm (a bound)", "no-comm")
    assert (bound["e2e speedup"], bound["decode hidden/saved %"]) == ("1.69 [1.60, 1.70]", "—")
    assert (control[""], control["residual"]) == ("standard again", "standard")


def test_conditions_by_hand():
    brief = brief_speed_block(RECORD).notes[-2:]
    assert speed_conditions(RECORD) == (
        *brief,
        "Query heads 6:3, key-value heads 2:1; weights 3.00 + 0.50 GiB, peak memory 5.00 + 1.25 "
        "GiB by rank, all arms together.",
        "Attention and MLP without communication: rank 0: 0.12 + 0.35 ms, rank 1: 0.06 + 12.36 ms.",
        "The driver, with the making of prompt and cache, adds 1.2 % to a generation.",
    )
    # On a GPU the blocks aren't watched.
    unwatched = replace(RECORD, attention_seconds=(), mlp_seconds=())
    told = speed_conditions(unwatched)
    assert len(told) == 4
    assert not any("Attention" in each for each in told)


@pytest.mark.parametrize(
    ("residual", "comm_name", "verb"),
    [
        ("ladder", "hidden_comm", "hides"),
        ("hybrid ladder", "hidden_comm", "hides"),
        ("parallel", "comm_saved", "saves"),
        ("desync-2x", "comm_saved", "saves"),
        ("desync-4x", "comm_saved", "saves"),
    ],
)
def test_only_ladder_layers_hide(residual, comm_name, verb):
    own = replace(LADDER, residual=residual, comm_name=comm_name)
    verdict = brief_speed_block(replace(RECORD, rows=(STANDARD, own, BOUND, CONTROL))).notes[0]
    assert f" and {verb} 93 % [80, 101] of the exposed communication" in verdict
    assert {"hides": "saves", "saves": "hides"}[verb] not in verdict


def decided(speedup, control=(1.006, 0.978, 1.034)):
    """The verdict on a ladder of which only the speed-up is known, beside an A/A interval."""
    decode = phase((0.01, 0.009, 0.011), speedup)
    again = replace(CONTROL, decode=phase((0.0123, 0.012, 0.013), control))
    rows = (STANDARD, replace(LADDER, decode=decode), BOUND, again)
    return brief_speed_block(replace(RECORD, rows=rows)).notes[0]


@pytest.mark.parametrize(
    ("speedup", "control"),
    [
        ((1.05, 0.99, 1.1), (1.0, 0.98, 0.985)),  # holds 1
        ((1.05, 1.02, 1.1), (1.0, 0.98, 1.03)),  # above 1, within what chance does
        ((1.05, 1.03, 1.1), (1.0, 0.98, 1.03)),  # that far is not beyond
        ((0.95, 0.9, 0.98), (1.0, 0.97, 1.03)),
        ((0.95, 0.9, 0.97), (1.0, 0.97, 1.03)),
        ((0.95, 0.9, 1.01), (1.1, 1.05, 1.2)),
        # On the one side of 1, and on the other of what chance does.
        ((1.05, 1.02, 1.1), (1.2, 1.15, 1.3)),
    ],
)
def test_what_chance_may_have_done_decides_nothing(speedup, control):
    assert decided(speedup, control).endswith(
        ", 9 rounds), which can't be told from what chance does here."
    )


@pytest.mark.parametrize(
    ("speedup", "control"),
    [
        ((1.05, 1.031, 1.1), (1.0, 0.98, 1.03)),
        ((0.95, 0.9, 0.969), (1.0, 0.97, 1.03)),
        ((1.05, 1.001, 1.1), (0.95, 0.9, 0.99)),
    ],
)
def test_what_lies_beyond_1_and_beyond_chance_is_decided(speedup, control):
    assert decided(speedup, control).endswith(
        ", 9 rounds); what communication costs is too little to say how much of it went."
    )


def of_rounds(record, rounds):
    """The record as fewer rounds would have given it."""

    def less(estimate):
        return None if estimate is None else replace(estimate, rounds=rounds)

    def fewer(part):
        names = ("seconds", "speedup", "comm", "bound", "efficiency")
        return replace(part, **{name: less(getattr(part, name)) for name in names})

    rows = tuple(
        replace(
            each,
            **{name: fewer(getattr(each, name)) for name in ("prefill", "decode", "total")},
            itl=less(each.itl),
            tokens_per_s=less(each.tokens_per_s),
        )
        for each in record.rows
    )
    return replace(record, rounds=rounds, rounds_asked=rounds, rows=rows)


@pytest.mark.parametrize(("rounds", "words"), [(1, "1 round"), (2, "2 rounds")])
def test_one_or_two_rounds_have_no_interval_and_decide_nothing(rounds, words):
    record = of_rounds(RECORD, rounds)
    block = brief_speed_block(record)
    assert block.rows[1] == ("ladder", "300", "9.88", "1.25", "—", "93")
    assert block.notes[:3] == (
        f"{OVER}ladder decodes 1.25 times as fast as standard ({words}, no interval), "
        "which can't be told from what chance does here.",
        f"{OVER}parallel decodes 0.99 times as fast as standard ({words}, no interval), "
        "which can't be told from what chance does here.",
        f"standard against itself (A/A): 1.01 ({words}, no interval).",
    )
    ladder = dict(zip(speed_block(record).columns, speed_block(record).rows[1], strict=True))
    assert (ladder["ttft ms"], ladder["decode speedup"]) == ("300", "1.25")
    assert (ladder["tokens/s"], ladder["decode hidden/saved %"]) == ("1036", "93.4")
    # Three have one.
    assert brief_speed_block(of_rounds(RECORD, 3)).rows[1][4] == "[1.20, 1.30]"


def test_communication_within_noise_is_not_shared_out():
    decode = replace(LADDER.decode, comm=None, bound=None, efficiency=None)
    rows = (STANDARD, replace(LADDER, decode=decode), BOUND, CONTROL)
    block = brief_speed_block(replace(RECORD, rows=rows))
    assert block.rows[1][-1] == "—"
    assert block.notes[0] == (
        f"{OVER}ladder decodes 1.25 times as fast as standard (96 % interval 1.20 to 1.30, "
        "9 rounds); "
        "what communication costs is too little to say how much of it went."
    )


def test_without_a_bound_none_is_told():
    decode = replace(LADDER.decode, bound=None, efficiency=None)
    rows = (STANDARD, replace(LADDER, decode=decode), BOUND, CONTROL)
    verdict = brief_speed_block(replace(RECORD, rows=rows)).notes[0]
    assert verdict.endswith(" and hides 93 % [80, 101] of the exposed communication.")


def test_one_token_is_reported_by_its_prefill():
    block = brief_speed_block(prefill_only(RECORD))
    assert block.columns[3] == "prefill\nspeedup"
    assert block.rows[0] == ("standard", "457", "—", "—", "—", "—")
    assert block.rows[1] == ("ladder", "300", "—", "1.52", "[1.45, 1.60]", "75")
    assert block.notes[0] == (
        f"{OVER}ladder reads its prompt 1.52 times as fast as standard "
        "(96 % interval 1.45 to 1.60, 9 rounds) and hides 75 % [60, 90] of the exposed "
        "communication, of 90 % that its dependencies allow."
    )
    assert block.notes[2] == (
        "standard against itself (A/A): 1.00 (96 % interval 0.98 to 1.02, 9 rounds)."
    )
    assert block.notes[-1] == "A plain copy moves 25.0 GB/s."
    full = speed_block(prefill_only(RECORD))
    ladder = dict(zip(full.columns, full.rows[1], strict=True))
    assert (ladder["ttft ms"], ladder["prefill speedup"]) == ("300 [290, 310]", "1.52 [1.45, 1.60]")
    for name in ("tpot ms", "itl ms", "decode speedup", "decode bound %", "decode efficiency"):
        assert ladder[name] == "—"


def everything(record):
    """All that is said of a record."""
    blocks = brief_speed_block(record), speed_block(record)
    told = [text for block in blocks for text in (block.title, *block.notes)]
    return "\n".join((*told, *speed_conditions(record)))


def test_random_weights_are_told_exactly_where_they_are():
    # Both titles, both conditions, and each verdict in each block.
    assert everything(RECORD).count("random weights") == 2 + 2 + 2 * 2
    loaded = replace(RECORD, weights="/models/small")
    assert "random" not in everything(loaded)
    assert speed_block(loaded).title.startswith("speed, tp_size 2 over the virtual link (serial, ")
    assert "heads 6:3; weights: /models/small; 9 rounds" in speed_conditions(loaded)[0]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"num_hidden_layers": 4}, "4 of 80 layers"),
        ({"vocab_size": 4096}, "a vocabulary of 4096 of 32000"),
        (
            {"num_hidden_layers": 2, "vocab_size": 4096},
            "2 of 80 layers and a vocabulary of 4096 of 32000",
        ),
    ],
)
def test_what_was_left_out_is_told(changes, part):
    record = replace(RECORD, **changes)
    assert f"; {part}, random weights; " in brief_speed_block(record).notes[-2]
    assert f"; {part}, random weights; " in speed_conditions(record)[0]
    assert speed_block(record).title.startswith(f"speed, random weights, {part}, tp_size 2 over ")
    assert " layers" not in everything(RECORD)
    assert "vocabulary" not in everything(RECORD)


def test_rounds_that_were_not_made_are_told():
    record = replace(RECORD, rounds=3, threads=2)
    assert speed_conditions(record)[0].endswith("; 3 of 9 rounds after 1 warm-up.")
    assert ", 2 threads a rank, " in speed_conditions(record)[0]


@pytest.mark.parametrize(
    ("link", "tp_size", "title", "condition"),
    [
        (
            VIRTUAL,
            2,
            "tp_size 2 over the virtual link (serial, 0.5 × block time, 100 GB/s): ",
            "Virtual link, serial, latency 123 µs = ",
        ),
        (
            replace(VIRTUAL, mode="pipelined", latency_ratio=None, latency=12e-6, bandwidth=12.5e9),
            4,
            "tp_size 4 over the virtual link (pipelined, 12.0 µs, 12.5 GB/s): ",
            "Virtual link, pipelined, latency 12.0 µs, 12.5 GB/s; ",
        ),
        (GLOO, 2, "tp_size 2 over gloo: ", "Messages by gloo; float32 on cpu"),
        (replace(GLOO, name="nccl"), 8, "tp_size 8 over nccl: ", "Messages by nccl; "),
        (replace(GLOO, name="none"), 1, "tp_size 1: ", "No messages; float32 on cpu"),
    ],
)
def test_what_carried_the_messages_is_told(link, tp_size, title, condition):
    record = replace(RECORD, link=link, tp_size=tp_size)
    assert speed_block(record).title.startswith(f"speed, random weights, {title}")
    assert speed_conditions(record)[0].startswith(condition)
    virtual = link.name == "virtual link"
    assert ("irtual link" in everything(record)) is virtual


LONG = "hybrid_ladder_smollm2_135m_10l"


def test_narrow_terminal_shows_every_number(undecided):
    assert len(LONG) == 30
    rows = (STANDARD, replace(LADDER, arm=LONG), PARALLEL, BOUND, CONTROL)
    record = replace(RECORD, rows=rows)
    text = printed(comparison_table(replace(undecided, speed=(record,))), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    lines = [line.strip() for line in text.splitlines()]
    for cells in brief_speed_block(record).rows:
        (line,) = [each for each in lines if each.startswith(f"{cells[0]}  ") or each == cells[0]]
        assert line.removeprefix(cells[0]).replace(", ", ",").split() == [
            cell.replace(", ", ",") for cell in cells[1:]
        ]


def test_the_terminal_has_the_verdict_and_the_conditions(undecided):
    text = " ".join(printed(comparison_table(replace(undecided, speed=(RECORD,))), 400).split())
    for note in brief_speed_block(RECORD).notes:
        assert note in text


def test_markdown_has_a_rectangular_table(undecided):
    rows = (STANDARD, replace(LADDER, arm="lad|der"), PARALLEL, BOUND, CONTROL)
    text = markdown(replace(undecided, speed=(replace(RECORD, rows=rows),)))
    section = text.split("## speed, random weights, ")[1].split("## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5
    assert {line.replace("\\|", "").count("|") for line in lines} == {14 + 1}
    assert lines[3].startswith("| lad\\|der | ladder | 300 [290, 310] | 9.88 [9.50, 10.2] |")
    assert "* **speed**: Query heads 6:3, key-value heads 2:1; " in text


def test_conditions_of_a_bench_are_those_of_its_records(undecided):
    bare = {"models": (), "tasks": (), "scores": (), "comparisons": (), "warnings": ()}
    result = replace(undecided, speed=(RECORD, prefill_only(RECORD)), **bare)
    told = conditions(result)
    assert [text for label, text in told if label == "speed"] == [
        *speed_conditions(RECORD),
        *speed_conditions(prefill_only(RECORD)),
    ]
    # Nothing was asked: no documents, and no intervals of scores.
    assert not {"documents", "intervals", "warning"} & {label for label, _ in told}
    assert "0 documents" not in markdown(result)
    text = printed(comparison_table(result), width=200)
    assert text.startswith("speed, random weights, tp_size 2 over the virtual link")
    assert "shot" not in text


def test_published_cells_by_hand():
    rows = [published_row("standard_3b"), published_row("hybrid_ladder_8b_16l")]
    block = published_block(rows)
    assert block.columns == ("", "standard_3b", "hybrid_ladder_8b_16l")
    cells = {each[0]: each[1:] for each in block.rows}
    assert cells["arc_challenge"] == ("38.99", "59.13")
    assert cells["hellaswag"] == ("46.48", "78.86")
    assert cells["wikitext_word_perplexity"] == ("14.48", "—")
    assert cells["openbookqa"] == ("—", "42.20")
    assert list(cells)[:2] == ["arc_challenge", "arc_easy"]  # as printed
    assert len(cells) == 8 + 10 - 3  # arc_challenge, hellaswag and average are in both
    assert block.title == "published accuracy (not measured here): percent, and perplexity"
    paper = "Ladder-Residual, arXiv 2501.06589 (ICML 2025)"
    assert block.notes == (
        "standard_3b is the paper's standard-3b; training: 100B tokens of FineWeb-Edu, context "
        "2048, StarCoder tokenizer (49152), AdamW lr 3e-4 cosine, 25000 steps x 4194304 tokens.",
        "hybrid_ladder_8b_16l is the paper's hybrid-ladder-8b-16l-retrained; training: supervised "
        "fine-tuning on Infinity-Instruct (7M and Gen subsets), 3B tokens, 2 epochs, lr 5e-6, 200 "
        "warm-up steps.",
        f"Published in {paper}, table of models trained from scratch (0-shot); {paper}, table of "
        "models adapted from Llama-3.1-8B-Instruct (shots: MMLU 5, ARC-C 25, HellaSwag 10, GSM8K "
        "8, OpenBookQA unstated, others 0).",
    )


def test_published_rows_are_in_terminal_and_report(undecided):
    rows = (published_row("standard_3b"), published_row("ladder_3b"))
    assert published_block(rows).notes[-1].count("2501.06589") == 1  # one table, named once
    result = replace(undecided, published=rows)
    assert "| arc_challenge | 38.99 | 36.77 |" in markdown(result)
    text = printed(comparison_table(result), width=80)
    assert "36.77" in text
    assert "not measured here" in text
    assert "published" not in markdown(undecided)


COLUMNS = ["decode_speedup", "decode_speedup_low", "decode_speedup_high"]
CONDITIONS = [
    *("speed_kind", "speed_tp_size", "speed_link", "speed_device"),
    *("speed_dtype", "speed_weights", "speed_layers"),
]


def board(result):
    frame = leaderboard([result])
    return frame, {each["model"]: each for each in frame.to_dict("records")}


def renamed(record):
    """The record with the names of the models of `undecided`."""
    dense = replace(STANDARD, arm="dense"), replace(CONTROL, arm="dense again")
    return replace(record, rows=(dense[0], replace(LADDER, arm="lad|der"), BOUND, dense[1]))


def test_the_leaderboard_has_the_speedup_of_a_timed_model(undecided):
    frame, rows = board(replace(undecided, speed=(renamed(RECORD),)))
    ladder, dense = rows["lad|der"], rows["dense"]
    assert [ladder[name] for name in COLUMNS] == [1.249, 1.2, 1.304]
    assert {name: ladder[name] for name in CONDITIONS} == {
        "speed_kind": "measured",
        "speed_tp_size": 2,
        "speed_link": "the virtual link (serial, 0.5 × block time, 100 GB/s)",
        "speed_device": "cpu",
        "speed_dtype": "float32",
        "speed_weights": "random",
        "speed_layers": 80,
    }
    assert all(pd.isna(dense[name]) for name in COLUMNS)
    (block,) = board_blocks(frame)
    cells = {row[1].removesuffix(" †"): row[-1] for row in block.rows}
    speedup = "1.25 over the virtual link (serial, 0.5 × block time, 100 GB/s)"
    assert cells == {"lad|der": f"{speedup}, random weights", "dense": "—"}
    again = pd.read_csv(io.StringIO(to_csv(frame))).set_index("model")
    assert again.loc["lad|der", "decode_speedup"] == 1.249


def test_the_leaderboard_misses_the_speedup_of_others(undecided):
    for speed in ((), (RECORD,)):  # not timed, or other models
        _, rows = board(replace(undecided, speed=speed))
        for each in rows.values():
            assert all(pd.isna(each[name]) for name in (*COLUMNS, *CONDITIONS))
    only = prefill_only(replace(RECORD, rows=(replace(LADDER, arm="lad|der"),)))
    _, rows = board(replace(undecided, speed=(only,)))
    assert all(pd.isna(rows["lad|der"][name]) for name in COLUMNS)


EMULATED = replace(
    RECORD,
    kind="emulated",
    emulation=EmulationRecord(rank=2, skew=None, lateness=12.3e-6, extrapolated=True),
    tp_size=8,
    link=replace(VIRTUAL, name="emulated link"),
    num_hidden_layers=4,
    weight_bytes_per_rank=(2**31,),
    peak_memory_bytes=(2**32,),
    attention_seconds=(0.000124,),
    mlp_seconds=(0.00035,),
)


def test_what_is_emulated_says_so(undecided):
    block = brief_speed_block(EMULATED)
    assert block.title == speed_block(EMULATED).title
    assert block.title == (
        "emulated speed, random weights, extrapolated from 4 of 80 layers, tp_size 8 over the "
        "emulated link (serial, 0.5 × block time, 100 GB/s): batch_size 1, prompt 128, output 16"
    )
    assert block.notes[0].startswith("Emulated and with random weights, ladder decodes 1.25 times")
    told = speed_conditions(EMULATED)
    assert told[0] == (
        "Emulated: rank 2 of 8 computed its share on one device, and each message was a delay. "
        "The slowest rank sent it 12.3 µs later on average, by block times of all ranks drawn "
        "from those of this one. Times of all 80 layers are extrapolated from 4."
    )
    assert told[1].startswith("Emulated link, serial, latency 123 µs = 0.5 × the mean block time")
    assert "weights 2.00 GiB, peak memory 4.00 GiB of rank 2, all arms together." in told[3]
    assert "without communication: rank 2: 0.12 + 0.35 ms." in told[4]
    result = replace(undecided, speed=(EMULATED,))
    assert from_json(to_json(result)) == result


def test_a_skew_that_was_given_is_told():
    emulation = EmulationRecord(rank=0, skew=5e-6, lateness=7e-6, extrapolated=False)
    told = speed_conditions(replace(EMULATED, emulation=emulation, num_hidden_layers=80))
    assert told[0].endswith(
        "by block times of all ranks normal with a deviation of 5.00 µs, as given."
    )


def test_the_leaderboard_says_what_is_emulated(undecided):
    frame, rows = board(replace(undecided, speed=(renamed(EMULATED),)))
    assert rows["lad|der"]["speed_kind"] == "emulated"
    (block,) = board_blocks(frame)
    assert any("100 GB/s), emulated" in row[-1] for row in block.rows)


def test_the_leaderboard_says_that_only_some_layers_were_timed(undecided):
    frame, _ = board(replace(undecided, speed=(replace(renamed(RECORD), num_hidden_layers=4),)))
    (block,) = board_blocks(frame)
    assert any(row[-1].endswith(", random weights, 4 of 16 layers timed") for row in block.rows)
