"""The shapes of the Ladder-Residual paper (arXiv 2501.06589), each with three residuals.

They are as trained: the paper times 3b with 32 heads and 405b with 16 key-value heads, so that
its ranks divide them. The user brings the weights: of the paper's own only those of the 16-layer
hybrid are public, and Llama's have to be asked for. Needs no torch.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ladder_eval.models.config import ModelConfig, RopeScaling
from ladder_eval.models.named import AS_GIVEN, AS_TRAINED, NamedModel

# Llama 3.1's, from the config.json of meta-llama/Llama-3.1-8B and -405B.
_LLAMA_31 = RopeScaling(
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)

# The same in all: the paper's own models', Llama 3's and CodeLlama's; 176b's isn't published.
_RMS_NORM_EPS = 1e-5


class _Shape(NamedTuple):
    size: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    context: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    tied: bool
    about: str

    @property
    def config(self) -> ModelConfig:
        return ModelConfig(
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.hidden // self.heads,
            vocab_size=self.vocab,
            max_position_embeddings=self.context,
            rms_norm_eps=_RMS_NORM_EPS,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
            tie_word_embeddings=self.tied,
        )


_TRAINED = "trained from scratch and timed in the paper"
_TIMED = "shape timed in the paper"
_ADAPTED = "adapted from Llama-3.1-8B-Instruct in the paper"

# Sizes: the paper's speed tables. 1.55b and 3.9b were only timed, with random weights; context,
# rope_theta and tied embeddings are those of 1b and 3b. 3.9b is the paper's name: 52 layers of
# these sizes have 4.53e9 parameters. 8b, 70b and 405b are Llama 3.1's, 3's and 3.1's, 34b is
# CodeLlama's. 176b has Bloom's sizes but a gated MLP, hence 215.8e9 parameters; its rope_theta
# isn't published, so that it and the context are those of 1b.
_SHAPES = (
    _Shape("1b", 40, 1536, 24, 24, 4096, 49152, 2048, 1e4, None, True, _TRAINED),
    _Shape("1.55b", 52, 1536, 24, 24, 4096, 49152, 2048, 1e4, None, True, _TIMED),
    _Shape("3b", 40, 2304, 36, 36, 9216, 49152, 2048, 1e4, None, True, _TRAINED),
    _Shape("3.9b", 52, 2304, 32, 32, 9216, 49152, 2048, 1e4, None, True, _TIMED),
    _Shape("8b", 32, 4096, 32, 8, 14336, 128256, 131072, 5e5, _LLAMA_31, False, _TIMED),
    _Shape("34b", 48, 8192, 64, 8, 22016, 32000, 16384, 1e6, None, False, _TIMED),
    _Shape("70b", 80, 8192, 64, 8, 28672, 128256, 8192, 5e5, None, False, _TIMED),
    _Shape("176b", 70, 14336, 112, 112, 50176, 250880, 2048, 1e4, None, False, _TIMED),
    _Shape("405b", 126, 16384, 128, 8, 53248, 128256, 131072, 5e5, _LLAMA_31, False, _TIMED),
)

# Layers at the end of 8b that are ladder layers in the paper's adapted models.
_HYBRID_DEPTHS = (16, 20)


def presets() -> Iterator[NamedModel]:
    """The shapes of the paper, smallest first: standard, ladder, parallel, and hybrids of 8b."""
    for shape in _SHAPES:
        yield from _residuals(shape)
        if shape.size == "8b":
            yield from _hybrids(shape)


def _residuals(shape: _Shape) -> Iterator[NamedModel]:
    yield NamedModel(
        name=f"standard_{shape.size}",
        about=shape.about,
        config=shape.config,
        weights=None,
        baseline=None,
        adaptation=AS_TRAINED,
    )
    for residual, config in (
        ("ladder", shape.config.with_ladder(shape.layers)),
        ("parallel", replace(shape.config, topology="parallel")),
    ):
        yield _candidate(f"{residual}_{shape.size}", shape, config, shape.about)


def _hybrids(shape: _Shape) -> Iterator[NamedModel]:
    for depth in _HYBRID_DEPTHS:
        name = f"hybrid_ladder_{shape.size}_{depth}l"
        yield _candidate(name, shape, shape.config.with_ladder(depth), _ADAPTED)


def _candidate(name: str, shape: _Shape, config: ModelConfig, about: str) -> NamedModel:
    return NamedModel(
        name=name,
        about=about,
        config=config,
        weights=None,
        baseline=f"standard_{shape.size}",
        adaptation=AS_GIVEN,
    )
