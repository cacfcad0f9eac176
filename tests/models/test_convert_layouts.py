"""Conversions of checkpoints that aren't plain Llama folders."""

import json

import pytest
import torch
from dolomite_files import block_values, dolomite_tensors, write_folder
from family_models import make
from llama_reference import (
    edit_config,
    load,
    make_llama,
    product_logits,
    reference_logits,
    some_ids,
)
from safetensors.torch import load_file
from tiny_checkpoint import write_tokenizer
from tokenizers import Tokenizer, normalizers
from tokenizers.models import BPE
from torch.testing import assert_close
from transformers import LlamaForCausalLM

from ladder_eval.errors import CheckpointError
from ladder_eval.harness.arm import arm_of
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.convert import convert
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources


def edit_json(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def converted(source, out, layers, tokenizer=None):
    choice = ResidualChoice(residual="ladder", ladder_layers=layers)
    write_tokenizer(source)
    if tokenizer is not None:
        tokenizer.save(str(source / "tokenizer.json"))
        edit_json(source / "tokenizer_config.json", tokenizer_class="LlamaTokenizer")
    convert(str(source), out, choice=choice, sources=WeightSources(notify=lambda _: None))
    return out


@pytest.mark.parametrize("alternate", [False, True])
def test_fused_tensors_are_taken_apart(tmp_path, alternate):
    model = make_llama()
    values = block_values(model, use_interleaved_weights=alternate) | {"eos_token_id": 7}
    write_folder(tmp_path / "fused", values, dolomite_tensors(model, alternate=alternate))
    out = converted(tmp_path / "fused", tmp_path / "out", 1)
    expected = {n: t for n, t in model.state_dict().items() if n != "lm_head.weight"}
    found = load_file(out / "model.safetensors")
    assert found.keys() - {"lm_head.weight"} == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert json.loads((out / "config.json").read_text())["eos_token_id"] == 7
    assert_close(product_logits(load(out), some_ids()), reference_logits(model, some_ids(), (1,)))
    theirs = LlamaForCausalLM.from_pretrained(out)  # as dense: transformers' own reading of it
    assert_close(theirs(some_ids()).logits, model(some_ids()).logits)


def test_defaults_of_another_family_are_written_out(tmp_path):
    """Mistral's eight key-value heads and 1e-6 are none of Llama's defaults."""
    model = make("mistral", num_attention_heads=8, num_key_value_heads=8, hidden_size=128)
    model.save_pretrained(tmp_path / "mistral")
    source = json.loads((tmp_path / "mistral" / "config.json").read_text())
    for name in ("num_key_value_heads", "rms_norm_eps", "head_dim"):
        source.pop(name, None)
    (tmp_path / "mistral" / "config.json").write_text(json.dumps(source))
    dense = read_config(tmp_path / "mistral")
    out = converted(tmp_path / "mistral", tmp_path / "out", [0])
    assert read_config(out) == dense.with_ladder([0])
    edit_config(out, ladder_layers=0, model_type="llama")
    theirs = LlamaForCausalLM.from_pretrained(out)
    assert_close(theirs(some_ids()).logits, product_logits(load(tmp_path / "mistral"), some_ids()))


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_what_the_format_cannot_express_is_refused(tmp_path, family):
    make(family).save_pretrained(tmp_path / family)
    with pytest.raises(CheckpointError, match="no checkpoint format for ladder models with"):
        converted(tmp_path / family, tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_a_mistral_tokenizer_gives_the_same_tokens(tmp_path):
    """transformers takes it as it is beside Mistral, and rebuilds it as Llama's elsewhere."""
    make("mistral").save_pretrained(tmp_path / "mistral")
    letters = {letter: i for i, letter in enumerate(["<unk>", "<s>", "</s>", "\u2581", "a", "b"])}
    tokenizer = Tokenizer(BPE(letters, [], unk_token="<unk>", fuse_unk=True))
    steps = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    out = tmp_path / "out"
    converted(tmp_path / "mistral", out, 1, tokenizer=tokenizer)
    sources = WeightSources(notify=lambda _: None)
    found = [
        arm_of(select(str(folder), choice=ResidualChoice(), sources=sources), folder, 1)
        for folder in (tmp_path / "mistral", out)
    ]
    source, ours = ([arm.tokenizer.encode(text) for text in ("a  b", "a</s>b")] for arm in found)
    assert source == ours == [tokenizer.encode(text).ids for text in ("a  b", "a</s>b")]
