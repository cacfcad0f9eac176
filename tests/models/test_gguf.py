import struct

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from gguf_files import TOKENS, gguf_tensors, write_gguf
from llama_reference import load, make_llama, product_logits, some_ids
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import LlamaForCausalLM

from ladder_eval.errors import CheckpointError
from ladder_eval.models import gguf
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.config import RopeScaling
from ladder_eval.models.gguf import SUPPORTED_TYPES, convert_gguf

VOCABULARY = {"vocab_size": len(TOKENS)}
WIDE = VOCABULARY | {"hidden_size": 256, "intermediate_size": 256}  # K-quants come by 256
LLAMA_ROPE = {"rope_theta": 500000.0, "original_max_position_embeddings": 8192} | {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def converted(file):
    convert_gguf(file, file.parent / "converted")
    return file.parent / "converted"


def assert_equal(ours, theirs):
    assert_close(ours, theirs, rtol=0, atol=1e-5)


class TestValues:
    @pytest.mark.parametrize("kind", SUPPORTED_TYPES)
    def test_weights_equal_those_that_transformers_reads(self, tmp_path, kind):
        write_gguf(tmp_path / "m.gguf", make_llama(**WIDE), kind=kind)
        theirs = LlamaForCausalLM.from_pretrained(
            tmp_path, gguf_file="m.gguf", dtype=torch.float32
        ).state_dict()
        ours = load_file(converted(tmp_path / "m.gguf") / "model.safetensors")
        assert set(ours) == set(theirs) - {"lm_head.weight"}
        for name, weight in ours.items():
            assert weight.dtype == torch.float32
            assert torch.equal(weight, theirs[name]), name

    def test_the_common_kinds_are_supported(self):
        assert {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"} <= set(
            SUPPORTED_TYPES
        )

    def test_q4_1_is_scale_times_nibble_plus_minimum(self, tmp_path):
        """A block of 32: scale, minimum, then bytes with value j low and value j + 16 high."""
        nibbles = np.arange(32) % 16
        low, high = nibbles[:16], nibbles[16:]
        block = np.array([0.5, -3.0], "<f2").tobytes() + bytes((low | high << 4).tolist())
        row = np.frombuffer(block * 2, np.uint8)  # 64 columns
        write_gguf(
            tmp_path / "m.gguf",
            make_llama(**VOCABULARY),
            kind="Q4_1",
            tensors={"blk.0.attn_v.weight": np.tile(row, (32, 1))},
        )
        ours = load_file(converted(tmp_path / "m.gguf") / "model.safetensors")
        expected = torch.tensor(np.tile(0.5 * nibbles - 3.0, 2), dtype=torch.float32)
        assert torch.equal(ours["model.layers.0.self_attn.v_proj.weight"], expected.expand(32, 64))


class TestModel:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"tie_word_embeddings": False},
            {"num_key_value_heads": 4},
            {"num_key_value_heads": 1},
            {"head_dim": 24},
            {"rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}},
            {"rms_norm_eps": 1e-6},
        ],
        ids=str,
    )
    def test_logits_are_those_of_the_model_that_was_written(self, tmp_path, changes):
        model = make_llama(**(VOCABULARY | changes))
        write_gguf(tmp_path / "m.gguf", model)
        ours = product_logits(load(converted(tmp_path / "m.gguf")), some_ids())
        assert_equal(ours, model(some_ids()).logits.detach())

    def test_the_row_order_of_query_and_key_matters(self, tmp_path):
        """Otherwise the test above couldn't fail."""
        model = make_llama(**VOCABULARY)
        stored = gguf_tensors(model)["blk.0.attn_q.weight"]
        original = model.state_dict()["model.layers.0.self_attn.q_proj.weight"].numpy()
        assert not np.array_equal(stored, original)
        write_gguf(tmp_path / "m.gguf", model, tensors={"blk.0.attn_q.weight": original})
        ours = product_logits(load(converted(tmp_path / "m.gguf")), some_ids())
        assert (ours - model(some_ids()).logits).abs().max() > 0.01

    def test_the_configuration_is_the_models(self, tmp_path):
        write_gguf(tmp_path / "m.gguf", make_llama(**VOCABULARY))
        config = read_config(converted(tmp_path / "m.gguf"))
        assert (config.hidden_size, config.intermediate_size) == (64, 96)
        assert (config.num_hidden_layers, config.vocab_size) == (2, len(TOKENS))
        assert (config.num_attention_heads, config.num_key_value_heads) == (4, 2)
        assert (config.head_dim, config.max_position_embeddings) == (16, 128)
        assert (config.rms_norm_eps, config.rope_theta) == (1e-5, 10000.0)
        assert config.tie_word_embeddings
        assert config.residual == "standard"

    def test_fields_that_a_file_may_leave_out(self, tmp_path):
        names = ("attention.key_length", "attention.head_count_kv", "rope.freq_base")
        write_gguf(
            tmp_path / "m.gguf",
            make_llama(**VOCABULARY, num_key_value_heads=4),
            fields={f"llama.{name}": None for name in names},
        )
        config = read_config(converted(tmp_path / "m.gguf"))
        assert (config.head_dim, config.num_key_value_heads, config.rope_theta) == (16, 4, 10000.0)


