"""What the `config.json` of dolomite-engine and lm-engine says, and what of it is refused."""

import pytest
from dolomite_files import block_values, flat_values, oldest_values
from llama_reference import make_llama

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config import config_from_hf

LLAMA = make_llama()
BLOCKS, FLAT, OLDEST = block_values(LLAMA), flat_values(LLAMA), oldest_values(LLAMA)
PLAIN = config_from_hf(LLAMA.config.to_dict())


def with_block(name, **changes):
    return BLOCKS | {name: [block | changes for block in BLOCKS[name]]}


def mixer(**changes):
    return with_block("sequence_mixer_blocks", **changes)


def mlp(**changes):
    return with_block("mlp_blocks", **changes)


def without(values, *names):
    return {name: value for name, value in values.items() if name not in names}


def refusal(values):
    with pytest.raises(CheckpointError) as caught:
        config_from_hf(values)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("values", [BLOCKS, FLAT, OLDEST], ids=["blocks", "flat", "oldest"])
def test_every_generation_says_the_same(values):
    assert config_from_hf(values) == PLAIN


class TestDefaults:
    def test_of_missing_fields(self):
        names = ("layer_norm_epsilon", "rope_theta", "tie_word_embeddings", "rope_dim")
        names += ("max_position_embeddings",)
        read = config_from_hf(without(BLOCKS, *names))
        assert (read.rms_norm_eps, read.rope_theta) == (1e-5, 10000.0)
        assert read.tie_word_embeddings is True
        assert read.max_position_embeddings == 1024

    def test_of_blocks(self):
        block = {"num_attention_heads": 4}
        values = BLOCKS | {"sequence_mixer_blocks": [block] * 2}
        values["mlp_blocks"] = [{"activation_function": "swiglu"}] * 2
        read = config_from_hf(values)
        assert (read.num_key_value_heads, read.intermediate_size) == (1, 4 * 64)

    @pytest.mark.parametrize(("kind", "heads"), [("mha", 4), ("mqa", 1), (None, 1)])
    def test_heads_of_a_type(self, kind, heads):
        values = without(OLDEST, "num_key_value_heads", "attention_head_type")
        values |= {} if kind is None else {"attention_head_type": kind}
        assert config_from_hf(values).num_key_value_heads == heads

    def test_a_group_needs_its_number(self):
        assert "without num_key_value_heads" in refusal(without(OLDEST, "num_key_value_heads"))

    @pytest.mark.parametrize(
        ("values", "name", "default"),
        [
            (BLOCKS, "normalization_function", "layernorm"),
            (BLOCKS, "position_embedding_type", "learned_absolute"),
            (FLAT, "add_bias", "True"),
            (OLDEST, "activation_function", "gelu_pytorch_tanh"),
        ],
    )
    def test_a_default_that_is_not_supported_is_no_exception(self, values, name, default):
        message = refusal(without(values, name))
        assert name in message
        assert default in message


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("m_emb", 12),
            ("m_width", 8.0),
            ("m_residual", 0.22),
            ("rope_scaling", {"factor": 2}),
            ("normalization_function", "layernorm"),
            ("normalization_function", "p_norm"),
            ("position_embedding_type", "nope"),
            ("position_embedding_type", "alibi"),
            ("scale_attn_weights", False),
            ("num_nextn_predict_layers", 1),
            ("rope_dim", 8),
            ("quantization_config", {"bits": 4}),
        ],
    )
    def test_fields_of_the_model(self, name, value):
        assert name in refusal(BLOCKS | {name: value})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sequence_mixer_type", "mamba2"),
            ("sequence_mixer_type", "multihead_latent_attention"),
            ("sequence_mixer_type", "stickbreaking_attention"),
            ("add_bias", True),
            ("attention_multiplier", 0.1),
            ("attention_multiplier_method", "1 / head_dim"),
            ("sliding_window", 64),
            ("attention_gate", True),
            ("exclusive_self_attention", True),
            ("qk_norm", True),
            ("something_new", 3),
            ("head_dim", 8),
        ],
    )
    def test_fields_of_attention(self, name, value):
        assert name in refusal(mixer(**{name: value}))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("mlp_type", "MoE"),
            ("mlp_block_type", "MoE"),
            ("activation_function", "geglu"),
            ("activation_function", "gelu_pytorch_tanh"),
            ("add_bias", True),
            ("num_experts", 8),
            ("use_interleaved_weights", "yes"),
        ],
    )
    def test_fields_of_the_mlp(self, name, value):
        assert name in refusal(mlp(**{name: value}))

    @pytest.mark.parametrize(
        "changes",
        [
            {"attention_multiplier": 0.25},  # head_dim is 16
            {"attention_multiplier_method": "1 / sqrt(head_dim)"},
            {"attention_gate": False},
            {"sliding_window": 128},
            {"head_dim": 16},
            {"something_new": None},
        ],
        ids=str,
    )
    def test_what_changes_nothing_is_fine(self, changes):
        assert config_from_hf(mixer(**changes)) == PLAIN

    @pytest.mark.parametrize("name", ["embedding_init_method", "use_depth_scaled_init"])
    def test_versions_of_either_order_of_gate_and_up_have_to_say_it(self, name):
        newer = {name: "normal"}
        assert "set use_interleaved_weights in each of mlp_blocks" in refusal(BLOCKS | newer)
        for order in (True, False):
            assert config_from_hf(mlp(use_interleaved_weights=order) | newer) == PLAIN

    @pytest.mark.parametrize("name", ["sequence_mixer_blocks", "mlp_blocks"])
    @pytest.mark.parametrize("blocks", [[], {}, "MLP", [1, 2], [[], []], [{}]], ids=str)
    def test_lists_that_are_none(self, name, blocks):
        assert name in refusal(BLOCKS | {name: blocks})

    @pytest.mark.parametrize("name", ["sequence_mixer_blocks", "mlp_blocks"])
    def test_layers_that_differ(self, name):
        first, second = BLOCKS[name]
        values = BLOCKS | {name: [first, second | {"dropout": 0.1}]}
        assert "that differ from layer to layer" in refusal(values)

    @pytest.mark.parametrize("kind", ["gpt_crosslayer", "desync_residual", "gpt_ensemble"])
    def test_other_models_of_the_same_engine(self, kind):
        assert "is not supported" in refusal(BLOCKS | {"model_type": kind})

    def test_no_vocabulary(self):
        assert "has no vocab_size" in refusal(without(BLOCKS, "vocab_size"))


class TestResidual:
    def test_a_list_of_layers_is_believed(self):
        read = config_from_hf(BLOCKS | {"ladder_layers": [1]})
        assert read.ladder_layers == (1,)

    def test_ladder_layers_beside_parallel_ones(self):
        values = BLOCKS | {"model_type": "palm", "ladder_layers": 1}
        assert "Ladder layers beside parallel ones" in refusal(values)
