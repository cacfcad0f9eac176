"""Files that are damaged, lie or mean harm: one sentence each, at once and in little memory."""

import errno
import json
import os
import resource
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from dolomite_files import block_values
from llama_reference import edit_config, load, make_llama, product_logits, save_llama, some_ids

from ladder_eval.errors import CheckpointError
from ladder_eval.models import checkpoint
from ladder_eval.models.checkpoint import read_config, tokenizer_sha256, weights_sha256
from ladder_eval.models.stored import weight_files

NORM = "model.norm.weight"
DEEP = b"[" * 10**6 + b"]" * 10**6


@pytest.fixture
def folder(tmp_path):
    save_llama(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def sharded(tmp_path):
    make_llama().save_pretrained(tmp_path / "sharded", max_shard_size="100KB")
    return tmp_path / "sharded"


@contextmanager
def at_once():
    """Less than two seconds on this thread, and 200 MiB more than before at the peak."""
    start, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.thread_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 2**10


def refusal(folder, call=load):
    with at_once(), pytest.raises(CheckpointError) as caught:
        call(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert message.endswith(".")
    assert len(message) < 1500
    message.encode()  # no half characters, which no terminal prints
    assert message.isprintable()
    return message


def entry(shape, first, last, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


def write_header(folder, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", length) + text + data)


def edit_header(folder, edit):
    """Change the header of a healthy file, and leave its data."""
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    edit(header)
    write_header(folder, header, content[end:])


HEADERS = {
    "overlap": ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12),
    "gap": ({"a": entry([2], 0, 8), "b": entry([2], 12, 20)}, 20),
    "beyond the file": ({"a": entry([2], 0, 8)}, 4),
    "more data": ({"a": entry([2], 0, 8)}, 14),
    "backwards": ({"a": entry([2], 8, 0)}, 8),
    "far offsets": ({"a": entry([2], 2**63, 2**63 + 8)}, 8),
    "shape unlike size": ({"a": entry([3], 0, 8)}, 8),
    "dtype unlike size": ({"a": entry([2], 0, 8, "F64")}, 8),
    "negative shape": ({"a": entry([-2], 0, 8)}, 8),
    "fractional shape": ({"a": entry([2.5], 0, 8)}, 8),
    "overflow": ({"a": entry([2**62, 2**62], 0, 8)}, 8),
    "unknown dtype": ({"a": entry([2], 0, 8, "X9")}, 8),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, 8),
    "list": ([1], 0),
    "number": (b"1", 0),
    "empty": (b"", 0),
    "NaN": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', 8),
    "no UTF-8": (b'{"\xff":1}', 0),
    "deep": (b'{"a":' + DEEP + b"}", 0),
}


class TestSafetensors:
    @pytest.mark.parametrize("kind", HEADERS)
    def test_a_header_that_lies(self, folder, kind):
        header, size = HEADERS[kind]
        write_header(folder, header, b"x" * size)
        assert "model.safetensors is not a readable safetensors file: " in refusal(folder)

    @pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**40, 10**8, 10**7, 17])
    def test_a_header_that_is_longer_than_the_file(self, folder, length):
        write_header(folder, {}, length=length)
        assert "is not a readable safetensors file" in refusal(folder)

    def test_a_huge_header(self, folder):
        with (folder / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", 2**33))
            file.truncate(2**34)  # sparse: no disk is used
        assert "its header is longer than any" in refusal(folder)

    @pytest.mark.parametrize("same", [True, False])
    def test_a_name_twice(self, folder, same):
        first = json.dumps(entry([2], 0, 8))
        second = first if same else json.dumps(entry([1, 2], 0, 8))
        write_header(folder, f'{{"a": {first}, "a": {second}}}'.encode(), b"x" * 8)
        assert "its header names a twice" in refusal(folder)

    def test_a_name_twice_among_many(self, folder):
        names = [*map(str, range(30_000)), "29999"]
        text = ", ".join(f'"{name}": {json.dumps(entry([0], 0, 0))}' for name in names)
        write_header(folder, f"{{{text}}}".encode())
        assert "its header names 29999 twice" in refusal(folder)

    @pytest.mark.parametrize(
        "name",
        ["NaN", "", "__class__", "../../etc/passwd", "two\nlines", "x" * 10**5, "é\u202e"],
    )
    def test_strange_names(self, folder, name):
        edit_header(folder, lambda header: header.update({name: header.pop(NORM)}))
        message = refusal(folder)
        assert "norm.weight is missing" in message
        assert "is unknown" in message

    @pytest.mark.parametrize("dtype", ["I32", "U32", "BOOL"])
    def test_numbers_that_are_no_weights(self, folder, dtype):
        size = 64 * (1 if dtype == "BOOL" else 4)
        write_header(folder, {NORM: entry([64], 0, size, dtype)}, b"x" * size)
        assert f"stores model.norm.weight as {dtype}; supported are F64" in refusal(folder)

    def test_a_shape_that_other_dimensions_would_fit(self, folder):
        edit_header(folder, lambda header: header[NORM].update(shape=[8, 8]))
        assert "norm.weight is [8, 8] instead of [64]" in refusal(folder)

    def test_many_layers(self, folder):
        edit_header(
            folder,
            lambda header: header.update(
                {f"model.layers.{i}.x": entry([0], 0, 0) for i in range(20_000)}
            ),
        )
        edit_config(folder, num_hidden_layers=20_000)
        assert "num_hidden_layers=20000 is more than any model has" in refusal(folder)
        edit_config(folder, num_hidden_layers=9000)
        assert "they are of 20000 layers" in refusal(folder)

    @pytest.mark.parametrize("kind", ["directory", "fifo", "loop", "dangling", "empty"])
    def test_what_is_no_file_of_weights(self, folder, kind):
        make_strange(folder / "model.safetensors", kind)
        assert "model.safetensors" in refusal(folder)

    def test_a_file_that_may_not_be_read(self, folder):
        (folder / "model.safetensors").chmod(0)
        if os.access(folder / "model.safetensors", os.R_OK):
            pytest.skip("this user may read everything")
        assert "Permission denied" in refusal(folder)


def make_strange(path, kind):
    """Put something there that is not what its name says."""
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    else:
        path.touch()


CONFIGS = {
    "empty": b"",
    "cut": b'{"model_type": "llama"',
    "list": b"[]",
    "null": b"null",
    "deep": b'{"a":' + DEEP + b"}",
    "no UTF-8": b'{"model_type": "\xff"}',
    "half a character": b'{"model_type": "\\ud800"}',
    "lines": b'{"model_type": "a\\nb\\u2028c"}',
    "long": b'{"model_type": "' + b"x" * 10**6 + b'"}',
    "a number of too many digits": b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}",
}
VALUES = [
    10**9,
    10**18,
    10**4000,
    -(10**4000),
    64.0,
    1e308,
    "64",
    float("nan"),
    float("inf"),
    None,
    [],
    [[[]]] * 1000,
    {"a": 1},
    True,
    0,
    -1,
]
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "vocab_size")
# Null is no size, but says that there is none; and true is 1.
WRONG_SIZES = [(name, value) for name in SIZES for value in VALUES]
WRONG_SIZES.remove(("head_dim", None))
FIELDS = ("num_layers", "hidden_size", "sequence_mixer_blocks", "m_emb")
WRONG_FIELDS = [(name, value) for name in FIELDS for value in VALUES]
for fine in (("sequence_mixer_blocks", None), ("m_emb", None), ("m_emb", True)):
    WRONG_FIELDS.remove(fine)


def described(value):
    return str(value)[:20]


class TestConfiguration:
    @pytest.mark.parametrize("kind", CONFIGS)
    def test_text_that_is_no_configuration(self, folder, kind):
        (folder / "config.json").write_bytes(CONFIGS[kind])
        refusal(folder)
        refusal(folder, read_config)

    @pytest.mark.parametrize(("name", "value"), WRONG_SIZES, ids=described)
    def test_sizes(self, folder, name, value):
        edit_config(folder, **{name: value})
        refusal(folder)

    @pytest.mark.parametrize(("name", "value"), WRONG_FIELDS, ids=described)
    def test_the_other_format(self, folder, name, value):
        values = block_values(make_llama()) | {name: value}
        (folder / "config.json").write_text(json.dumps(values))
        refusal(folder)

    def test_ladder_layers_of_many_layers_are_never_counted_out(self, folder):
        values = block_values(make_llama(), "ladder_residual") | {"num_layers": 10**9}
        values |= {"hidden_size": 4, "vocab_size": 1}
        values["mlp_blocks"] = values["sequence_mixer_blocks"] = None
        (folder / "config.json").write_text(json.dumps(values))
        refusal(folder)

    @pytest.mark.parametrize("length", [0, -1, 2**41, 10**4000])
    def test_a_scaling_of_no_length(self, folder, length):
        scaling = {"rope_type": "llama3", "factor": 8.0}
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        scaling |= {"original_max_position_embeddings": length}
        edit_config(folder, rope_parameters=scaling)
        assert "original_max_position_embeddings" in refusal(folder)

    @pytest.mark.parametrize("text", ["x" * 10**5, "1\n"])
    def test_texts_for_numbers(self, folder, text):
        edit_config(folder, rms_norm_eps=text + "x")
        assert "could not convert string to float" in refusal(folder)

    @pytest.mark.parametrize("value", ["a\nb", "x" * 10**5])
    def test_texts_for_the_other_formats_numbers(self, folder, value):
        values = block_values(make_llama())
        for block in values["sequence_mixer_blocks"]:
            block["head_dim"] = value
        (folder / "config.json").write_text(json.dumps(values))
        assert "head_dim='" in refusal(folder)

    def test_ladder_layers_that_are_no_list(self, folder):
        edit_config(folder, ladder_layers={})
        assert "ladder_layers must be a number or a list, not {}" in refusal(folder)

    def test_many_heads_are_never_counted_out(self, folder):
        edit_config(folder, num_attention_heads=10**9, num_key_value_heads=1, head_dim=2)
        assert "num_attention_heads=1000000000 is more than any model has" in refusal(folder)

    def test_a_huge_file(self, folder):
        with (folder / "config.json").open("wb") as file:
            file.truncate(2**36)
        assert "config.json is larger than any configuration" in refusal(folder)

    @pytest.mark.parametrize("kind", ["directory", "fifo", "loop", "dangling", "empty"])
    def test_what_is_no_file(self, folder, kind):
        make_strange(folder / "config.json", kind)
        assert "config.json" in refusal(folder, read_config)

    def test_code_that_a_configuration_points_to_is_not_run(self, folder):
        expected = product_logits(load(folder), some_ids())
        (folder / "evil.py").write_text("raise SystemExit('run')")
        edit_config(folder, auto_map={"AutoModelForCausalLM": "evil.Evil"}, trust_remote_code=True)
        assert torch.equal(product_logits(load(folder), some_ids()), expected)


