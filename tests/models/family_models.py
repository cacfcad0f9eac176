"""Random models of the families that are read beside Llama."""

import torch
from llama_reference import SHAPE
from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config, Qwen3Config

FAMILIES = {
    "qwen2": (Qwen2Config, {}),
    "qwen3": (Qwen3Config, {"head_dim": 24}),
    "mistral": (MistralConfig, {"sliding_window": None}),
}


def make(family, **changes):
    """A random model whose norms and biases differ from one another."""
    kind, own = FAMILIES[family]
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(kind(**(SHAPE | own | changes))).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
            if "bias" in name:
                weight.normal_()
    return model
