"""The shape of a model, in Hugging Face's names. Needs no torch."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ladder_eval.distributed.shares import Shape
from ladder_eval.errors import CheckpointError
from ladder_eval.models import dolomite_config, families
from ladder_eval.models.config_values import printable, shown, whole

# What a layer can be that is no ladder layer. Each has a file of its own.
TOPOLOGIES = ("standard", "parallel", "desync-2x", "desync-4x", "no-comm")


@dataclass(frozen=True, kw_only=True, slots=True)
class RopeScaling:
    """Llama 3's scaling of the rotary frequencies (rope_type `llama3`).

    Wavelengths above original_max_position_embeddings / low_freq_factor are stretched by factor,
    those below original_max_position_embeddings / high_freq_factor are kept, and those between
    are interpolated. Source: Hugging Face transformers, `modeling_rope_utils`.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        for name in ("factor", "low_freq_factor"):
            _require_positive(name, getattr(self, name))
        length = whole("original_max_position_embeddings", self.original_max_position_embeddings)
        if length > _LARGEST_SIZE:
            raise CheckpointError(
                f"original_max_position_embeddings={shown(length)} is more than any model has."
            )
        if not self.low_freq_factor < self.high_freq_factor < math.inf:
            raise CheckpointError(
                f"high_freq_factor={self.high_freq_factor} must be larger than "
                f"low_freq_factor={self.low_freq_factor}."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A Llama-family decoder and the layers of it that are ladder layers.

    Every size is that of the whole model, not of one rank. `ladder_layers` holds layer indices
    in ascending order: none is a standard model, all a ladder model, some a hybrid. `topology` is
    the residual of the layers that aren't ladder layers, one of TOPOLOGIES.

    Families differ in two flags: `qkv_bias`, biases on query, key and value (Qwen 2), and
    `qk_norm`, a norm of each head's query and key before they are rotated (Qwen 3).

    Raises:
        CheckpointError: if a size is not positive or the sizes don't fit together.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    tie_word_embeddings: bool
    qkv_bias: bool = False
    qk_norm: bool = False
    ladder_layers: tuple[int, ...] = ()
    topology: str = "standard"

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = whole(name, getattr(self, name))
            if value > _LARGEST.get(name, _LARGEST_SIZE):
                raise CheckpointError(f"{name}={shown(value)} is more than any model has.")
        for name in ("rms_norm_eps", "rope_theta"):
            _require_positive(name, getattr(self, name))
        if self.topology not in TOPOLOGIES:
            raise CheckpointError(
                f"Unknown residual {self.topology!r}; known are ladder, {', '.join(TOPOLOGIES)}."
            )
        if self.ladder_layers and self.topology != "standard":
            raise CheckpointError(f"Ladder layers beside {self.topology} ones are not supported.")
        if self.parameters > _MOST_PARAMETERS:
            raise CheckpointError(f"{self.parameters} parameters are more than any model has.")
        if self.num_attention_heads % self.num_key_value_heads:
            raise CheckpointError(
                f"num_attention_heads={self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads={self.num_key_value_heads}."
            )
        if self.head_dim % 2:
            raise CheckpointError(
                f"head_dim={self.head_dim} is odd; rotary embeddings need an even one."
            )

    @property
    def residual(self) -> str:
        """The residual: one of TOPOLOGIES, `ladder` or `hybrid ladder`."""
        if not self.ladder_layers:
            return self.topology
        return "ladder" if len(self.ladder_layers) == self.num_hidden_layers else "hybrid ladder"

    @property
    def depends_on_tp_size(self) -> bool:
        """Whether the function that the model computes depends on the number of ranks."""
        return self.topology in ("desync-2x", "desync-4x", "no-comm")

    @property
    def shape(self) -> Shape:
        """The sizes that are divided among ranks."""
        return Shape(
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            intermediate_size=self.intermediate_size,
            vocab_size=self.vocab_size,
        )

    @property
    def parameters(self) -> int:
        """Number of weights, tied embeddings counted once."""
        query_and_output = 2 * self.hidden_size * self.num_attention_heads * self.head_dim
        key_and_value = 2 * self.hidden_size * self.num_key_value_heads * self.head_dim
        mlp = 3 * self.hidden_size * self.intermediate_size
        layer = query_and_output + key_and_value + mlp + 2 * self.hidden_size
        if self.qkv_bias:
            layer += (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim
        if self.qk_norm:
            layer += 2 * self.head_dim
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return self.num_hidden_layers * layer + embeddings + self.hidden_size

    def with_ladder(self, ladder_layers: int | Iterable[int]) -> "ModelConfig":
        """The same model with these ladder layers: a number means the last n, a list those.

        Raises:
            CheckpointError: if the layers don't exist in this model.
        """
        layers = parse_ladder_layers(ladder_layers, self.num_hidden_layers)
        return replace(self, ladder_layers=layers)

    def as_standard(self) -> "ModelConfig":
        """The same model with the standard residual."""
        return replace(self, ladder_layers=(), topology="standard")

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)


_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
)

