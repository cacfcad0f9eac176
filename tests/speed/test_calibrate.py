"""Constants from synthetic logs, in which planted ones are known, and errors by hand."""

from dataclasses import asdict, replace
from itertools import product

import pytest
from test_machines import CONSTANTS, planted

from ladder_eval.errors import DataError
from ladder_eval.models.choice import with_residual
from ladder_eval.models.registry import MODELS
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.calibrate import fit, judged
from ladder_eval.speed.cross_validation import medians, splits
from ladder_eval.speed.predict import Setting, predict
from ladder_eval.speed.timing_logs import LogRow, speedups

H100 = planted("h100_sxm")
SHAPES = {
    name: replace(MODELS[f"standard_{name}"].config, num_hidden_layers=4) for name in ("8b", "70b")
}


def logged(model, residual, setting):
    """A row that takes exactly as long as the model with CONSTANTS says."""
    config = with_residual(SHAPES[model], residual)
    made = predict(config, [setting], H100)[0]
    return LogRow(
        model=model,
        residual=residual,
        config=config,
        setting=setting,
        prefill=made.prefill,
        decode=made.decode,
    )


@pytest.fixture(scope="module")
def rows():
    settings = [
        Setting(
            workload=Workload(batch_size=batch, prompt_len=1024, output_len=512),
            tp_size=tp_size,
            link=link,
            execution=execution,
        )
        for batch, tp_size, link, execution in product(
            (1, 16, 64), (1, 2, 8), ("p2p", "host"), ("compile", "cuda_graph+flash")
        )
    ]
    residuals = ("standard", "ladder", "parallel", "no-comm")
    return [logged(*each) for each in product(SHAPES, residuals, settings)]


def test_planted_constants_are_found(rows):
    found = fit(rows, planted("h100_sxm"), source="synthetic", command="none")
    assert asdict(found.constants) == pytest.approx(asdict(CONSTANTS), rel=2e-3)
    assert found.calibration.machine == "h100_sxm"
    assert found.status == "constants of this machine, from synthetic"


def test_what_the_logs_of_one_model_say_holds_for_the_other(rows):
    first, second = splits(rows, H100)
    assert (first.fitted, first.tested) == (("8b",), ("70b",))
    assert (second.fitted, second.tested) == (("70b",), ("8b",))
    for split in (first, second):
        assert split.speedup.count == split.medians.count == 3 * 3 * 2 * 2 * 2
        assert split.tokens_per_s.count == 4 * 3 * 2 * 2 * 2
        assert split.speedup.largest < 2e-3
        assert split.tokens_per_s.largest < 2e-3
        assert split.medians.median > 0.01


def slow(row, factor, batch=None):
    load = replace(row.setting.workload, batch_size=batch or row.setting.workload.batch_size)
    return replace(
        row,
        prefill=row.prefill * factor,
        decode=row.decode * factor,
        setting=replace(row.setting, workload=load),
    )


def test_speedups_are_over_standard_in_the_same_setting(rows):
    setting = Setting(
        workload=Workload(batch_size=1, prompt_len=8, output_len=8), tp_size=2, link="host"
    )
    base = replace(logged("8b", "standard", setting), prefill=1.0, decode=3.0)
    fast = replace(logged("8b", "ladder", setting), prefill=1.0, decode=1.0)
    alone = replace(fast, setting=replace(setting, link="p2p"))
    assert speedups([base, fast, alone], [4.0, 2.0, 2.0]) == {1: 2.0}
    # The median of 2 and 4: standard takes 4 s in both settings.
    other = [slow(base, 1, batch=3), slow(fast, 0.5, batch=3)]
    assert medians([base, fast, *other]) == {("ladder", 2, "host"): 3.0}


def test_large_batches_are_left_out(rows):
    assert judged([slow(rows[0], 1, batch=65), slow(rows[0], 1, batch=64)]) == [
        slow(rows[0], 1, batch=64)
    ]


def test_few_rows_are_one_sentence(rows):
    with pytest.raises(DataError, match="8 constants can't be fitted to 8 rows"):
        fit(rows[:8], H100, source="", command="")


def test_logs_that_nothing_can_be_judged_by_are_one_sentence(rows):
    one_model = [row for row in rows if row.model == "8b"]
    assert list(splits(one_model, H100)) == []
    without = [row for row in rows if row.model == "8b" or row.residual != "standard"]
    with pytest.raises(DataError, match="no row of standard beside one of another residual"):
        list(splits(without, H100))
