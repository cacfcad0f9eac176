"""Predictions of whole generations, against sums by hand and orders that have to hold."""

from dataclasses import replace

import pytest
from test_machines import planted

from ladder_eval.errors import UsageError
from ladder_eval.models.choice import with_residual
from ladder_eval.models.registry import MODELS
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.predict import Setting, fits, predict

DENSE = replace(MODELS["standard_8b"].config, num_hidden_layers=4)
H100 = planted("h100_sxm")
SETTING = Setting(
    workload=Workload(batch_size=4, prompt_len=64, output_len=33), tp_size=8, all_reduce="20us"
)


def seconds(residual, setting=SETTING, machine=H100):
    return predict(with_residual(DENSE, residual), [setting], machine)[0]


def test_standard_pays_every_all_reduce_and_its_taking_up():
    standard, least = seconds("standard"), seconds("no-comm")
    # Two a layer, and 4 µs each for taking up the sum; 32 steps after the prompt.
    assert standard.prefill - least.prefill == pytest.approx(8 * 24e-6)
    assert standard.decode - least.decode == pytest.approx(32 * 8 * 24e-6)


def test_residuals_are_in_the_order_of_their_waits():
    times = [
        seconds(residual).seconds
        for residual in ("no-comm", "ladder", "ladder-3", "ladder-1", "standard")
    ]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert seconds("parallel").seconds < seconds("desync-2x").seconds < times[-1]


def test_settings_are_independent_of_each_other():
    others = [
        replace(SETTING, tp_size=size, link=link, execution=execution)
        for size in (1, 2, 4)
        for link in ("p2p", "host")
        for execution in ("compile", "cuda_graph+flash")
    ]
    together = predict(DENSE, others, H100)
    assert together == [predict(DENSE, [each], H100)[0] for each in others]


def test_one_rank_has_nothing_to_send():
    alone = replace(SETTING, tp_size=1)
    assert seconds("standard", alone) == seconds("ladder", alone) == seconds("no-comm", alone)


def test_decoding_takes_longer_the_more_is_cached_unless_the_cache_is_padded():
    def tpot(execution, output_len):
        load = replace(SETTING.workload, prompt_len=10_000 - output_len, output_len=output_len)
        setting = replace(SETTING, workload=load, execution=execution)
        return seconds("no-comm", setting).decode / (output_len - 1)

    assert tpot("compile", 5000) == pytest.approx(tpot("compile", 50))
    # Halfway through 5000 tokens 2475 fewer are cached than halfway through 50: keys and values of
    # one head, of 4 rows and 4 layers.
    saved = 2475 * 2 * 2 * 128 * 4 * 4 / (0.9 * 3.35e12)
    flash = "cuda_graph+flash"
    assert tpot(flash, 50) - tpot(flash, 5000) == pytest.approx(saved, rel=1e-6)


def test_one_token_out_is_the_prompt_alone():
    load = replace(SETTING.workload, output_len=1)
    assert seconds("ladder", replace(SETTING, workload=load)).decode == 0


def test_without_direct_links_switches_still_sum_large_messages():
    load = Workload(batch_size=64, prompt_len=1024, output_len=1)

    def exposed(tp_size, link):
        setting = Setting(workload=load, tp_size=tp_size, link=link)
        return seconds("standard", setting).prefill - seconds("no-comm", setting).prefill

    # 64 · 1024 · 4096 · 2 bytes: by a ring of two over 16 GB/s; in switches at 337.5 GB/s.
    size = 64 * 1024 * 4096 * 2
    assert exposed(2, "host") == pytest.approx(8 * size / 16e9, rel=0.01)
    assert exposed(8, "host") == pytest.approx(8 * size / (0.75 * 450e9), rel=0.1)


def test_two_nodes_cost_more_than_one():
    spread = replace(SETTING, tp_size=8, nodes=2, all_reduce="nccl")
    assert seconds("standard", spread).decode > seconds("standard", replace(spread, nodes=1)).decode
    with pytest.raises(UsageError, match="can't be spread over 3 nodes"):
        seconds("standard", replace(spread, nodes=3))


def test_what_fits_is_weights_and_cache():
    whole = MODELS["standard_70b"].config  # 141 GB of weights; 40 KiB of cache a token and rank
    load = Workload(batch_size=1, prompt_len=1024, output_len=512)
    assert not fits(whole, Setting(workload=load, tp_size=1), H100)
    assert fits(whole, Setting(workload=load, tp_size=8), H100)
    many = replace(load, batch_size=990)
    assert fits(whole, Setting(workload=many, tp_size=8), H100)
    assert not fits(whole, Setting(workload=replace(many, batch_size=1000), tp_size=8), H100)