# Far beyond any published model: only a damaged configuration has more.
_MOST_PARAMETERS = 10**15
_LARGEST_SIZE = 2**40
_LARGEST = {"num_hidden_layers": 10**4, "num_attention_heads": 10**5}


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise CheckpointError(f"{name} must be a positive number, not {value}.")


def parse_ladder_layers(value: object, total: int) -> tuple[int, ...]:
    """Read `ladder_layers` of the published format: n is the last n layers, a list those layers.

    Args:
        value: What the configuration says.
        total: How many layers the model has.

    Raises:
        CheckpointError: if value is neither, repeats a layer, or names one that doesn't exist.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= total:
            raise CheckpointError(
                f"ladder_layers={shown(value)} must be between 0 and {total} layers."
            )
        return tuple(range(total - value, total))
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise CheckpointError(f"ladder_layers must be a number or a list, not {shown(value)}.")
    layers = list(value)
    valid = all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < total for i in layers)
    if not valid or len(set(layers)) != len(layers):
        raise CheckpointError(
            f"ladder_layers={shown(layers)} must name different layers from 0 to {total - 1}."
        )
    return tuple(sorted(layers))


def config_from_hf(values: Mapping[str, Any]) -> ModelConfig:
    """Read the content of a `config.json`: Hugging Face's, or dolomite-engine's.

    `ladder_layers` decides the residual, whatever `model_type` or `architectures` say, so that a
    ladder checkpoint is never taken for a dense one.

    Raises:
        CheckpointError: if the model does what isn't supported, or a field is missing or wrong.
    """
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        known = ", ".join(MODEL_TYPES)
        raise CheckpointError(f"model_type {shown(kind)} is not supported; known are {known}.")
    try:
        fields = MODEL_TYPES[kind](values)
        scaling = fields.pop("rope_scaling")
        ladder_layers = fields.pop("ladder_layers")
        rope_scaling = None if scaling is None else RopeScaling(**scaling)
        config = ModelConfig(rope_scaling=rope_scaling, **fields)
    except KeyError as error:
        raise CheckpointError(f"config.json has no {error.args[0]}.") from None
    except (TypeError, ValueError, ArithmeticError) as error:
        reason = printable(str(error))
        raise CheckpointError(f"config.json has a value of the wrong kind: {reason}.") from None
    return config.with_ladder(ladder_layers)


# model_type → what reads the fields of a configuration of it, as arguments of ModelConfig.
MODEL_TYPES = dict.fromkeys(families.MODEL_TYPES, families.fields) | dict.fromkeys(
    dolomite_config.MODEL_TYPES, dolomite_config.fields
)


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """The content of a Hugging Face `config.json` that transformers and this package read.

    Raises:
        CheckpointError: if no format exists for the residual.
    """
    values = config.to_dict()
    scaling, ladder_layers = values.pop("rope_scaling"), values.pop("ladder_layers")
    if values.pop("topology") != "standard":
        raise CheckpointError(f"There is no checkpoint format for {config.residual} models.")
    kind = families.written_as(
        qkv_bias=values.pop("qkv_bias"), qk_norm=values.pop("qk_norm"), ladder=bool(ladder_layers)
    )
    values["rope_scaling"] = None if scaling is None else {"rope_type": "llama3", **scaling}
    if ladder_layers:
        values["ladder_layers"] = list(ladder_layers)
    return {"hidden_act": "silu"} | kind | values
