"""A conversion holds the source's tensors, says what it is, and gives its answers."""

import errno
import json
import os
import re
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gguf_files import TOKENS, write_gguf
from llama_reference import (
    edit_config,
    load,
    make_llama,
    product_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from local_index import COMMIT, Hub, Server, ask_hub_at
from safetensors.torch import load_file
from tiny_checkpoint import write_tokenizer
from torch.testing import assert_close
from transformers import LlamaForCausalLM

from ladder_eval.errors import CheckpointError, UsageError
from ladder_eval.models import convert as job
from ladder_eval.models.checkpoint import load_model, read_config, tokenizer_sha256
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.hub_id import HubId
from ladder_eval.models.models_file import UserModel
from ladder_eval.models.registry import MODELS
from ladder_eval.models.selection import dense_baseline, select
from ladder_eval.models.weight_sources import WeightSources

CONVERTED = "converted without retraining"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def dense(tmp_path):
    save_llama(tmp_path / "dense", num_hidden_layers=4)
    write_tokenizer(tmp_path / "dense")
    (tmp_path / "dense" / "chat_template.jinja").write_text("{{ messages }}")
    return tmp_path / "dense"


@pytest.fixture
def convert(tmp_path):
    def convert(source, out=tmp_path / "out", *, ladder_layers=None, residual="ladder", **more):
        choice = ResidualChoice(residual=residual, ladder_layers=ladder_layers)
        sources = WeightSources(notify=lambda _: None, model_dir=more.pop("model_dir", None))
        return job.convert(str(source), out, choice=choice, sources=sources, **more)

    return convert


def chosen(model, *, users=None, model_dir=None, **choice):
    sources = WeightSources(notify=lambda _: None, user_models=users or {}, model_dir=model_dir)
    return select(str(model), choice=ResidualChoice(**choice), sources=sources)


def all_tensors(folder):
    return {
        name: tensor
        for file in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }


def assert_identical(found, expected):
    assert set(found) == set(expected)
    for name, tensor in found.items():
        assert tensor.dtype == expected[name].dtype
        assert torch.equal(tensor, expected[name]), name


def refusal(convert, *arguments, error=UsageError, **options):
    with pytest.raises(error) as caught:
        convert(*arguments, **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


class TestTensors:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("shard_bytes", [5 * 10**9, 30_000])
    def test_they_are_the_sources_bit_for_bit(self, tmp_path, convert, dtype, shard_bytes):
        model = make_llama(tie_word_embeddings=False).to(dtype)
        model.save_pretrained(tmp_path / "dense", max_shard_size="50KB")
        written = convert(tmp_path / "dense", shard_bytes=shard_bytes)
        expected = all_tensors(tmp_path / "dense")
        assert_identical(all_tensors(tmp_path / "out"), expected)
        assert (written.tensors, written.size_bytes) == (
            len(expected),
            sum(tensor.nbytes for tensor in expected.values()),
        )
        single = (tmp_path / "out" / "model.safetensors").exists()
        assert single == (shard_bytes > written.size_bytes)
        theirs = LlamaForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
        assert_identical(dict(theirs.state_dict()), dict(model.state_dict()))

    def test_a_tied_head_is_written_once(self, convert, dense, tmp_path):
        convert(dense)
        assert "lm_head.weight" not in all_tensors(tmp_path / "out")
        theirs = LlamaForCausalLM.from_pretrained(tmp_path / "out")
        assert_identical(
            dict(theirs.state_dict()), dict(make_llama(num_hidden_layers=4).state_dict())
        )

    def test_a_gguf_file(self, convert, tmp_path):
        model = make_llama(vocab_size=len(TOKENS))
        write_gguf(tmp_path / "small.gguf", model)
        convert(tmp_path / "small.gguf")
        expected = {n: w for n, w in model.state_dict().items() if n != "lm_head.weight"}
        assert_identical(all_tensors(tmp_path / "out"), expected)
        assert (tmp_path / "out" / "tokenizer.json").is_file()

    def test_memory_holds_one_of_them(self, convert, tmp_path, monkeypatch):
        """Or a few, of 8 MB at most; cloned, since those of mapped files take none."""
        wide = {"hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4}
        few_heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 2048}
        save_llama(tmp_path / "dense", **wide, **few_heads)
        seen, whole_tensors = [_anonymous()], job.whole_tensors

        def cloned(*arguments):
            return map(clone, whole_tensors(*arguments))

        def clone(named):
            seen.append(_anonymous())
            return named[0], named[1].clone()

        monkeypatch.setattr(job, "whole_tensors", cloned)
        written = convert(tmp_path / "dense")
        assert written.size_bytes > 170e6
        assert max(seen) - seen[0] < 60e6


def _anonymous():
    """Bytes of this process's memory that belong to no file."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s+(\d+) kB", text)[1])


class TestConfig:
    def test_the_sources_values_are_kept(self, convert, dense, tmp_path):
        edit_config(dense, eos_token_id=[2, 5], _name_or_path="/home/ada/x", auto_map={"A": "b"})
        source = json.loads((dense / "config.json").read_text())
        convert(dense, ladder_layers=2)
        assert json.loads((tmp_path / "out" / "config.json").read_text()) == {
            name: value
            for name, value in source.items()
            if name not in ("_name_or_path", "auto_map")
        } | {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llamaLadder",
            "ladder_layers": 2,
            "ladder_eval": {"adaptation": CONVERTED, "source": str(dense)},
        }
        assert source["rope_parameters"] == {"rope_theta": 10000.0, "rope_type": "default"}

    @pytest.mark.parametrize(
        ("given", "layers", "stored", "words"),
        [
            (None, (0, 1, 2, 3), 4, "the last 4"),
            (3, (1, 2, 3), 3, "the last 3"),
            ((3, 2), (2, 3), 2, "the last 2"),
            ((0, 2), (0, 2), [0, 2], "0, 2"),
        ],
    )
    def test_ladder_layers(self, convert, dense, tmp_path, given, layers, stored, words):
        written = convert(dense, ladder_layers=given)
        assert json.loads((tmp_path / "out" / "config.json").read_text())["ladder_layers"] == stored
        assert read_config(tmp_path / "out") == read_config(dense).with_ladder(layers)
        assert str(written) == (
            f"Written to {tmp_path / 'out'}: 38 tensors, 0.5 MB, ladder layers: {words} of 4; "
            "converted without retraining."
        )

    def test_tokenizer_and_generation_files_are_copied(self, convert, dense, tmp_path):
        (dense / "notes.txt").write_text("no part of a checkpoint")
        convert(dense)
        others = {file.name for file in dense.iterdir()} - {"config.json", "notes.txt"}
        for name in others:
            if name != "model.safetensors":
                assert (tmp_path / "out" / name).read_bytes() == (dense / name).read_bytes()
        assert {file.name for file in (tmp_path / "out").iterdir()} == others | {"config.json"}
        assert {"generation_config.json", "chat_template.jinja", "tokenizer.json"} < others
        assert tokenizer_sha256(tmp_path / "out") == tokenizer_sha256(dense)


class TestAnswers:
    @pytest.mark.parametrize("layers", [2, (0, 2)])
    def test_they_are_those_of_the_source_with_ladder_layers(
        self, convert, dense, tmp_path, layers
    ):
        convert(dense, ladder_layers=layers)
        ours = product_logits(load(tmp_path / "out"), some_ids())
        config = chosen(dense, ladder_layers=layers).config
        source = load_model(dense, config, dtype=torch.float32, device=torch.device("cpu"))
        assert torch.equal(ours, product_logits(source, some_ids()))
        stated = reference_logits(make_llama(num_hidden_layers=4), some_ids(), config.ladder_layers)
        assert_close(ours, stated, rtol=0, atol=1e-4)


class TestLabels:
    """Nobody may take a conversion for a model that was trained with its ladder layers."""

    def test_by_its_folder(self, convert, dense, tmp_path):
        convert(dense, ladder_layers=2)
        found = chosen(tmp_path / "out")
        assert (found.name, found.adaptation) == ("out", CONVERTED)
        assert found.weights == f"{tmp_path / 'out'}, converted from {dense}"
        with pytest.raises(UsageError, match="out names no dense baseline; give --baseline"):
            dense_baseline([found])

    def test_under_a_name_of_the_users(self, convert, dense, tmp_path):
        convert(dense, ladder_layers=2)
        users = {"mine": UserModel(name="mine", checkpoint=tmp_path / "out")}
        assert chosen("mine", users=users).adaptation == CONVERTED

    def test_after_training_the_user_drops_it(self, convert, dense, tmp_path):
        convert(dense, ladder_layers=2)
        edit_config(tmp_path / "out", ladder_eval=None)
        found = chosen(tmp_path / "out")
        assert (found.adaptation, found.weights) == ("as trained", str(tmp_path / "out"))

    def test_without_its_ladder_layers_it_is_the_dense_model_again(self, convert, dense, tmp_path):
        convert(dense)
        edit_config(tmp_path / "out", model_type="llama", ladder_layers=None)
        assert chosen(tmp_path / "out").adaptation == "as trained"

    def test_given_to_a_named_model(self, convert, dense, tmp_path, monkeypatch):
        convert(dense, ladder_layers=2)
        name = "hybrid_ladder_smollm2_135m_10l"
        named = replace(MODELS[name], config=read_config(tmp_path / "out"))
        monkeypatch.setitem(MODELS, name, named)
        users = {name: UserModel(name=name, checkpoint=tmp_path / "out")}
        for found in (chosen(name, users=users), chosen(name, model_dir=tmp_path / "out")):
            assert (found.name, found.adaptation) == (name, CONVERTED)

    def test_transformers_keeps_it(self, convert, dense, tmp_path):
        convert(dense, ladder_layers=2)
        LlamaForCausalLM.from_pretrained(tmp_path / "out").save_pretrained(tmp_path / "again")
        assert chosen(tmp_path / "again").adaptation == CONVERTED
        assert chosen(tmp_path / "again").config.ladder_layers == (2, 3)

    def test_a_relative_source_stays_as_it_was_given(self, convert, dense, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        convert("dense", Path("new/out"))
        assert str(tmp_path) not in (tmp_path / "new" / "out" / "config.json").read_text()
        assert chosen("new/out").weights == f"{tmp_path / 'new' / 'out'}, converted from dense"

    @pytest.mark.parametrize(
        "label", [3, "x", {"adaptation": "as trained"}, {"adaptation": 1, "source": "x"}]
    )
    def test_one_of_another_form(self, dense, label):
        edit_config(dense, ladder_layers=2, ladder_eval=label)
        with pytest.raises(CheckpointError, match="dense has a ladder_eval of an unknown form"):
            chosen(dense)

    def test_from_the_hub(self, convert, dense, tmp_path, monkeypatch):
        files = {file.name: file.read_bytes() for file in dense.iterdir()}
        monkeypatch.setattr(Hub, "files", files, raising=False)
        monkeypatch.setattr(Hub, "served", [], raising=False)
        with Server(Hub) as server:
            ask_hub_at(server.url, tmp_path / "home", monkeypatch)
            convert(HubId("org/tiny"), ladder_layers=2)
        words = f"org/tiny at {COMMIT} from the Hugging Face Hub"
        assert chosen(tmp_path / "out").weights == f"{tmp_path / 'out'}, converted from {words}"
        assert_identical(all_tensors(tmp_path / "out"), all_tensors(dense))


class TestRefusals:
    def test_a_source_with_ladder_layers(self, convert, dense, tmp_path):
        edit_config(dense, ladder_layers=2)
        assert refusal(convert, dense) == f"{dense} is hybrid ladder already; name a dense model."
        message = refusal(convert, "ladder_smollm2_135m", ladder_layers=3)
        assert message == "ladder_smollm2_135m is ladder already; name a dense model."
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("residual", ["parallel", "standard", "desync-2x"])
    def test_other_residuals(self, convert, dense, residual):
        message = refusal(convert, dense, residual=residual)
        assert message.startswith(f"There is no checkpoint format for {residual} models; give ")

    def test_layers_that_it_lacks_before_anything_is_fetched(self, convert):
        message = refusal(convert, "smollm2_135m", ladder_layers=31, error=CheckpointError)
        assert message == "ladder_layers=31 must be between 0 and 30 layers."

    def test_a_name_without_weights(self, convert):
        assert refusal(convert, "standard_3b").startswith("No weights of standard_3b are known; ")

    def test_a_folder_or_file_that_is_there(self, convert, dense, tmp_path):
        (tmp_path / "file").touch()
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        for out in (tmp_path / "file", tmp_path / "full", dense):
            assert (
                refusal(convert, dense, out)
                == f"{out} exists and is no empty folder; name another one."
            )
        assert [file.name for file in (tmp_path / "full").iterdir()] == ["file"]

    def test_an_empty_folder_will_do(self, convert, dense, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "out")
        convert(dense, tmp_path / "link")
        assert_identical(all_tensors(tmp_path / "out"), all_tensors(dense))

    @pytest.mark.parametrize("inside", ["ladder", "deep/ladder", "../dense/ladder"])
    def test_inside_the_source(self, convert, dense, inside):
        message = refusal(convert, dense, dense / inside)
        assert (
            message
            == f"{dense / inside} is inside the source {dense}; name a folder outside of it."
        )

    def test_a_disk_that_is_too_small(self, convert, dense, tmp_path, monkeypatch):
        usage = namedtuple("usage", "free")(400_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        assert refusal(convert, dense, tmp_path / "new" / "out") == (
            f"The conversion takes 0.5 MB, but {tmp_path} has 0.4 MB left; make room there, or "
            "name another folder."
        )
        assert not (tmp_path / "new").exists()

    def test_a_disk_that_becomes_full(self, convert, dense, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(shutil, "copyfile", full)
        assert refusal(convert, dense) == (
            f"{tmp_path / 'out'} can't be written (No space left on device); make room there, or "
            "name another folder."
        )
        assert {place.name for place in tmp_path.iterdir()} == {"dense"}

    def test_a_place_below_a_file(self, convert, dense, tmp_path):
        (tmp_path / "file").touch()
        out = tmp_path / "file" / "out"
        assert refusal(convert, dense, out).startswith(f"{out} can't be written (")
        long = tmp_path / ("x" * 300)
        assert "can't be written (File name too long)" in refusal(convert, dense, long)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, CheckpointError])
    def test_an_interruption_leaves_nothing(self, convert, dense, tmp_path, monkeypatch, error):
        whole_tensors = job.whole_tensors

        def broken(*arguments):
            for number, named in enumerate(whole_tensors(*arguments)):
                if number == 5:
                    assert any(place.name.startswith(".out-") for place in tmp_path.iterdir())
                    raise error
                yield named

        monkeypatch.setattr(job, "whole_tensors", broken)
        with pytest.raises(error):
            convert(dense)
        assert {place.name for place in tmp_path.iterdir()} == {"dense"}

    def test_a_damaged_source(self, convert, dense, tmp_path):
        file = dense / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])
        assert "not a readable safetensors file" in refusal(convert, dense, error=CheckpointError)
        assert {place.name for place in tmp_path.iterdir()} == {"dense"}


def test_a_tied_head_that_differs_is_refused_before_anything_is_written(convert, tmp_path):
    make_llama(tie_word_embeddings=False).save_pretrained(tmp_path / "dense")
    edit_config(tmp_path / "dense", tie_word_embeddings=True)
    assert "a head that differs" in refusal(convert, tmp_path / "dense", error=CheckpointError)
    assert not (tmp_path / "out").exists()


def test_a_link_to_itself(convert, dense, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "loop" in refusal(convert, dense, tmp_path / "loop")
    assert "loop" in refusal(convert, dense, tmp_path / "loop" / "out")
