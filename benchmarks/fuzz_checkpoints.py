"""Healthy checkpoints of a few kilobytes, and what a run does with them before it computes."""

import json
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFWriter
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from ladder_eval.harness.arm import arm_of
from ladder_eval.harness.chat import ChatTemplate
from ladder_eval.models.checkpoint import load_model
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import ModelConfig, config_to_hf
from ladder_eval.models.places import peek_place
from ladder_eval.models.safetensors_writer import Kind, write_safetensors
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources

CONFIG = ModelConfig(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=264,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
_LAYER = {
    "input_layernorm": ("attn_norm", (32,)),
    "self_attn.q_proj": ("attn_q", (32, 32)),
    "self_attn.k_proj": ("attn_k", (16, 32)),
    "self_attn.v_proj": ("attn_v", (16, 32)),
    "self_attn.o_proj": ("attn_output", (32, 32)),
    "post_attention_layernorm": ("ffn_norm", (32,)),
    "mlp.gate_proj": ("ffn_gate", (64, 32)),
    "mlp.up_proj": ("ffn_up", (64, 32)),
    "mlp.down_proj": ("ffn_down", (32, 64)),
}
# Name in a safetensors file → name in a GGUF file, and shape.
TENSORS: dict[str, tuple[str, tuple[int, ...]]] = {
    "model.embed_tokens.weight": ("token_embd.weight", (264, 32)),
    "model.norm.weight": ("output_norm.weight", (32,)),
} | {
    f"model.layers.{layer}.{name}.weight": (f"blk.{layer}.{short}.weight", shape)
    for layer in range(2)
    for name, (short, shape) in _LAYER.items()
}
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
_TOKENS = [*_BYTES, "he", "ll", "hell", "hello", "<s>", "</s>", "<a>", "<b>"]
_MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o")]
_TEMPLATE = "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>{% endfor %}"


def make_checkpoint(folder: Path, shard_bytes: int = 10**6) -> None:
    """A checkpoint folder of random weights, with a tokenizer."""
    rng = np.random.default_rng(0)
    tensors = {n: rng.normal(size=s).astype(np.float32) for n, (_, s) in TENSORS.items()}
    layout: dict[str, Kind] = {name: ("F32", shape) for name, (_, shape) in TENSORS.items()}
    write_safetensors(folder, layout, tensors.items(), shard_bytes=shard_bytes)
    (folder / "config.json").write_text(json.dumps(config_to_hf(CONFIG)))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [261]}))
    tokenizer = Tokenizer(BPE({t: i for i, t in enumerate(_TOKENS)}, _MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    settings |= {"eos_token": "</s>", "model_max_length": 64, "chat_template": _TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def make_shards(folder: Path) -> None:
    """The same in several files and an index."""
    make_checkpoint(folder, shard_bytes=20_000)


def make_gguf(folder: Path) -> None:
    """The same as a GGUF file."""
    writer = GGUFWriter(folder / "model.gguf", "llama")
    numbers = {"context_length": 64, "embedding_length": 32, "block_count": 2}
    numbers |= {"feed_forward_length": 64, "attention.head_count": 4}
    numbers |= {"attention.head_count_kv": 2, "attention.key_length": 8}
    for name, number in numbers.items():
        writer.add_uint32(f"llama.{name}", number)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_string("tokenizer.ggml.pre", "smollm")
    writer.add_array("tokenizer.ggml.tokens", _TOKENS)
    writer.add_array("tokenizer.ggml.token_type", [1] * 260 + [3] * 4)
    writer.add_array("tokenizer.ggml.merges", [" ".join(pair) for pair in _MERGES])
    writer.add_uint32("tokenizer.ggml.bos_token_id", 260)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 261)
    writer.add_string("tokenizer.chat_template", _TEMPLATE)
    rng = np.random.default_rng(0)
    for name, shape in TENSORS.values():
        writer.add_tensor(name, rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_checkpoint(folder: Path) -> None:
    """All that a run does with a folder or GGUF file before it computes."""
    peek_place(folder)
    model = select(
        str(folder), choice=ResidualChoice(), sources=WeightSources(notify=lambda _: None)
    )
    if model.folder is None:
        return
    arm = arm_of(model, model.folder, 1)
    load_model(model.folder, model.config, dtype=torch.float32, device=torch.device("cpu"))
    ChatTemplate(tokenizer=arm.tokenizer).render([{"role": "user", "content": "hello"}])
    arm.tokenizer.decode(arm.tokenizer.encode("hello world"))
