"""Every layout answers as transformers' model of the same weights, alone and on several ranks."""

import json
from contextlib import contextmanager

import pytest
import torch
from dolomite_files import (
    block_values,
    dolomite_tensors,
    flat_values,
    oldest_values,
    write_folder,
)
from llama_reference import (
    UNEVEN,
    edit_config,
    load,
    make_llama,
    parallel_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from thread_ranks import on_ranks
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.errors import CheckpointError
from ladder_eval.models import stored as stored_files
from ladder_eval.models.checkpoint import (
    load_model,
    read_config,
    tensor_layout,
    weights_sha256,
    whole_tensors,
)
from ladder_eval.models.layout import stored_rows

SHAPES = {
    "grouped queries": {},
    "3 key-value heads": UNEVEN,
    "full heads": {"num_key_value_heads": 4, "tie_word_embeddings": False},
    "one key-value head": {"num_key_value_heads": 1},
}
CPU = torch.device("cpu")


def sharded(folder, model):
    model.save_pretrained(folder, max_shard_size="60KB")
    assert (folder / "model.safetensors.index.json").is_file()


def ladder(layers):
    def write(folder, model):
        model.save_pretrained(folder)
        edit_config(folder, model_type="llamaLadder", ladder_layers=layers)

    return write


def dolomite(values, kind, **names):
    def write(folder, model):
        tensors = dolomite_tensors(model, palm=kind == "palm", **names)
        write_folder(folder, values(model, kind), tensors)

    return write


def alternating(folder, model):
    values = block_values(model, use_interleaved_weights=True)
    write_folder(folder, values, dolomite_tensors(model, alternate=True))


OLDER = {"mixer": "attn", "mlp": "mlp"}
# Layout → how it is written, and by which equations its model answers.
LAYOUTS = {
    "single file": (lambda folder, model: model.save_pretrained(folder), "standard"),
    "sharded": (sharded, "standard"),
    "llamaLadder, number": (ladder(1), "last"),
    "llamaLadder, list": (ladder([1]), "last"),
    "gpt_base": (dolomite(block_values, "gpt_base"), "standard"),
    "gpt_base, alternating": (alternating, "standard"),
    "gpt_dolomite": (dolomite(flat_values, "gpt_dolomite"), "standard"),
    "gpt_dolomite, oldest": (dolomite(oldest_values, "gpt_dolomite", **OLDER), "standard"),
    "ladder_residual": (dolomite(block_values, "ladder_residual"), "ladder"),
    "palm": (dolomite(block_values, "palm"), "parallel"),
    "palm, oldest": (dolomite(oldest_values, "palm", **OLDER), "parallel"),
}


def expected_logits(model, residual):
    if residual == "standard":
        return model(some_ids()).logits.detach()
    if residual == "parallel":
        return parallel_logits(model, some_ids())
    return reference_logits(model, some_ids(), {"ladder": (0, 1), "last": (1,)}[residual])


def logits(folder, tp_size):
    config = read_config(folder)

    def work(tp):
        model = load_model(folder, config, dtype=torch.float32, device=CPU, tp=tp)
        return model.logits(model(some_ids()))

    return torch.cat(on_ranks(tp_size, work), -1)


@pytest.mark.parametrize("tp_size", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_answers_as_the_model_it_is_made_of(tmp_path, layout, shape, tp_size):
    model = make_llama(**SHAPES[shape])
    write, residual = LAYOUTS[layout]
    write(tmp_path / "model", model)
    ours = logits(tmp_path / "model", tp_size)
    assert_close(ours, expected_logits(model, residual), rtol=0, atol=2e-5)


def test_the_residuals_above_differ():
    model = make_llama()
    answers = [expected_logits(model, r) for r in ("standard", "last", "ladder", "parallel")]
    assert all((a - b).abs().max() > 0.1 for i, a in enumerate(answers) for b in answers[i + 1 :])


@pytest.mark.parametrize(
    ("kind", "residual"),
    [("gpt_base", "standard"), ("ladder_residual", "ladder"), ("palm", "parallel")],
)
def test_the_model_type_tells_the_residual(tmp_path, kind, residual):
    dolomite(block_values, kind)(tmp_path, make_llama())
    assert read_config(tmp_path).residual == residual


def test_fused_biases(tmp_path):
    torch.manual_seed(3)
    llama = make_llama(**UNEVEN)
    for layer in llama.model.layers:
        for kind in "qkv":
            linear = getattr(layer.self_attn, f"{kind}_proj")
            linear.bias = torch.nn.Parameter(torch.randn(linear.out_features))
    values = block_values(llama)
    for block in values["sequence_mixer_blocks"]:
        block["qkv_bias"] = True
    write_folder(tmp_path, values, dolomite_tensors(llama))
    assert read_config(tmp_path).qkv_bias
    for tp_size in (1, 2):
        assert_close(
            logits(tmp_path, tp_size), llama(some_ids()).logits.detach(), rtol=0, atol=2e-5
        )


class TestReading:
    @pytest.mark.parametrize("size", [1, 2, 4])
    def test_a_rank_reads_only_its_rows_of_fused_tensors(self, tmp_path, monkeypatch, size):
        dolomite(block_values, "gpt_base")(tmp_path, make_llama(**UNEVEN))
        read = recorded(monkeypatch)
        for rank in range(size):
            read.clear()
            model = part(tmp_path, rank, size)
            assert sum(read) == sum(weight.numel() for weight in model.parameters())

    def test_parts_are_no_views_of_whole_tensors(self, tmp_path):
        alternating(tmp_path, make_llama(**UNEVEN))
        for weight in part(tmp_path, 1, 2).parameters():
            assert weight.untyped_storage().nbytes() == weight.numel() * weight.element_size()
            assert weight.is_contiguous()

    @pytest.mark.parametrize(
        ("rows", "own", "stored"),
        [
            ([range(10, 14)], range(1, 3), [range(11, 13)]),
            ([range(4), range(8, 12)], range(2, 6), [range(2, 4), range(8, 10)]),
            ([range(4), range(8, 12)], range(4, 8), [range(8, 12)]),
            ([range(4), range(8, 12)], range(4), [range(4)]),
            ([range(1, 8, 2)], range(1, 3), [range(3, 7, 2)]),
            (
                [range(2), range(5, 7), range(9, 11)],
                range(1, 5),
                [*map(range, (1, 5, 9), (2, 7, 10))],
            ),
        ],
    )
    def test_rows_of_rows(self, rows, own, stored):
        assert list(stored_rows(rows, own)) == stored


def part(folder, rank, size):
    tp = TensorParallel(rank, size)
    return load_model(folder, read_config(folder), dtype=torch.float32, device=CPU, tp=tp)


def recorded(monkeypatch):
    """How many numbers are read, one by one as they are."""
    read = []

    class Piece:
        def __init__(self, piece):
            self._piece = piece

        def __getitem__(self, index):
            read.append(self._piece[index].numel())
            return self._piece[index]

    class File:
        def __init__(self, file):
            self._file = file

        def get_slice(self, name):
            return Piece(self._file.get_slice(name))

    @contextmanager
    def recording(file, framework):
        with safe_open(file, framework=framework) as tensors:
            yield File(tensors)  # which has no get_tensor

    monkeypatch.setattr(stored_files, "safe_open", recording)
    return read


class TestWholeTensors:
    """What a checkpoint holds, as Hugging Face would store it."""

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("layout", [name for name in LAYOUTS if "palm" not in name])
    def test_they_are_those_of_transformers(self, tmp_path, layout, shape):
        model = make_llama(**SHAPES[shape]).bfloat16()
        LAYOUTS[layout][0](tmp_path / "model", model)
        folder = tmp_path / "model"
        found = dict(whole_tensors(folder, read_config(folder)))
        model.save_pretrained(tmp_path / "theirs")
        theirs = load_file(tmp_path / "theirs" / "model.safetensors")
        assert found.keys() == theirs.keys()
        for name, tensor in theirs.items():
            assert found[name].dtype == torch.bfloat16
            assert torch.equal(found[name], tensor), name
        layout = tensor_layout(folder, read_config(folder))
        assert list(layout) == list(found)
        assert layout == {name: ("BF16", tuple(t.shape)) for name, t in theirs.items()}

    def test_what_is_written_of_them_is_transformers_model(self, tmp_path):
        model = make_llama(**UNEVEN)
        alternating(tmp_path / "fused", model)
        (tmp_path / "plain").mkdir()
        tensors = dict(whole_tensors(tmp_path / "fused", read_config(tmp_path / "fused")))
        save_file(tensors, tmp_path / "plain" / "model.safetensors", metadata={"format": "pt"})
        model.config.save_pretrained(tmp_path / "plain")
        theirs = LlamaForCausalLM.from_pretrained(tmp_path / "plain")
        assert torch.equal(theirs(some_ids()).logits, model(some_ids()).logits)

    def test_both_halves_of_a_parallel_layer_have_its_norm(self, tmp_path):
        model = make_llama()
        dolomite(block_values, "palm")(tmp_path, model)
        found = dict(whole_tensors(tmp_path, read_config(tmp_path)))
        norm = model.model.layers[1].input_layernorm.weight
        for name in ("input_layernorm", "post_attention_layernorm"):
            assert torch.equal(found[f"model.layers.1.{name}.weight"], norm)

    def test_dtypes_may_differ_and_order_is_that_of_the_files(self, tmp_path):
        save_llama(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        tensors = {n: t.half() if "norm" in n else t.double() for n, t in tensors.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        layout = tensor_layout(tmp_path, read_config(tmp_path))
        assert {dtype for dtype, _ in layout.values()} == {"F16", "F64"}
        header = (tmp_path / "model.safetensors").read_bytes()
        entries = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
        entries.pop("__metadata__", None)
        assert list(layout) == sorted(entries, key=lambda name: entries[name]["data_offsets"])
        found = dict(whole_tensors(tmp_path, read_config(tmp_path)))
        assert all(torch.equal(found[name], tensors[name]) for name in tensors)

    @pytest.mark.parametrize("call", [tensor_layout, lambda *given: list(whole_tensors(*given))])
    def test_what_does_not_fit_is_refused_as_in_loading(self, tmp_path, call):
        model = make_llama()
        tensors = dolomite_tensors(model)
        del tensors["transformer.ln_f.weight"]
        tensors["transformer.wpe.weight"] = torch.ones(3)
        tensors["transformer.h.1.mlp_block.c_fc.weight"] = torch.ones(191, 64)
        write_folder(tmp_path, block_values(model), tensors)
        messages = []
        for attempt in (call, lambda folder, _: load(folder)):
            with pytest.raises(CheckpointError) as caught:
                attempt(tmp_path, read_config(tmp_path))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert messages[0] == (
            f"The tensors in {tmp_path} don't fit its config.json: transformer.ln_f.weight is "
            "missing; transformer.wpe.weight is unknown; transformer.h.1.mlp_block.c_fc.weight "
            "is [191, 64] instead of [192, 64]."
        )


class TestNames:
    def test_a_tensor_of_both_generations_is_refused(self, tmp_path):
        model = make_llama()
        tensors = dolomite_tensors(model)
        name = "transformer.h.0.attn.c_proj.weight"
        tensors[name] = tensors[name.replace("attn", "sequence_mixer", 1)].clone()
        write_folder(tmp_path, block_values(model), tensors)
        with pytest.raises(CheckpointError, match=r"holds \S*sequence_mixer.c_proj.weight twice"):
            load(tmp_path)

    def test_layers_are_counted_before_they_are_built(self, tmp_path):
        model = make_llama()
        values = block_values(model)
        for name in ("sequence_mixer_blocks", "mlp_blocks"):
            values[name] *= 50
        values["num_layers"] = 100
        write_folder(tmp_path, values, dolomite_tensors(model))
        with pytest.raises(CheckpointError, match="they are of 2 layers, not of num_hidden"):
            load(tmp_path)

    def test_llama_tensors_are_no_dolomite_checkpoint(self, tmp_path):
        model = save_llama(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps(block_values(model)))
        with pytest.raises(CheckpointError, match="they are of 0 layers"):
            load(tmp_path)


def test_the_order_of_gate_and_up_is_part_of_the_weights_hash(tmp_path):
    """Otherwise recorded answers of wrongly read weights would be taken for the right ones."""
    model = make_llama()
    write_folder(tmp_path, block_values(model), dolomite_tensors(model))
    plain = weights_sha256(tmp_path)
    values = block_values(model, use_interleaved_weights=True)
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert weights_sha256(tmp_path) != plain
    with_flag = block_values(model, use_interleaved_weights=False)
    (tmp_path / "config.json").write_text(json.dumps(with_flag))
    assert weights_sha256(tmp_path) == plain


def test_the_fusing_of_these_tests_is_that_of_the_documented_loop():
    """Row by row, as the source of the format describes it, for 9 heads in 3 groups of 8."""
    model = LlamaForCausalLM(LlamaConfig(**(make_llama(**UNEVEN).config.to_dict())))
    attention = model.model.layers[0].self_attn
    fused = dolomite_tensors(model)["transformer.h.0.sequence_mixer.c_attn.weight"]
    query, key, value = (getattr(attention, f"{kind}_proj").weight for kind in "qkv")
    rows = []
    for group in range(3):
        rows += list(query[group * 24 : (group + 1) * 24])
        rows += list(key[group * 8 : (group + 1) * 8])
        rows += list(value[group * 8 : (group + 1) * 8])
    assert torch.equal(fused, torch.stack(rows))
