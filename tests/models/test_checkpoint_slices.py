"""What each rank reads of a checkpoint, held against slices cut by hand."""

from contextlib import contextmanager

import pytest
import torch
from llama_reference import SHAPE, UNEVEN, edit_config, load, save_llama
from safetensors import safe_open
from safetensors.torch import load_file
from thread_ranks import on_ranks

from ladder_eval.distributed.tensor_parallel import TensorParallel
from ladder_eval.errors import CheckpointError
from ladder_eval.models import stored as stored_files
from ladder_eval.models.checkpoint import load_model, read_config

# Heads of 8 channels: rank 0 holds 6 query and 2 key-value heads, rank 1 three and one.
CUTS = {
    "q_proj": (slice(0, 48), slice(48, 72)),
    "k_proj": (slice(0, 16), slice(16, 24)),
    "v_proj": (slice(0, 16), slice(16, 24)),
    "o_proj": (slice(0, 48), slice(48, 72)),
    "gate_proj": (slice(0, 48), slice(48, 96)),
    "up_proj": (slice(0, 48), slice(48, 96)),
    "down_proj": (slice(0, 48), slice(48, 96)),
    "embed_tokens": (slice(0, 42), slice(42, 83)),
    "lm_head": (slice(0, 42), slice(42, 83)),
}
BY_COLUMN = ("o_proj", "down_proj")


@pytest.fixture
def uneven(tmp_path):
    save_llama(tmp_path, **UNEVEN)
    return tmp_path


def part(folder, rank, size, dtype=torch.float32):
    cpu, tp = torch.device("cpu"), TensorParallel(rank, size)
    return load_model(folder, read_config(folder), dtype=dtype, device=cpu, tp=tp)


def cut(name, whole, rank):
    kind = name.split(".")[-2]
    if kind not in CUTS:
        assert "norm" in kind
        return whole
    own = CUTS[kind][rank]
    return whole[:, own] if kind in BY_COLUMN else whole[own]


def size_of(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("rank", [0, 1])
def test_tensors_are_those_cut_by_hand(uneven, rank):
    stored = load_file(uneven / "model.safetensors")
    state = part(uneven, rank, 2).state_dict()
    assert state.keys() == {name.removeprefix("model.") for name in stored}
    for name, whole in stored.items():
        assert torch.equal(state[name.removeprefix("model.")], cut(name, whole, rank)), name


def test_a_sharded_checkpoint_is_cut_the_same(uneven, tmp_path):
    model = save_llama(tmp_path / "whole", **UNEVEN)
    model.save_pretrained(tmp_path / "files", max_shard_size="60KB")
    assert len(list((tmp_path / "files").glob("*.safetensors"))) > 2
    for rank in (0, 1):
        ours, expected = (part(f, rank, 2).state_dict() for f in (tmp_path / "files", uneven))
        assert all(torch.equal(ours[name], expected[name]) for name in expected)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_hold_all_weights_once_but_for_norms_and_split_groups(uneven, size):
    whole = load(uneven)
    norms = sum(w.numel() for n, w in whole.named_parameters() if "norm" in n)
    # Each copy of a key-value head: keys and values of 8 channels over 72, in each layer.
    copies = max(0, size - 3) * 2 * 8 * 72 * SHAPE["num_hidden_layers"]
    held = [size_of(part(uneven, rank, size)) for rank in range(size)]
    assert sum(held) == size_of(whole) + (size - 1) * norms + copies
    assert max(held) < size_of(whole) * (0.75 if size == 2 else 0.5)


def test_a_tied_head_is_one_tensor_on_each_rank(tmp_path):
    save_llama(tmp_path)
    for rank in (0, 1):
        model = part(tmp_path, rank, 2)
        assert model.lm_head.weight is model.embed_tokens.weight
        assert model.lm_head.weight.shape == (40, 64)
    assert sum(size_of(part(tmp_path, rank, 2)) for rank in (0, 1)) < 1.01 * size_of(load(tmp_path))


def test_a_tied_head_that_differs_in_another_ranks_rows_is_told_by_that_rank(tmp_path):
    model = save_llama(tmp_path, tie_word_embeddings=False)
    with torch.no_grad():
        model.lm_head.weight.copy_(model.model.embed_tokens.weight)
        model.lm_head.weight[70] += 1
    model.save_pretrained(tmp_path)
    edit_config(tmp_path, tie_word_embeddings=True)
    part(tmp_path, 0, 2)
    with pytest.raises(CheckpointError, match="differs from its embedding"):
        part(tmp_path, 1, 2)


class Recording:
    """A slice of a stored tensor that notes how many of its numbers are read."""

    def __init__(self, piece, read):
        self._piece, self._read = piece, read

    def __getattr__(self, name):
        return getattr(self._piece, name)

    def __getitem__(self, index):
        found = self._piece[index]
        self._read.append(found.numel())
        return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_only_own_slices_are_read(uneven, monkeypatch, size):
    read = []

    class File:
        def __init__(self, file):
            self._file = file

        def get_slice(self, name):
            return Recording(self._file.get_slice(name), read)

    @contextmanager
    def recording(file, framework):
        with safe_open(file, framework=framework) as tensors:
            yield File(tensors)  # which has no get_tensor

    monkeypatch.setattr(stored_files, "safe_open", recording)
    for rank in range(size):
        read.clear()
        model = part(uneven, rank, size)
        assert sum(read) == size_of(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parts_are_no_views_of_whole_tensors(uneven, dtype):
    """A view would keep the whole tensor in memory."""
    for weight in part(uneven, 1, 2, dtype).parameters():
        assert weight.untyped_storage().nbytes() == weight.numel() * weight.element_size()
        assert weight.is_contiguous()


def test_a_misshapen_checkpoint_is_refused_by_every_rank_with_whole_shapes(uneven):
    edit_config(uneven, intermediate_size=192)

    def work(tp):
        with pytest.raises(CheckpointError) as caught:
            part(uneven, tp.rank, tp.size)
        return str(caught.value)

    first, second = on_ranks(2, work)
    assert first == second
    assert "mlp.gate_proj.weight is [96, 72] instead of [192, 72]" in first
