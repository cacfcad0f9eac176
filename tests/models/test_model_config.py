import pytest
from llama_reference import LLAMA3_ROPE, make_llama
from transformers import LlamaConfig

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config import ModelConfig, RopeScaling, config_from_hf, config_to_hf

# Llama-3.2-1B as its authors published it: the form of transformers 4, rope_theta on its own.
LLAMA_1B = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
}
LAST_FOUR = (12, 13, 14, 15)


def config(**changes):
    return config_from_hf(LLAMA_1B | changes)


def refusal(**changes):
    with pytest.raises(CheckpointError) as caught:
        config(**changes)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def without(*names):
    return {name: value for name, value in LLAMA_1B.items() if name not in names}


class TestReading:
    def test_every_field_finds_its_place(self):
        assert config() == ModelConfig(
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=64,
            vocab_size=128256,
            max_position_embeddings=131072,
            rms_norm_eps=1e-5,
            rope_theta=500000.0,
            rope_scaling=RopeScaling(
                factor=32.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
            ),
            tie_word_embeddings=True,
            ladder_layers=(),
        )

    def test_rope_parameters_of_transformers_5_mean_the_same(self):
        values = without("rope_scaling", "rope_theta")
        rope = LLAMA_1B["rope_scaling"] | {"rope_theta": 500000.0}
        assert config_from_hf(values | {"rope_parameters": rope}) == config()

    def test_what_transformers_writes_is_read(self):
        written = make_llama(head_dim=24, rope_parameters=LLAMA3_ROPE).config.to_dict()
        read = config_from_hf(written)
        assert (read.head_dim, read.rope_theta) == (24, 10000.0)
        assert read.rope_scaling.original_max_position_embeddings == 64

    @pytest.mark.parametrize("rope", [None, {}, {"rope_type": "default"}, {"type": "default"}])
    def test_plain_rope(self, rope):
        assert config(rope_scaling=rope).rope_scaling is None

    def test_defaults_of_old_files_are_those_of_llama(self):
        read = config_from_hf(
            without(
                "num_key_value_heads",
                "head_dim",
                "tie_word_embeddings",
                "rope_theta",
                "rope_scaling",
                "hidden_act",
            )
        )
        assert read.num_key_value_heads == 32
        assert read.head_dim == 64
        assert read.tie_word_embeddings is False
        assert (read.rope_theta, read.rope_scaling) == (10000.0, None)


class TestLadderLayers:
    @pytest.mark.parametrize(
        ("value", "layers"),
        [(4, LAST_FOUR), ([15, 12, 13, 14], LAST_FOUR), ([3, 7], (3, 7)), (0, ()), ([], ())],
    )
    @pytest.mark.parametrize("kind", ["llamaLadder", "llama"])
    def test_a_number_means_the_last_a_list_those(self, kind, value, layers):
        read = config(model_type=kind, ladder_layers=value)
        assert read.ladder_layers == layers

    def test_architectures_have_no_say(self):
        read = config(architectures=["LlamaForCausalLM"], ladder_layers=4)
        assert read.ladder_layers == LAST_FOUR

    @pytest.mark.parametrize(
        ("value", "residual"), [(0, "standard"), (15, "hybrid ladder"), (16, "ladder")]
    )
    def test_residual_has_a_word(self, value, residual):
        assert config(ladder_layers=value).residual == residual

    @pytest.mark.parametrize("missing", [{}, {"ladder_layers": None}])
    def test_a_ladder_model_must_say_which_layers(self, missing):
        assert "set ladder_layers in it" in refusal(model_type="llamaLadder", **missing)

    @pytest.mark.parametrize(
        "value", [17, -1, True, 2.0, "4", [16], [-1], [3, 3], [True], ["3"], [1.0], [[1]], {"1": 1}]
    )
    def test_nonsense_is_refused(self, value):
        assert refusal(ladder_layers=value).startswith("ladder_layers")

    def test_with_ladder_replaces_what_was_there(self):
        assert config(ladder_layers=2).with_ladder([1, 0]).ladder_layers == (0, 1)


