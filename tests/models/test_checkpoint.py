import json
import re
import shutil

import pytest
import torch
from llama_reference import (
    edit_config,
    load,
    make_llama,
    product_logits,
    save_llama,
    some_ids,
)
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import LlamaForCausalLM

from ladder_eval.errors import CheckpointError
from ladder_eval.models.checkpoint import (
    load_model,
    read_config,
    tokenizer_sha256,
    weights_sha256,
)
from ladder_eval.models.stored import weight_files

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path):
    save_llama(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def sharded(tmp_path):
    make_llama().save_pretrained(tmp_path / "sharded", max_shard_size="100KB")
    return tmp_path / "sharded"


def edit_weights(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(folder, call=load):
    with pytest.raises(CheckpointError) as caught:
        call(folder)
    message = str(caught.value)
    assert message.endswith(".")
    assert str(folder) in message
    return message


class TestWeights:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_every_weight_is_converted_to_the_dtype(self, folder, dtype):
        model = load_model(folder, read_config(folder), dtype=dtype, device=CPU)
        stored = load_file(folder / "model.safetensors")
        for name, weight in model.state_dict().items():
            source = stored["model." + name.replace("lm_head", "embed_tokens")]
            assert_close(weight, source.to(dtype), rtol=0, atol=0)

    def test_half_precision_answers_are_float32_and_close(self, folder):
        model = load_model(folder, read_config(folder), dtype=torch.bfloat16, device=CPU)
        logits = product_logits(model, some_ids())
        assert logits.dtype == torch.float32
        assert_close(logits, product_logits(load(folder), some_ids()), rtol=0, atol=0.1)

    def test_a_bfloat16_file_is_widened_exactly(self, tmp_path):
        make_llama().bfloat16().save_pretrained(tmp_path)
        theirs = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
        expected = theirs(some_ids()).logits.detach()
        assert_close(product_logits(load(tmp_path), some_ids()), expected, rtol=0, atol=1e-5)

    def test_a_tied_head_is_one_tensor_with_the_embedding(self, folder):
        model = load(folder)
        assert model.lm_head.weight.data_ptr() == model.embed_tokens.weight.data_ptr()

    def test_the_model_is_ready_for_inference_alone(self, folder):
        model = load(folder)
        assert not model.training
        assert not any(p.requires_grad for p in model.parameters())

    def test_ladder_layers_may_differ_from_the_checkpoint(self, folder):
        config = read_config(folder).with_ladder(2)
        converted = load_model(folder, config, dtype=torch.float32, device=CPU)
        edit_config(folder, ladder_layers=2)
        assert torch.equal(
            product_logits(converted, some_ids()), product_logits(load(folder), some_ids())
        )

    def test_names_without_the_prefix_and_stored_rotary_frequencies_are_fine(self, folder):
        expected = product_logits(load(folder), some_ids())

        def rename(tensors):
            for name in list(tensors):
                tensors[name.removeprefix("model.")] = tensors.pop(name)
            tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)

        edit_weights(folder, rename)
        assert torch.equal(product_logits(load(folder), some_ids()), expected)

    def test_a_head_stored_beside_the_embedding_it_is_tied_to_is_fine(self, folder):
        edit_weights(
            folder,
            lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}),
        )
        expected = make_llama()(some_ids()).logits.detach()
        assert_close(product_logits(load(folder), some_ids()), expected, rtol=0, atol=1e-5)

    def test_a_head_of_its_own_in_a_tied_checkpoint_is_never_dropped_silently(self, folder):
        """transformers keeps such a head; refusing the checkpoint is the other honest answer."""
        edit_weights(folder, lambda t: t.update({"lm_head.weight": torch.randn(80, 64)}))
        theirs = LlamaForCausalLM.from_pretrained(folder)(some_ids()).logits.detach()
        try:
            ours = product_logits(load(folder), some_ids())
        except CheckpointError:
            return
        assert_close(ours, theirs, rtol=0, atol=1e-4)


class TestDamage:
    def test_all_that_does_not_fit_is_told_at_once(self, folder):
        def edit(tensors):
            del tensors["model.norm.weight"]
            tensors["model.layers.0.self_attn.q_norm.weight"] = torch.ones(16)
            tensors["model.layers.1.mlp.up_proj.weight"] = torch.ones(95, 64)

        edit_weights(folder, edit)
        message = refusal(folder)
        assert "norm.weight is missing" in message
        assert "layers.0.self_attn.q_norm.weight is unknown" in message
        assert "layers.1.mlp.up_proj.weight is [95, 64] instead of [96, 64]" in message
        assert message.count("\n") == 0

    def test_a_long_list_is_cut_but_counted(self, folder):
        edit_config(folder, hidden_size=32)  # an axis of all 20 tensors
        message = refusal(folder)
        assert message.count("instead of") == 10
        assert message.endswith("and 10 more.")

    def test_an_untied_head_must_be_there(self, folder):
        edit_config(folder, tie_word_embeddings=False)
        assert "lm_head.weight is missing" in refusal(folder)

    @pytest.mark.parametrize("length", [0, 4, 8, 100, 1000, -100, -1])
    def test_truncated_weights(self, folder, length):
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:length])
        assert "model.safetensors is not a readable safetensors file" in refusal(folder)

    def test_a_header_that_promises_too_much(self, folder):
        file = folder / "model.safetensors"
        file.write_bytes((2**63 - 1).to_bytes(8, "little") + file.read_bytes()[8:])
        assert "is not a readable safetensors file" in refusal(folder)

    def test_no_weights(self, folder):
        (folder / "model.safetensors").unlink()
        assert "has no model.safetensors; copy the whole checkpoint" in refusal(folder)

    def test_a_pickle_is_not_even_tried(self, folder):
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        assert "has no model.safetensors" in refusal(folder)

    @pytest.mark.parametrize(
        "text", ["", "{", "[1]", '"llama"', "\x00\x01", "null", "{'model_type': 'llama'}"]
    )
    def test_garbage_instead_of_a_configuration(self, folder, text):
        (folder / "config.json").write_text(text)
        assert "config.json" in refusal(folder)

    def test_a_configuration_that_is_not_text(self, folder):
        (folder / "config.json").write_bytes(b"\xff\xfe\x00{}")
        assert "is not readable JSON" in refusal(folder)

    def test_a_configuration_that_is_refused_names_its_folder(self, folder):
        edit_config(folder, model_type="mixtral")
        assert "mixtral" in refusal(folder)

    def test_sizes_no_machine_has(self, folder):
        edit_config(folder, vocab_size=2**60)
        refusal(folder)

    def test_a_folder_that_is_no_checkpoint(self, tmp_path):
        message = refusal(tmp_path, read_config)
        assert "is not a checkpoint folder: it has no config.json" in message

    def test_a_folder_that_does_not_exist(self, tmp_path):
        assert "is not a checkpoint folder" in refusal(tmp_path / "nowhere", read_config)


class TestIndex:
    def test_all_shards_are_found(self, sharded):
        assert set(weight_files(sharded)) == set(sharded.glob("*.safetensors"))

    def test_a_missing_shard_is_named(self, sharded):
        (sharded / "model-00002-of-00003.safetensors").unlink()
        assert "has no model-00002-of-00003.safetensors" in refusal(sharded)

    @pytest.mark.parametrize(
        "name", ["../model.safetensors", "/etc/hosts", "a/b.safetensors", ".."]
    )
    def test_a_file_outside_the_folder_is_refused(self, sharded, name):
        self._write(sharded, {"weight_map": {"model.norm.weight": name}})
        assert re.search(r"outside its folder|has no", refusal(sharded))

    @pytest.mark.parametrize(
        "content",
        [{}, [], {"weight_map": []}, {"weight_map": {"a": 1}}, {"weight_map": None}, "text"],
        ids=str,
    )
    def test_a_damaged_index(self, sharded, content):
        self._write(sharded, content)
        refusal(sharded)

    def test_a_single_file_counts_beside_an_index(self, sharded, folder):
        """As for transformers."""
        edit_weights(folder, lambda tensors: tensors["model.norm.weight"].fill_(3))
        shutil.copy(folder / "model.safetensors", sharded)
        assert weight_files(sharded) == (sharded / "model.safetensors",)
        theirs = LlamaForCausalLM.from_pretrained(sharded).model.norm.weight
        assert load(sharded).norm.weight.tolist() == theirs.tolist() == [3.0] * len(theirs)

    def test_an_index_of_nothing_has_no_weights(self, sharded):
        self._write(sharded, {"weight_map": {}})
        refusal(sharded)

    @staticmethod
    def _write(folder, content):
        (folder / "model.safetensors.index.json").write_text(json.dumps(content))


class TestHashes:
    def test_any_byte_of_any_shard_counts(self, sharded):
        before = weights_sha256(sharded)
        assert weights_sha256(sharded) == before
        file = weight_files(sharded)[-1]
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        assert weights_sha256(sharded) != before

    def test_the_configuration_and_the_place_do_not_count_as_weights(self, folder):
        before = weights_sha256(folder)
        edit_config(folder, ladder_layers=1)
        assert weights_sha256(folder.rename(folder.with_name("moved"))) == before

    @pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
    def test_any_byte_of_the_tokenizer_counts(self, tmp_path, name):
        (tmp_path / "tokenizer.json").write_text('{"a": 1}')
        (tmp_path / "tokenizer_config.json").write_text('{"b": 1}')
        before = tokenizer_sha256(tmp_path)
        assert tokenizer_sha256(tmp_path) == before
        file = tmp_path / name
        file.write_text(file.read_text().replace("1", "2"))
        assert tokenizer_sha256(tmp_path) != before

    def test_contents_that_change_places_count(self, tmp_path):
        for name, text in (("tokenizer_config.json", "{}"), ("special_tokens_map.json", "{}")):
            (tmp_path / "tokenizer.json").write_text("{}")
            (tmp_path / name).write_text(text)
        three = tokenizer_sha256(tmp_path)
        (tmp_path / "special_tokens_map.json").unlink()
        two = tokenizer_sha256(tmp_path)
        (tmp_path / "tokenizer_config.json").rename(tmp_path / "special_tokens_map.json")
        assert len({three, two, tokenizer_sha256(tmp_path)}) == 3

    def test_a_tokenizer_must_be_there(self, folder):
        assert "has no tokenizer.json" in refusal(folder, tokenizer_sha256)
