"""The tensors of dolomite-engine and of its successor lm-engine, which store fused matrices.

`c_attn` holds, for each key-value head: its query heads, the key head, the value head. `c_fc`
holds up, then gate; in later versions their rows alternate, gate first. Rotary channels are paired
as Hugging Face pairs them. Source: `hf_models/model_conversion/llama.py` of both projects.
"""

from collections.abc import Mapping
from typing import Any

from ladder_eval.models.config import ModelConfig
from ladder_eval.models.dolomite_config import interleaved
from ladder_eval.models.layout import Layout, Place

_NAMES = {
    "embed_tokens": "transformer.wte",
    "norm": "transformer.ln_f",
    "lm_head": "lm_head",
    "input_layernorm": "ln_1",
    "post_attention_layernorm": "ln_2",
    "self_attn.q_proj": "sequence_mixer.c_attn",
    "self_attn.k_proj": "sequence_mixer.c_attn",
    "self_attn.v_proj": "sequence_mixer.c_attn",
    "self_attn.o_proj": "sequence_mixer.c_proj",
    "mlp.gate_proj": "mlp_block.c_fc",
    "mlp.up_proj": "mlp_block.c_fc",
    "mlp.down_proj": "mlp_block.c_proj",
}
# The only norm of a layer, whose two halves both read it.
_PARALLEL_NAMES = {"input_layernorm": "ln", "post_attention_layernorm": "ln"}
_OLDER_NAMES = {".attn.": ".sequence_mixer.", ".mlp.": ".mlp_block."}


class DolomiteLayout(Layout):
    """Where the tensors of a model lie.

    Args:
        values: The content of `config.json`.
        config: What it says.
    """

    layers = "transformer.h."

    def __init__(self, values: Mapping[str, Any], config: ModelConfig) -> None:
        alternate = interleaved(values)
        self.variant = "gate and up alternate" if alternate else ""
        self._names = _NAMES | (_PARALLEL_NAMES if values.get("model_type") == "palm" else {})
        self._rows = _attention_rows(config) | _mlp_rows(config.intermediate_size, alternate)

    def known(self, stored: str) -> str | None:
        """The newer of a tensor's two names."""
        for older, newer in _OLDER_NAMES.items():
            stored = stored.replace(older, newer)
        return stored

    def place(self, name: str) -> Place:
        """Where the model's tensor lies."""
        module, _, kind = name.rpartition(".")
        if not module.startswith("layers."):
            return Place(f"{self._names[module]}.{kind}")
        _, index, inner = module.split(".", 2)
        return Place(f"{self.layers}{index}.{self._names[inner]}.{kind}", self._rows.get(inner))


def _attention_rows(config: ModelConfig) -> dict[str, tuple[range, ...]]:
    width, groups = config.head_dim, config.num_key_value_heads
    queries = config.num_attention_heads // groups  # query heads in a group
    starts = [group * (queries + 2) * width for group in range(groups)]
    key, value = queries * width, (queries + 1) * width
    return {
        "self_attn.q_proj": tuple(range(start, start + key) for start in starts),
        "self_attn.k_proj": tuple(range(start + key, start + value) for start in starts),
        "self_attn.v_proj": tuple(range(start + value, start + value + width) for start in starts),
    }


def _mlp_rows(channels: int, alternate: bool) -> dict[str, tuple[range, ...]]:
    if alternate:
        gate, up = range(0, 2 * channels, 2), range(1, 2 * channels, 2)
    else:
        gate, up = range(channels, 2 * channels), range(channels)
    return {"mlp.gate_proj": (gate,), "mlp.up_proj": (up,)}
