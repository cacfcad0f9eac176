"""The tokenizer inside a GGUF file, written as Hugging Face tokenizer files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import PreTokenizer

from ladder_eval.errors import CheckpointError
from ladder_eval.models.config_values import printable

# GGUF's token_type values of tokens that are never split.
_CONTROL, _USER_DEFINED = 3, 4

# How text is cut before byte-pair merging, by the file's tokenizer.ggml.pre.
# Source of the patterns: llama.cpp, src/llama-vocab.cpp.
_WORDS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|"
    r"\p{N}{%s}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _gpt2() -> PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _smollm() -> PreTokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, _gpt2()])


def _split(digits: str) -> PreTokenizer:
    words = pre_tokenizers.Split(Regex(_WORDS % digits), behavior="isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([words, bytes_only])


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the name in tokenizer.ggml.pre stands for."""

    pre_tokenizer: Callable[[], PreTokenizer]
    ignore_merges: bool = False  # a word that is a token stays whole, whatever the merges say
    adds_bos: bool = False  # unless the file says otherwise


_KINDS = {
    "gpt-2": _Kind(_gpt2),
    "smollm": _Kind(_smollm),
    "llama-bpe": _Kind(lambda: _split("1,3"), ignore_merges=True, adds_bos=True),
    "qwen2": _Kind(lambda: _split("1,1")),
}


def write_tokenizer(fields: Mapping[str, Any], folder: Path, file: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and generation_config.json.

    The second has the chat template; the last what ends a text, or transformers would write on.

    Raises:
        CheckpointError: if the file's tokenizer is of a kind that isn't supported, or damaged.
    """
    kind, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in _KINDS:
        found = printable(f"{kind}/{pre}")
        raise CheckpointError(
            f"{file} has a tokenizer of kind {found}; supported are "
            f"{', '.join(f'gpt2/{name}' for name in _KINDS)}. "
            "Give the model as a Hugging Face folder instead."
        )
    try:
        tokenizer = _tokenizer(fields, _KINDS[pre])
        settings, ends = _settings(fields), _ends(fields)
    except Exception as error:  # the tokenizers package raises plain Exception
        raise CheckpointError(f"{file} has a damaged tokenizer: {printable(str(error))}.") from None
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, values in (("tokenizer", settings), ("generation", ends)):
        text = json.dumps(values, indent=2, ensure_ascii=False)
        (folder / f"{name}_config.json").write_text(text, encoding="utf-8")


def _tokenizer(fields: Mapping[str, Any], kind: _Kind) -> Tokenizer:
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=kind.ignore_merges))
    tokenizer.pre_tokenizer = kind.pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    for wanted, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        chosen = [token for token, its in zip(tokens, types, strict=True) if its == wanted]
        tokenizer.add_tokens([AddedToken(t, special=special, normalized=False) for t in chosen])
    if fields.get("tokenizer.ggml.add_bos_token", kind.adds_bos):
        index = int(fields["tokenizer.ggml.bos_token_id"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[index]} $A", special_tokens=[(tokens[index], index)]
        )
    return tokenizer


def _ends(fields: Mapping[str, Any]) -> dict[str, int]:
    """The tokens that begin and end a text, as far as the file has them."""
    found = {
        f"{name}_token_id": fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")
    }
    return {name: int(token) for name, token in found.items() if token is not None}


def _settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    tokens = fields["tokenizer.ggml.tokens"]
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(fields["llama.context_length"]),
    }
    for name, stored in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = fields.get(f"tokenizer.ggml.{stored}_token_id")
        if index is not None:
            settings[f"{name}_token"] = tokens[int(index)]
    if "tokenizer.chat_template" in fields:
        settings["chat_template"] = fields["tokenizer.chat_template"]
    return settings