class TestRopeScaling:
    @pytest.fixture
    def llama(self):
        def make(factor):
            rope = LLAMA_ROPE | {"factor": factor}
            return make_llama(**VOCABULARY, rope_parameters=rope)

        return make

    @staticmethod
    def divisors(model):
        """As llama.cpp writes them: unscaled frequency over scaled frequency."""
        plain = 1 / 500000.0 ** (np.arange(0, 16, 2) / 16)
        return (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)

    @pytest.mark.parametrize("factor", [8.0, 32.0])
    def test_llama_3_is_recognised_by_its_divisors(self, tmp_path, llama, factor):
        model = llama(factor)
        file = write_gguf(
            tmp_path / "m.gguf", model, tensors={"rope_freqs.weight": self.divisors(model)}
        )
        folder = converted(file)
        assert read_config(folder).rope_scaling == RopeScaling(
            factor=factor,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        )
        ids = some_ids(columns=100)
        assert_equal(product_logits(load(folder), ids), model(ids).logits.detach())

    def test_other_divisors_are_refused(self, tmp_path, llama):
        model = llama(8.0)
        for divisors in (self.divisors(llama(16.0)), np.ones(8, "f4"), self.divisors(model)[:4]):
            file = write_gguf(tmp_path / "m.gguf", model, tensors={"rope_freqs.weight": divisors})
            with pytest.raises(CheckpointError, match="rope_freqs"):
                converted(file)

    def test_a_named_scaling_is_refused(self, tmp_path):
        fields = {"llama.rope.scaling.type": "yarn"}
        file = write_gguf(tmp_path / "m.gguf", make_llama(**VOCABULARY), fields=fields)
        with pytest.raises(CheckpointError, match="yarn"):
            converted(file)

    def test_scaling_none_is_none(self, tmp_path):
        fields = {"llama.rope.scaling.type": "none"}
        file = write_gguf(tmp_path / "m.gguf", make_llama(**VOCABULARY), fields=fields)
        assert read_config(converted(file)).rope_scaling is None


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a sound file."""
    file = tmp_path_factory.mktemp("sound") / "m.gguf"
    return write_gguf(file, make_llama(**VOCABULARY)).read_bytes()


def refusal(file):
    """The one sentence that refuses a file, which must leave nothing in the destination."""
    target = file.parent / "target"
    with pytest.raises(CheckpointError) as caught:
        convert_gguf(file, target / "model")
    assert not target.exists() or not list(target.iterdir())
    message = str(caught.value)
    assert str(file) in message
    assert message.endswith(".")
    return message


def refusal_of(folder, content):
    (folder / "damaged.gguf").write_bytes(content)
    return refusal(folder / "damaged.gguf")


class TestDamage:
    @pytest.mark.parametrize("length", [4, 10, 23, 24, 100, 500, 5000, 9000, 20000, -5000, -33])
    def test_truncated(self, tmp_path, sound, length):
        assert "damaged or truncated" in refusal_of(tmp_path, sound[:length])

    @pytest.mark.parametrize("content", [b"", b"GG", b"GGML" + bytes(100), b"{}" * 50])
    def test_not_a_gguf_file(self, tmp_path, content):
        assert "damaged or truncated" in refusal_of(tmp_path, content)

    @pytest.mark.parametrize("version", [0, 1, 99, 2**31])
    def test_unknown_version(self, tmp_path, sound, version):
        refusal_of(tmp_path, sound[:4] + struct.pack("<I", version) + sound[8:])

    @pytest.mark.parametrize("count", [100, 10**6, 2**40, 2**63, 2**64 - 1])
    @pytest.mark.parametrize("place", [8, 16], ids=["tensors", "fields"])
    def test_counts_that_lie(self, tmp_path, sound, place, count):
        lie = sound[:place] + struct.pack("<Q", count) + sound[place + 8 :]
        assert "damaged or truncated" in refusal_of(tmp_path, lie)

    def test_an_array_longer_than_the_file(self, tmp_path, sound):
        """Its numbers would be read far beyond the end of the file, one by one."""
        start = sound.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8
        assert struct.unpack_from("<Q", sound, start) == (len(TOKENS),)
        lie = sound[:start] + struct.pack("<Q", 200_000) + sound[start + 8 :]
        refusal_of(tmp_path, lie)

    def test_text_that_is_no_utf8(self, tmp_path, sound):
        refusal_of(tmp_path, sound.replace(b"<|im_start|>", b"<|im_st\xff\xfet|>"))

    def test_a_name_that_no_terminal_shows(self, tmp_path, sound):
        name = b"output_norm.weight"
        message = refusal_of(tmp_path, sound.replace(name, b"\n" * len(name)))
        assert "which a llama model doesn't have" in message
        assert message.isprintable()

    def test_tensor_beyond_the_end(self, tmp_path, sound):
        start = sound.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8 + 4
        assert struct.unpack_from("<Q", sound, start)[0] < len(sound)
        lie = sound[:start] + struct.pack("<Q", 1 << 40) + sound[start + 8 :]
        assert "damaged or truncated" in refusal_of(tmp_path, lie)

    def test_tensors_in_one_place(self, tmp_path, sound):
        """A small file would be written out as often as it has tensors."""
        (tmp_path / "sound.gguf").write_bytes(sound)
        reader = GGUFReader(tmp_path / "sound.gguf")
        lie = bytearray(sound)
        for tensor in reader.tensors:
            place = tensor.field.offset + sum(part.nbytes for part in tensor.field.parts[:-1])
            lie[place : place + 8] = bytes(8)
        end = reader.data_offset + max(tensor.n_bytes for tensor in reader.tensors)
        assert "several tensors lie in one place" in refusal_of(tmp_path, bytes(lie[:end]))

    @pytest.mark.parametrize("seed", range(8))
    def test_scrambled_bytes_never_surprise(self, tmp_path, sound, seed):
        """A few wrong bytes in the tables: refused in one sentence, or still a readable file."""
        random = np.random.default_rng(seed)
        end = sound.index(b"tokenizer.chat_template") - 8  # the fields of the model
        start = sound.index(b"blk.0")
        content = bytearray(sound)
        for place in [*random.integers(24, end, 2), *random.integers(start, start + 900, 2)]:
            content[place] = random.integers(256)
        file = tmp_path / "scrambled.gguf"
        file.write_bytes(content)
        try:
            convert_gguf(file, tmp_path / "target" / "model")
        except CheckpointError:
            assert not list(tmp_path.glob("target/*"))


class TestOtherModels:
    def write(self, folder, **changes):
        return write_gguf(folder / "m.gguf", make_llama(**VOCABULARY), **changes)

    def test_other_architectures(self, tmp_path):
        message = refusal(self.write(tmp_path, architecture="qwen2"))
        assert "'qwen2'" in message
        assert "only llama" in message

    @pytest.mark.parametrize("kind", ["Q5_0", "Q5_1", "TQ1_0"])
    def test_other_quantisations_are_named(self, tmp_path, kind):
        file = write_gguf(tmp_path / "m.gguf", make_llama(**WIDE), kind=kind)
        message = refusal(file)
        assert kind in message
        assert "Q4_1" in message

    @pytest.mark.parametrize(
        "name", ["blk.0.attn_q.bias", "blk.0.ffn_gate_exps.weight", "blk.x.attn_q.weight", "odd"]
    )
    def test_tensors_that_llama_does_not_have(self, tmp_path, name):
        assert name in refusal(self.write(tmp_path, tensors={name: np.ones(64, "f4")}))

    @pytest.mark.parametrize(
        "name",
        [
            "context_length",
            "embedding_length",
            "block_count",
            "feed_forward_length",
            "attention.head_count",
            "attention.layer_norm_rms_epsilon",
        ],
    )
    def test_a_missing_field_is_named(self, tmp_path, name):
        assert name in refusal(self.write(tmp_path, fields={f"llama.{name}": None}))

    @pytest.mark.parametrize(
        "fields",
        [
            {"llama.attention.head_count": 0},
            {"llama.attention.head_count": 3},
            {"llama.attention.head_count_kv": [2, 2]},
            {"llama.attention.key_length": 15},
            {"llama.attention.key_length": 48},
            {"llama.block_count": "two"},
            {"llama.attention.layer_norm_rms_epsilon": "small"},
        ],
        ids=str,
    )
    def test_fields_that_make_no_sense(self, tmp_path, fields):
        refusal(self.write(tmp_path, fields=fields))

    @pytest.mark.parametrize("shape", [(64,), (63, 64), (8, 64)])
    def test_a_query_of_another_shape_is_refused_at_the_latest_on_loading(self, tmp_path, shape):
        tensors = {"blk.0.attn_q.weight": np.ones(shape, "f4")}
        file = self.write(tmp_path, tensors=tensors)
        with pytest.raises(CheckpointError):
            load(converted(file))

    def test_no_embedding(self, tmp_path):
        refusal(self.write(tmp_path, tensors={"token_embd.weight": None}))

    def test_a_missing_tensor_is_refused_at_the_latest_on_loading(self, tmp_path):
        file = self.write(tmp_path, tensors={"blk.1.ffn_up.weight": None})
        with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
            load(converted(file))


def test_quantised_values_stay_near_the_original(tmp_path):
    """Q8_0 rounds to 1/127 of a block's largest, in steps that are rounded to half precision."""
    model = make_llama(**WIDE)
    write_gguf(tmp_path / "m.gguf", model, kind="Q8_0")
    name = "model.layers.1.mlp.down_proj.weight"
    ours = load_file(converted(tmp_path / "m.gguf") / "model.safetensors")[name]
    blocks, original = (x.unflatten(1, (-1, 32)) for x in (ours, model.state_dict()[name]))
    step = original.abs().amax(-1, keepdim=True) / 127
    assert 0.4 < ((blocks - original).abs() / step).max() < 0.6


def test_a_number_of_layers_that_is_none(tmp_path):
    file = write_gguf(
        tmp_path / "m.gguf",
        make_llama(vocab_size=len(TOKENS)),
        fields={"llama.block_count": float("inf")},
    )
    assert "missing or wrong field: cannot convert float infinity" in refusal(file)


def test_divisors_of_a_head_that_is_not_there_are_never_counted_out(tmp_path, monkeypatch):
    size = 2**31 - 2
    heads = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    file = write_gguf(
        tmp_path / "m.gguf",
        make_llama(vocab_size=len(TOKENS)),
        fields={f"llama.{name}": size for name in heads},
        tensors={"rope_freqs.weight": np.ones(8, np.float32)},
    )
    monkeypatch.setattr(gguf, "_divisors", None)  # which would take 8 GiB for each
    assert "rope_freqs.weight is not Llama 3.1's" in refusal(file)
