"""Our writer against the library's reader."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from ladder_eval.errors import CheckpointError
from ladder_eval.models.safetensors_writer import bytes_of, write_safetensors

LAYOUT = {
    "a": ("F32", (2, 3)),
    "b": ("BF16", (5,)),  # 10 bytes, so that what follows starts at no multiple of 4
    "empty": ("F16", (0, 4)),
    "scalar": ("F64", ()),
    "last": ("F16", (3, 1)),
}
TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7,
    "b": torch.tensor([1.5, -0.0, torch.inf, torch.nan, 3e38], dtype=torch.bfloat16),
    "empty": torch.empty(0, 4, dtype=torch.float16),
    "scalar": torch.tensor(2.0**-1070, dtype=torch.float64),
    "last": torch.tensor([[1.0], [2.0], [-6e4]], dtype=torch.float16),
}


def as_bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy()


def buffers():
    return ((name, as_bytes(tensor)) for name, tensor in TENSORS.items())


def assert_same(found):
    assert set(found) == set(TENSORS)
    for name, tensor in found.items():
        assert (tensor.dtype, tensor.shape) == (TENSORS[name].dtype, TENSORS[name].shape)
        assert as_bytes(tensor).tobytes() == as_bytes(TENSORS[name]).tobytes()


def test_one_file(tmp_path):
    write_safetensors(tmp_path, LAYOUT, buffers())
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    assert_same(load_file(tmp_path / "model.safetensors"))
    with safe_open(tmp_path / "model.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}
    content = (tmp_path / "model.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little")
    assert header % 8 == 0
    assert len(content) == 8 + header + bytes_of(LAYOUT) == 8 + header + 24 + 10 + 8 + 6


def test_shards_and_their_index(tmp_path):
    """a | b, empty, scalar | last: the limit of 20 bytes is kept but by a, which has 24 alone."""
    write_safetensors(tmp_path, LAYOUT, buffers(), shard_bytes=20)
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index == {
        "metadata": {"total_size": 48},
        "weight_map": {
            "a": names[0],
            "b": names[1],
            "empty": names[1],
            "scalar": names[1],
            "last": names[2],
        },
    }
    shards = [load_file(tmp_path / name) for name in names]
    assert [set(shard) for shard in shards] == [{"a"}, {"b", "empty", "scalar"}, {"last"}]
    assert_same({name: tensor for shard in shards for name, tensor in shard.items()})
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("came", "message"),
    [
        ([("a", np.zeros(6, "<f4"))], "b should be 10 bytes, but None of 0 came"),
        ([("b", np.zeros(5, "<u2"))], "a should be 24 bytes, but b of 10 came"),
        ([("a", np.zeros(5, "<f4"))], "a should be 24 bytes, but a of 20 came"),
        ([*buffers(), ("more", np.zeros(1))], "more tensors than the 5 of the layout"),
    ],
)
def test_tensors_of_another_layout_are_refused(tmp_path, came, message):
    with pytest.raises(CheckpointError, match=message):
        write_safetensors(tmp_path, LAYOUT, came)


def test_no_tensor_is_kept(tmp_path):
    """Each is made only after the one before was written and dropped."""
    import weakref

    alive = []

    def one_by_one():
        for index in range(8):
            assert [ref() for ref in alive] == [None] * index
            yield str(index), _remembered(np.full(1000, index, "<f4"))

    def _remembered(array):
        alive.append(weakref.ref(array))
        return array

    layout = {str(index): ("F32", (1000,)) for index in range(8)}
    write_safetensors(tmp_path, layout, one_by_one(), shard_bytes=12_000)
    assert len(alive) == 8
