"""Gaps, rates and utilisation as a reader sees them."""

from dataclasses import replace

from test_speed_tables import BOUND, CONTROL, LADDER, RECORD, STANDARD, about

from ladder_eval.report.gaps import gap_blocks
from ladder_eval.report.tables import comparison_table, markdown
from ladder_eval.report.utilisation import utilisation_blocks
from ladder_eval.results.records import from_json, to_json
from ladder_eval.results.speed_records import GapRecord

GAP = GapRecord(
    measured=0.010,
    simulated=0.008,
    skew=0.0005,
    wake_up=0.001,
    link=-0.00025,
    compute=0.00025,
    between=0.0005,
)
FASTER = replace(GAP, measured=0.007, compute=-0.00275)


def traced(**changes):
    rows = (STANDARD, replace(LADDER, gap=GAP), BOUND, replace(CONTROL, gap=GAP))
    return replace(RECORD, **({"rows": rows} | changes))


def test_parts_of_a_gap_by_hand():
    (block,) = gap_blocks([RECORD, traced()])
    (row,) = [dict(zip(block.columns, each, strict=True)) for each in block.rows]
    assert row == {
        "": "ladder",
        "traced": "10.000",
        "simulated": "8.000",
        "gap": "2.000",
        "skew": "0.500 (25)",
        "wake-up": "1.000 (50)",
        "link": "−0.250 (−12)",
        "blocks": "0.250 (12)",
        "between": "0.500 (25)",
    }
    assert block.title.startswith("where a decode step takes longer than its simulation, ms (% of")
    assert "random weights, tp_size 2 over the virtual link" in block.title


def test_a_forward_that_is_faster_than_its_simulation_has_no_shares():
    (block,) = gap_blocks([traced(rows=(replace(LADDER, gap=FASTER),))])
    assert block.rows[0][3:6] == ("−1.000", "0.500", "1.000")


def used(row, joules=None):
    return replace(
        row,
        tokens_per_s_per_row=about(3.0, 2.9, 3.1),
        tokens_per_s_per_rank=about(1.5, 1.4, 1.6),
        bandwidth_utilisation=about(0.456, 0.44, 0.47),
        flop_utilisation=about(0.31, 0.3, 0.32),
        joules_per_token=None if joules is None else about(*joules),
    )


def test_utilisation_by_hand():
    record = replace(RECORD, rows=(used(LADDER),), matmul_flops_per_second=123.4e9)
    (block,) = utilisation_blocks([RECORD, record])
    assert dict(zip(block.columns, block.rows[0], strict=True)) == {
        "": "ladder",
        "tokens/s per row": "3.00 [2.90, 3.10]",
        "tokens/s per rank": "1.50 [1.40, 1.60]",
        "bandwidth utilisation %": "45.6 [44.0, 47.0]",
        "FLOP utilisation %": "31.0 [30.0, 32.0]",
    }
    first, second = block.notes
    assert "by the 25.0 GB/s that a plain copy reads and writes" in first
    assert "by the 123 GFLOP/s that a plain matrix product in float32 does" in second


def test_energy_has_a_column_where_it_is_known():
    record = replace(RECORD, rows=(used(LADDER, (2.0, 1.9, 2.1)), used(STANDARD)))
    (block,) = utilisation_blocks([record])
    assert block.columns[-1] == "J per token"
    assert [row[-1] for row in block.rows] == ["2.00 [1.90, 2.10]", "—"]
    assert len(block.notes) == 1  # no matrix product was timed


def test_pages_have_them_and_records_survive_json(undecided):
    rows = (STANDARD, used(replace(LADDER, gap=GAP)), BOUND, CONTROL)
    result = replace(undecided, speed=(replace(RECORD, rows=rows),))
    assert from_json(to_json(result)) == result
    page = markdown(result)
    assert "## where a decode step takes longer" in page
    assert "## rates and utilisation; " in page
    assert any("where a decode step" in str(cell) for cell in _cells(comparison_table(result)))


def _cells(table):
    return [
        part for column in table.columns for group in column._cells for part in group.renderables
    ]
