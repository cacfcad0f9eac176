"""A traced bench of two real ranks over the virtual link, read back from its folder."""

import json
from xml.etree import ElementTree as ET

import pytest
from running import Quiet

from ladder_eval.bench import bench
from ladder_eval.bench_options import BenchOptions
from ladder_eval.distributed.virtual_link import why_unavailable

SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
ARMS = ["standard", "ladder", "ladder-1", "parallel", "no-comm", "standard again"]

pytestmark = pytest.mark.skipif(why_unavailable(2) is not None, reason=str(why_unavailable(2)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("trace")
    (place / "small").mkdir()
    (place / "small" / "config.json").write_text(json.dumps(SHAPE))
    options = BenchOptions(
        model=str(place / "small"),
        residual=("ladder", "ladder-1", "parallel"),
        prompt_len=(4,),
        output_len=(3,),
        batch_size=(1, 2),
        latency_us=(200.0,),
        rounds=1,
        trace=True,
        device="cpu",
        output_dir=place / "runs",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        return bench(options, Quiet())


@pytest.fixture(scope="module")
def events(finished):
    told = json.loads((finished[1] / "trace.json").read_text())
    assert "random weights" in told["otherData"]["title"]
    assert "Virtual link" in told["otherData"]["conditions"]
    return told["traceEvents"]


def of_process(events, arm, rank):
    (process,) = [
        e["pid"]
        for e in events
        if e["name"] == "process_name" and e["args"]["name"] == f"{arm}, rank {rank}"
    ]
    return [e for e in events if e["pid"] == process and e["ph"] != "M"]


def computed_behind(own, name, forward):
    """Blocks that lie between the start and the wait of a message."""

    def moment(prefix):
        (found,) = [
            e for e in own if e["name"] == f"{prefix} {name}" and e["args"]["forward"] == forward
        ]
        return found["ts"]

    start, wait = moment("start"), moment("wait")
    return [
        e["name"]
        for e in own
        if e["cat"] in ("attention", "mlp") and start <= e["ts"] and e["ts"] + e["dur"] <= wait
    ]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("forward", [0, 1, 2])
def test_what_runs_behind_a_message_of_real_ranks(events, rank, forward):
    for layer in range(3):
        standard = of_process(events, "standard", rank)
        assert computed_behind(standard, f"attention {layer}", forward) == []
        assert computed_behind(standard, f"mlp {layer}", forward) == []
        ladder = of_process(events, "ladder", rank)
        assert computed_behind(ladder, f"attention {layer}", forward) == [f"mlp {layer}"]
        after = [f"attention {layer + 1}"] if layer < 2 else []
        assert computed_behind(ladder, f"mlp {layer}", forward) == after
        parallel = of_process(events, "parallel", rank)
        assert computed_behind(parallel, f"attention + mlp {layer}", forward) == []
    hybrid = of_process(events, "ladder-1", rank)
    # Layers 0 and 1 are standard, 2 is a ladder layer.
    assert computed_behind(hybrid, "attention 1", forward) == []
    assert computed_behind(hybrid, "mlp 1", forward) == ["attention 2"]
    assert computed_behind(hybrid, "attention 2", forward) == ["mlp 2"]


def test_no_message_arrives_before_its_latency_has_passed(events):
    for rank in (0, 1):
        own = of_process(events, "ladder", rank)
        ends = {e["id"]: e["ts"] for e in own if e["ph"] == "e"}
        sums = [e for e in own if e["ph"] == "b" and e["cat"] == "all-reduce"]
        assert len(sums) == 3 * (1 + 6)  # of each forward the embedding's and two a layer
        for begin in sums:
            assert begin["args"]["arrival_known"]
            assert ends[begin["id"]] - begin["ts"] >= 200 - 0.01
        waits = [e for e in own if e["cat"] == "wait" and "skew_us" in e["args"]]
        assert len(waits) == len(sums)
        for wait in waits:
            parts = [wait["args"][f"{part}_us"] for part in ("skew", "link", "wake_up")]
            assert min(parts) >= 0
            assert sum(parts) == pytest.approx(wait["dur"], abs=0.01)


def test_gaps_are_those_of_every_arm(finished):
    result, folder = finished
    for record in result.speed:
        assert [row.arm for row in record.rows] == ARMS
        for row in record.rows:
            gap = row.gap
            parts = gap.skew + gap.wake_up + gap.link + gap.compute + gap.between
            assert parts == pytest.approx(gap.measured - gap.simulated)
            assert gap.between > 0
            assert (gap.wake_up == 0) == (row.arm == "no-comm")
        standard = next(row.gap for row in record.rows if row.arm == "standard")
        assert standard.simulated >= 6 * 200e-6
    assert "## where a decode step takes longer" in (folder / "report.md").read_text()


def test_each_setting_has_a_picture(finished):
    folder = finished[1]
    for name in ("timeline.svg", "timeline-2.svg"):
        words = [e.text for e in ET.parse(folder / name).iter("{http://www.w3.org/2000/svg}text")]
        assert {"standard", "ladder", "ladder-1", "parallel", "no-comm"} <= set(words)
        assert "standard again" not in words
        assert any("Virtual link" in each for each in words)
    assert (folder / "trace-2.json").is_file()
    assert not (folder / "trace-3.json").exists()
