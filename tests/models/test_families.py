"""Qwen 2, Qwen 3 and Mistral against transformers' own models."""

import json
from dataclasses import replace

import pytest
import torch
from family_models import FAMILIES, make
from llama_reference import SHAPE, UNEVEN, edit_config, some_ids
from safetensors.torch import load_file
from thread_ranks import on_ranks
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
)

from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.errors import CheckpointError
from ladder_eval.models.checkpoint import (
    load_model,
    read_config,
    tensor_layout,
    whole_tensors,
)
from ladder_eval.models.config import config_from_hf, config_to_hf
from ladder_eval.models.random_weights import random_model, sharing

CPU = torch.device("cpu")
SHAPES = {"even": {}, "uneven": UNEVEN}


def logits(folder, tp_size, **changes):
    config = replace(read_config(folder), **changes)

    def work(tp):
        model = load_model(folder, config, dtype=torch.float32, device=CPU, tp=tp)
        return model.logits(model(some_ids()))

    return torch.cat(on_ranks(tp_size, work), -1)


@pytest.mark.parametrize("tp_size", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_those_of_transformers(tmp_path, family, shape, tp_size):
    model = make(family, **SHAPES[shape])
    model.save_pretrained(tmp_path)
    theirs = model(some_ids()).logits.detach()
    assert_close(logits(tmp_path, tp_size), theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_residual_runs_on_their_weights(tmp_path, family):
    make(family).save_pretrained(tmp_path)
    for changes in ({"ladder_layers": (0, 1)}, {"topology": "parallel"}):
        alone = logits(tmp_path, 1, **changes)
        assert_close(logits(tmp_path, 2, **changes), alone, rtol=0, atol=2e-5)
        assert (alone - logits(tmp_path, 1)).abs().max() > 0.01


def test_each_rank_holds_its_rows_of_the_biases_and_all_of_the_norms(tmp_path):
    # 9 query heads in 3 groups, 8 channels a head: rank 0 has 6 and 2.
    for family, kinds in (("qwen2", ("bias",)), ("qwen3", ("q_norm", "k_norm"))):
        changes = UNEVEN | ({"head_dim": 8} if family == "qwen3" else {})
        make(family, **changes).save_pretrained(tmp_path / family)
        stored = load_file(tmp_path / family / "model.safetensors")
        tp = TensorParallel(1, 2)
        config = read_config(tmp_path / family)
        model = load_model(tmp_path / family, config, dtype=torch.float32, device=CPU, tp=tp)
        own = {n: w for n, w in model.state_dict().items() if any(kind in n for kind in kinds)}
        assert len(own) == (6 if family == "qwen2" else 4)
        for name, weight in own.items():
            whole = stored[f"model.{name}"]
            cut = {"q_proj.bias": slice(48, 72), "k_proj.bias": slice(16, 24)}
            part = next((rows for end, rows in cut.items() if name.endswith(end)), None)
            part = slice(16, 24) if name.endswith("v_proj.bias") else part or slice(None)
            assert torch.equal(weight, whole[part]), name


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_counted_as_transformers_does(family, tied):
    model = make(family, tie_word_embeddings=tied)
    assert config_from_hf(model.config.to_dict()).parameters == model.num_parameters()


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_tensors_are_those_stored(tmp_path, family):
    make(family, **UNEVEN).bfloat16().save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    found = dict(whole_tensors(tmp_path, read_config(tmp_path)))
    assert found.keys() == stored.keys() == tensor_layout(tmp_path, read_config(tmp_path)).keys()
    assert all(torch.equal(found[name], stored[name]) for name in stored)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_can_be_made_up(family):
    config = config_from_hf(make(family).config.to_dict())
    model = random_model(config, dtype=torch.float32, device=CPU)
    for name, weight in model.named_parameters():
        if "norm" in name:
            assert torch.equal(weight, torch.ones_like(weight))
        else:
            assert weight.std().item() == pytest.approx(0.02, rel=0.5)
            assert abs(weight.mean().item()) < 0.01
    twin = sharing(model, config.with_ladder(1), TensorParallel(0, 1))
    assert model(some_ids()).isfinite().all()
    assert twin(some_ids()).isfinite().all()


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_fields_have_the_familys_defaults(family):
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    values = {"hidden_size": 4096, "intermediate_size": 64, "num_hidden_layers": 2}
    values |= {"num_attention_heads": 32, "vocab_size": 80, "max_position_embeddings": 64}
    read = config_from_hf({"model_type": family} | values)
    theirs = AutoConfig.for_model(family, **values)
    assert [getattr(read, name) for name in names] == [values[name] for name in names]
    assert read.num_key_value_heads == theirs.num_key_value_heads
    assert read.head_dim == getattr(theirs, "head_dim", 128)
    assert read.rms_norm_eps == theirs.rms_norm_eps
    assert read.rope_theta == theirs.rope_parameters["rope_theta"]
    assert read.tie_word_embeddings == theirs.tie_word_embeddings


class TestWindows:
    @pytest.mark.parametrize(
        ("family", "changes"),
        [
            ("mistral", {"sliding_window": None}),
            ("mistral", {"sliding_window": 128}),
            ("mistral", {"sliding_window": 4096}),
            ("qwen2", {"sliding_window": 8}),
            ("qwen2", {"sliding_window": 8, "use_sliding_window": False}),
            ("qwen2", {"sliding_window": None, "use_sliding_window": True}),
            ("qwen2", {"sliding_window": 128, "use_sliding_window": True, "layer_types": None}),
            ("qwen3", {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2}),
            (
                "qwen3",
                {
                    "sliding_window": 8,
                    "use_sliding_window": True,
                    "layer_types": ["full_attention"] * 2,
                },
            ),
            ("llama", {"sliding_window": 8}),  # the family has none
        ],
    )
    def test_one_that_never_matters_is_fine(self, family, changes):
        assert read(family, **changes).max_position_embeddings == 128

    @pytest.mark.parametrize(
        ("family", "changes"),
        [
            ("mistral", {}),
            ("mistral", {"layer_types": ["full_attention"] * 2}),
            ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
            ("qwen3", {"use_sliding_window": True, "max_window_layers": 0}),
            (
                "qwen3",
                {
                    "use_sliding_window": True,
                    "layer_types": ["full_attention", "sliding_attention"],
                },
            ),
        ],
    )
    def test_one_that_matters_is_refused_with_the_way_out(self, family, changes):
        changes = {"sliding_window": 64} | changes
        with pytest.raises(CheckpointError) as caught:
            read(family, **changes)
        assert str(caught.value) == (
            "sliding_window=64 is smaller than max_position_embeddings=128, and sliding windows "
            "are not supported; set max_position_embeddings to 64 in config.json to run the model "
            "on texts that fit in the window."
        )
        assert read(family, **changes, max_position_embeddings=64).max_position_embeddings == 64

    def test_mistrals_default_window_matters(self):
        with pytest.raises(CheckpointError, match="sliding_window=4096 is smaller"):
            read("mistral", max_position_embeddings=32768)

    def test_the_way_out_answers_as_transformers(self, tmp_path):
        model = make("mistral", sliding_window=32)
        model.save_pretrained(tmp_path)
        edit_config(tmp_path, max_position_embeddings=32)
        theirs = model(some_ids(columns=32)).logits.detach()
        config = read_config(tmp_path)
        ours = load_model(tmp_path, config, dtype=torch.float32, device=CPU)
        with torch.no_grad():
            assert_close(ours.logits(ours(some_ids(columns=32))), theirs, rtol=0, atol=2e-5)
            longer = some_ids(columns=64)
            difference = ours.logits(ours(longer)) - model(longer).logits
        assert difference.abs().max() > 0.01  # beyond the window they part

    @pytest.mark.parametrize(
        ("family", "changes"),
        [
            ("mistral", {"sliding_window": "wide"}),
            ("mistral", {"sliding_window": -1}),
            ("mistral", {"sliding_window": True}),
            ("mistral", {"sliding_window": 1.5}),
            ("mistral", {"sliding_window": 8, "max_position_embeddings": "long"}),
            ("qwen2", {"use_sliding_window": "yes"}),
            ("qwen2", {"layer_types": ["sliding_attention"] * 2}),
            ("qwen2", {"layer_types": ["linear_attention"] * 2}),
            ("qwen2", {"layer_types": "full_attention"}),
            ("qwen2", {"layer_types": [["full_attention"]]}),
            (
                "qwen2",
                {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": "all"},
            ),
        ],
    )
    def test_nonsense(self, family, changes):
        with pytest.raises(CheckpointError) as caught:
            read(family, **changes)
        assert str(caught.value).endswith(".")


def read(family, **changes):
    return config_from_hf({"model_type": family, "num_key_value_heads": 2} | SHAPE | changes)


class TestRefusals:
    @pytest.mark.parametrize("family", ["llama", "llamaLadder", "mistral", "qwen2", "qwen3"])
    @pytest.mark.parametrize("name", ["attention_bias", "mlp_bias"])
    def test_other_biases(self, family, name):
        with pytest.raises(CheckpointError, match=f"{name}=true is not supported; only query"):
            read(family, **{name: True}, ladder_layers=1, sliding_window=None)

    def test_missing_biases_and_norms_are_told(self, tmp_path):
        make("mistral").save_pretrained(tmp_path)
        for family, name in (("qwen2", "q_proj.bias"), ("qwen3", "q_norm.weight")):
            edit_config(tmp_path, model_type=family)
            with pytest.raises(CheckpointError, match=f"self_attn.{name} is missing"):
                load_model(tmp_path, read_config(tmp_path), dtype=torch.float32, device=CPU)


class TestWriting:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize(
        ("family", "kind"), [(f, f) for f in ("qwen2", "qwen3")] + [("mistral", "llama")]
    )
    def test_transformers_answers_the_same_of_what_is_written(self, tmp_path, family, kind, shape):
        model = make(family, **SHAPES[shape])
        model.save_pretrained(tmp_path)
        config = read_config(tmp_path)
        written = config_to_hf(config)
        assert written["model_type"] == kind
        assert config_from_hf(json.loads(json.dumps(written))) == config
        (tmp_path / "config.json").write_text(json.dumps(written))
        again = AutoModelForCausalLM.from_pretrained(tmp_path)
        assert type(again).__name__ == written["architectures"][0]
        assert torch.equal(again(some_ids()).logits, model(some_ids()).logits)

    @pytest.mark.parametrize("flag", ["qkv_bias", "qk_norm"])
    def test_a_ladder_with_them_has_no_format(self, flag):
        config = replace(read("llama"), **{flag: True}, ladder_layers=(1,))
        with pytest.raises(CheckpointError, match="run them with --residual ladder"):
            config_to_hf(config)

    def test_both_have_no_format(self):
        config = replace(read("llama"), qkv_bias=True, qk_norm=True)
        with pytest.raises(CheckpointError, match="no checkpoint format"):
            config_to_hf(config)
