"""The grid of the paper: what it sets, what wins over it, and what of it is skipped."""

import json
from dataclasses import replace

import pytest
import torch
from running import Quiet

import ladder_eval.timing
from ladder_eval import bench_plan
from ladder_eval.bench import bench
from ladder_eval.bench_options import bench_options
from ladder_eval.bench_plan import plan_of_grid, require_room
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution
from ladder_eval.models.config import config_from_hf
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.subject import Subject
from ladder_eval.timing import Setting

SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def not_under_torchrun(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)


def test_the_papers_grid():
    options = bench_options({"grid": "paper"})
    assert options.residual == ("ladder", "parallel", "desync-2x")
    assert (options.tp, options.batch_size) == ((1, 2, 4, 8), (1, 4, 16, 64))
    assert (options.prompt_len, options.output_len) == ((1024,), (512,))


def test_what_is_given_wins_over_the_grid():
    options = bench_options({"grid": "paper", "tp": "1", "output_len": "4", "residual": None})
    assert (options.tp, options.output_len, options.prompt_len) == ((1,), (4,), (1024,))
    assert options.residual == ("ladder", "parallel", "desync-2x")


def test_other_grids_are_unknown():
    with pytest.raises(UsageError, match=r"^Unknown grid 'poster'; known are paper\.$"):
        bench_options({"grid": "poster"})


def test_the_rest_of_a_grid_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_plan, "_cores", lambda: 1)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps(SHAPE))
    given = {"grid": "paper", "batch_size": "1,2", "prompt_len": "4", "output_len": "2"}
    options = bench_options(
        given | {"model": str(tmp_path / "small"), "residual": "ladder", "rounds": 1}
    )
    terminal = Quiet()
    result, _ = bench(replace(options, device="cpu", output_dir=tmp_path, link="real"), terminal)
    assert [(r.tp_size, r.workload.batch_size) for r in result.speed] == [(1, 1), (1, 2)]
    skipped = [
        *(
            f"tp_size {size} is skipped: {size} ranks need a core each, and there is 1 here; use a "
            "larger machine."
            for size in (2, 4)
        ),
        # The shape has four heads.
        "tp_size 8 is skipped: tp_size=8 exceeds num_attention_heads=4; this model works with "
        "1, 2, 3, 4.",
    ]
    assert list(result.warnings) == skipped
    assert terminal.lines[:3] == skipped


CONFIG = config_from_hf(SHAPE)
SUBJECT = Subject(name="small", arms={"standard": CONFIG}, baseline="standard", whole=CONFIG)


def setting(batch_size):
    work = Workload(batch_size=batch_size, prompt_len=8, output_len=2)
    return Setting(workload=work, link=None, rounds=1)


def here(tp_size):
    return Execution(device=torch.device("cpu"), dtype="float32", tp_size=tp_size)


def test_batches_that_do_not_fit_are_skipped_and_others_are_not(monkeypatch):
    free = 2**30  # 0.85 of it may be filled, by 0.7 GB of an interpreter and the rest
    monkeypatch.setattr(ladder_eval.timing, "free_bytes", lambda device, tp_size: free)
    found = plan_of_grid(lambda _: SUBJECT, [setting(1), setting(10**6), setting(4)], [1], here)
    (part,) = found.parts
    assert [each.workload.batch_size for each in part.settings] == [1, 4]
    (sentence,) = found.skipped
    assert sentence.startswith(
        "tp_size 1, batch_size 1000000, prompt 8, output 2 is skipped: Two layers of this model "
    )


def test_a_grid_of_which_nothing_can_be_timed_is_refused(monkeypatch):
    monkeypatch.setattr(bench_plan, "_cores", lambda: 1)

    def crowded(size):
        require_room(found := here(size))
        return found

    with pytest.raises(UsageError, match=r"^Nothing of the grid can be timed here\. tp_size 2 is"):
        plan_of_grid(lambda _: SUBJECT, [setting(1)], [2], crowded)


def test_each_rank_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    execution = Execution(device=torch.device("cuda"), dtype="bfloat16", tp_size=4)
    with pytest.raises(UsageError, match="4 ranks need a GPU each, and there are 2 here"):
        require_room(execution)
    require_room(replace(execution, tp_size=2))
    # torchrun has started them wherever they are.
    monkeypatch.setenv("RANK", "0")
    require_room(execution)