class TestIndex:
    @staticmethod
    def _file(folder):
        return folder / "model.safetensors.index.json"

    def _edit(self, folder, edit):
        values = json.loads(self._file(folder).read_text())
        edit(values["weight_map"])
        self._file(folder).write_text(json.dumps(values))

    def test_a_tensor_in_another_file_than_it_says(self, sharded):
        names = sorted(file.name for file in weight_files(sharded))

        def swap(places):
            places[NORM] = next(name for name in names if name != places[NORM])

        self._edit(sharded, swap)
        message = refusal(sharded)
        assert f"index.json says that {NORM} lies in model-0000" in message
        assert ", but it lies in model-0000" in message

    def test_a_tensor_that_no_file_holds(self, sharded):
        self._edit(sharded, lambda places: places.update({"more": places[NORM]}))
        assert "says that more lies in model-0000" in refusal(sharded)

    @pytest.mark.parametrize(
        "name",
        [
            "../sharded/model-00001-of-00003.safetensors",
            "/etc/passwd",
            "..",
            ".",
            "",
            "config.json",
            "pytorch_model.bin",
            "a\0.safetensors",
            "\ud800.safetensors",
            "x" * 10**4 + ".safetensors",
            "a\nb.safetensors",
            "nowhere.safetensors",
        ],
        ids=repr,
    )
    def test_files_that_are_not_there_or_not_to_be_read(self, sharded, name):
        self._edit(sharded, lambda places: places.update({NORM: name}))
        refusal(sharded)
        refusal(sharded, weights_sha256)

    def test_an_absolute_path_to_a_file_of_the_folder(self, sharded):
        file = str(weight_files(sharded)[0])
        self._edit(sharded, lambda places: places.update({NORM: file}))
        assert "outside its folder" in refusal(sharded)

    def test_many_files_that_are_not_there(self, sharded):
        missing = {f"n{i}": f"{i:06}.safetensors" for i in range(10_000)}
        self._edit(sharded, lambda places: places.update(missing))
        assert "has no 000000.safetensors" in refusal(sharded)

    @pytest.mark.parametrize(
        "content",
        [b"", b"[]", b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', b"\xff\xfe", DEEP],
        ids=["empty", "list", "nothing", "list of places", "number", "no UTF-8", "deep"],
    )
    def test_what_is_no_index(self, sharded, content):
        self._file(sharded).write_bytes(content)
        assert "index.json" in refusal(sharded)

    def test_a_repeated_tensor(self, sharded):
        (first, *_) = weight_files(sharded)
        (sharded / "again.safetensors").write_bytes(first.read_bytes())
        self._edit(sharded, lambda places: places.update({"a": "again.safetensors"}))
        refusal(sharded)


@pytest.mark.parametrize(
    ("name", "call"),
    [("model.safetensors", weights_sha256), ("tokenizer.json", tokenizer_sha256)],
)
def test_what_may_not_be_read_can_not_be_hashed(folder, monkeypatch, name, call):
    (folder / "tokenizer.json").write_text("{}")

    def refused(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(checkpoint, "layout_of", None)
    assert f"{name} can't be read (Permission denied)" in refusal(folder, call)


class TestPickles:
    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
    def test_they_are_not_read(self, folder, name):
        (folder / "model.safetensors").rename(folder / name)
        assert refusal(folder) == (
            f"{folder} has no model.safetensors, only {name}: pickled weights can carry code and "
            "aren't read; convert them to safetensors."
        )

    def test_beside_safetensors_they_do_not_matter(self, folder):
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n.")
        load(folder)

    def test_under_the_name_of_safetensors(self, folder):
        torch.save({"a": torch.ones(3)}, folder / "model.safetensors")
        assert "is not a readable safetensors file" in refusal(folder)


class TestHubCache:
    """A snapshot is a folder of links into ../../blobs."""

    @pytest.mark.parametrize("shards", [False, True])
    def test_links_are_followed(self, request, tmp_path, shards):
        plain = request.getfixturevalue("sharded" if shards else "folder")
        snapshot, blobs = tmp_path / "hub" / "snapshots" / "0a1b", tmp_path / "hub" / "blobs"
        snapshot.mkdir(parents=True)
        blobs.mkdir()
        for number, file in enumerate(sorted(plain.iterdir())):
            (blobs / f"{number:064x}").write_bytes(file.read_bytes())
            (snapshot / file.name).symlink_to(f"../../blobs/{number:064x}")
        ours = product_logits(load(snapshot), some_ids())
        assert torch.equal(ours, product_logits(load(plain), some_ids()))
        assert weights_sha256(snapshot) == weights_sha256(plain)