class TestRefusals:
    @pytest.mark.parametrize("kind", ["mixtral", "gpt2", "", None, ["llama"]])
    def test_other_model_types(self, kind):
        assert "is not supported; known are llama, llamaLadder" in refusal(model_type=kind)

    @pytest.mark.parametrize("activation", ["gelu", "relu", None])
    def test_other_activations(self, activation):
        assert "hidden_act" in refusal(hidden_act=activation)

    @pytest.mark.parametrize("flag", ["attention_bias", "mlp_bias"])
    def test_biases(self, flag):
        assert flag in refusal(**{flag: True})

    @pytest.mark.parametrize("kind", ["yarn", "linear", "dynamic", "longrope", None])
    @pytest.mark.parametrize("key", ["rope_type", "type"])
    @pytest.mark.parametrize("form", ["rope_scaling", "rope_parameters"])
    def test_other_rope_types(self, form, key, kind):
        assert "rope_type" in refusal(**{form: {key: kind, "factor": 2.0}})

    @pytest.mark.parametrize(
        "rope", [{"rope_type": "llama3", "factor": 8.0}, "llama3", ["llama3"], 8.0]
    )
    def test_damaged_rope(self, rope):
        refusal(rope_scaling=rope)

    @pytest.mark.parametrize(
        "name",
        [
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
            "max_position_embeddings",
            "rms_norm_eps",
        ],
    )
    def test_a_missing_field_is_named(self, name):
        with pytest.raises(CheckpointError, match=f"has no {name}"):
            config_from_hf(without(name))

    @pytest.mark.parametrize("value", [0, -1, 2.5, "8", True, [8], {}])
    @pytest.mark.parametrize(
        "name",
        ["hidden_size", "num_hidden_layers", "num_key_value_heads", "head_dim", "vocab_size"],
    )
    def test_a_size_is_a_positive_whole_number(self, name, value):
        refusal(**{name: value})

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"num_key_value_heads": 5}, "not a multiple of num_key_value_heads=5"),
            ({"head_dim": 63}, "head_dim=63 is odd"),
            ({"rms_norm_eps": "small"}, "wrong kind"),
            ({"rope_theta": "large"}, "wrong kind"),
        ],
    )
    def test_sizes_that_do_not_fit(self, changes, words):
        assert words in refusal(**changes)

    @pytest.mark.parametrize(
        "changes",
        [
            {"rms_norm_eps": float("nan")},
            {"rms_norm_eps": -1.0},
            {"rms_norm_eps": 10**400},
            {"rope_theta": 0},
            {"rope_theta": float("inf")},
            {"rope_scaling": LLAMA_1B["rope_scaling"] | {"factor": 0}},
            {"rope_scaling": LLAMA_1B["rope_scaling"] | {"high_freq_factor": 1.0}},
        ],
        ids=["nan", "negative", "huge", "no theta", "infinite theta", "no factor", "equal factors"],
    )
    def test_numbers_that_would_answer_nan(self, changes):
        refusal(**changes)


class TestWriting:
    @pytest.mark.parametrize(
        "changes",
        [{}, {"ladder_layers": [3, 7]}, {"ladder_layers": 16}, {"rope_scaling": None}],
        ids=str,
    )
    def test_what_is_written_is_read_back(self, changes):
        assert config_from_hf(config_to_hf(config(**changes))) == config(**changes)

    def test_a_ladder_model_says_so_in_the_published_format(self):
        values = config_to_hf(config(ladder_layers=2))
        assert (values["model_type"], values["ladder_layers"]) == ("llamaLadder", [14, 15])

    def test_transformers_reads_a_dense_one(self):
        theirs = LlamaConfig(**config_to_hf(config()))
        assert config_from_hf(theirs.to_dict()) == config()
        assert theirs.rope_parameters["rope_type"] == "llama3"
        assert theirs.rope_parameters["rope_theta"] == 500000.0

    def test_all_fields_are_json_values(self):
        values = config(ladder_layers=2).to_dict()
        assert values["rope_scaling"]["factor"] == 32.0
        assert values["hidden_size"] == 2048


class TestParameters:
    @pytest.mark.parametrize(
        "changes",
        [{}, {"tie_word_embeddings": False}, {"num_key_value_heads": 4}, {"head_dim": 24}],
        ids=str,
    )
    def test_count_is_that_of_transformers(self, changes):
        model = make_llama(**changes)
        assert config_from_hf(model.config.to_dict()).parameters == model.num_parameters()

    def test_published_counts(self):
        assert config().parameters == 1_235_814_400  # Llama-3.2-1B, as the Hub counts
        assert config(ladder_layers=8).parameters == 1_235_814_400
