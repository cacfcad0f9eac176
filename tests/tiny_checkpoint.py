"""Checkpoints small enough for any test, and their tokenizer."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM

TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 258,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "initializer_range": 0.2,  # large enough that answers differ clearly
}


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer: 256 bytes, <s> and </s>, no padding token, no BOS added."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_checkpoint(folder: Path, seed: int = 0, **changes: object) -> Path:
    """A random Llama model as transformers saves it, with the tokenizer above."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**(TINY | changes)))
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder
