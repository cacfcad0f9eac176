import json

import pytest
from gguf_files import BYTES, IDS, MERGES, SPECIALS, TEMPLATE, TOKENS, USER_DEFINED, write_gguf
from gguf_files import tokenizer_fields as fields_of
from llama_reference import make_llama
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, GenerationConfig

from ladder_eval.errors import CheckpointError
from ladder_eval.models.gguf import convert_gguf
from ladder_eval.models.gguf_tokenizer import write_tokenizer

KINDS = ("gpt-2", "smollm", "llama-bpe", "qwen2")
# Llama 3's own pattern, from its tokenizer.json; Qwen2's takes digits one by one.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "hello world",
    " hello  hello\n\nhello",
    "123 1234 x12y 3.14, 1",
    "it's IT'S they're we'LL x'sell",
    "tabs\tand \n mixed \r\n ends  ",
    "café naïve — “quotes” 日本語 १२३ ½ 🙂🙂",
    "whole unwhole whole",
    "a<|im_start|>user\nhello<|im_end|>\n <repo_name>12",
    "<|im_start",
    "",
    "   ",
]


def written(folder, pre="smollm", **changes):
    fields = {"llama.context_length": 128} | fields_of(pre, **changes)
    fields = {name: value for name, value in fields.items() if value is not None}
    write_tokenizer(fields, folder, folder / "m.gguf")
    return AutoTokenizer.from_pretrained(folder)


def ids(folder, text, pre="smollm", **changes):
    return written(folder, pre, add_bos_token=False, **changes)(text).input_ids


def tokens(folder, text, pre="smollm"):
    return [TOKENS[i] for i in ids(folder, text, pre)]


def reference(pre):
    """The same tokenizer from the published tokenizer.json of each family."""
    whole = models.BPE(IDS, [tuple(m.split()) for m in MERGES], ignore_merges=pre == "llama-bpe")
    tokenizer = Tokenizer(whole)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pattern = {"llama-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}.get(pre)
    if pattern:
        split = [pre_tokenizers.Split(Regex(pattern), "isolated", invert=False), plain]
    else:
        split = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if pre == "smollm":
        split.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.add_special_tokens([*SPECIALS, USER_DEFINED])
    return tokenizer


class TestIds:
    @pytest.mark.parametrize("pre", KINDS)
    def test_ids_are_those_of_the_familys_own_tokenizer(self, tmp_path, pre):
        ours, theirs = written(tmp_path, pre, add_bos_token=False), reference(pre)
        for text in TEXTS:
            assert ours(text).input_ids == theirs.encode(text).ids, text

    @pytest.mark.parametrize(
        ("pre", "expected"),
        [
            ("gpt-2", ["Ġ", "1234"]),
            ("smollm", ["Ġ", "1", "2", "3", "4"]),
            ("llama-bpe", ["Ġ", "123", "4"]),
            ("qwen2", ["Ġ", "1", "2", "3", "4"]),
        ],
    )
    def test_the_kinds_cut_digits_differently(self, tmp_path, pre, expected):
        assert tokens(tmp_path, " 1234", pre) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("hello world", ["hello", "Ġw", "o", "r", "l", "d"]),
            ("a\n\n", ["a", "ĊĊ"]),
            ("a\n\nb", ["a", "Ċ", "Ċ", "b"]),  # the last one belongs to what follows
            ("it's", ["i", "t", "'s"]),
            ("é", ["Ã©"]),
            ("🙂", [BYTES[b] for b in "🙂".encode()]),
            ("<|im_start|>hello", ["<|im_start|>", "hello"]),
            ("x<repo_name>1", ["x", "<repo_name>", "1"]),
        ],
    )
    def test_ids_by_hand(self, tmp_path, text, expected):
        assert tokens(tmp_path, text) == expected

    def test_a_word_that_no_merge_reaches_is_whole_in_llama_alone(self, tmp_path):
        assert ids(tmp_path, "whole", "llama-bpe") == [IDS["whole"]]
        assert ids(tmp_path, "whole", "smollm") == [IDS[letter] for letter in "whole"]

    @pytest.mark.parametrize("pre", KINDS)
    def test_decoding_gives_back_the_text(self, tmp_path, pre):
        tokenizer = written(tmp_path, pre, add_bos_token=False)
        for text in TEXTS:
            assert tokenizer.decode(tokenizer(text).input_ids) == text


class TestSpecialTokens:
    @pytest.mark.parametrize(
        ("pre", "asked", "added"),
        [
            ("smollm", True, 1),
            ("smollm", False, 0),
            ("smollm", None, 0),
            ("gpt-2", None, 0),
            ("qwen2", None, 0),
            ("llama-bpe", None, 1),
            ("llama-bpe", False, 0),
            ("llama-bpe", True, 1),
        ],
    )
    def test_bos_is_added_once_where_the_file_asks_for_it(self, tmp_path, pre, asked, added):
        tokenizer = written(tmp_path, pre, add_bos_token=asked)
        bos = IDS["<|im_start|>"]
        assert tokenizer("hello").input_ids == [bos] * added + [IDS["hello"]]
        assert tokenizer("hello", add_special_tokens=False).input_ids == [IDS["hello"]]

    def test_their_ids_are_the_files(self, tmp_path):
        tokenizer = written(tmp_path)
        assert tokenizer.bos_token_id == IDS["<|im_start|>"]
        assert tokenizer.eos_token_id == tokenizer.pad_token_id == IDS["<|im_end|>"]
        assert tokenizer.unk_token_id == IDS["<|endoftext|>"]
        assert len(tokenizer) == len(TOKENS)
        assert tokenizer.model_max_length == 128

    def test_control_tokens_are_skipped_when_asked_and_user_defined_ones_are_not(self, tmp_path):
        tokenizer = written(tmp_path)
        encoded = tokenizer("<|im_start|>hello<repo_name><|im_end|>").input_ids
        assert tokenizer.decode(encoded, skip_special_tokens=True) == "hello<repo_name>"

    def test_the_chat_template_is_kept(self, tmp_path):
        tokenizer = written(tmp_path)
        assert tokenizer.chat_template == TEMPLATE
        chat = [{"role": "user", "content": "hello"}]
        assert tokenizer.apply_chat_template(chat, tokenize=False) == (
            "<|im_start|>user\nhello<|im_end|>\n"
        )

    def test_what_the_file_leaves_out_stays_out(self, tmp_path):
        tokenizer = written(tmp_path, padding_token_id=None, unknown_token_id=None)
        assert tokenizer.pad_token is None
        assert tokenizer.unk_token is None


class TestRefusals:
    @pytest.mark.parametrize("changes", [{"model": "llama"}, {"pre": "tekken"}, {"pre": None}])
    def test_other_kinds_are_named_beside_the_known_ones(self, tmp_path, changes):
        with pytest.raises(CheckpointError, match=r"supported are gpt2/gpt-2, gpt2/smollm"):
            written(tmp_path, **changes)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "changes",
        [
            {"tokens": None},
            {"merges": None},
            {"merges": ["h e", "zz zz"]},
            {"merges": ["no-space"]},
            {"token_type": None},
            {"token_type": [1, 1]},
            {"bos_token_id": 10**6, "add_bos_token": True},
            {"eos_token_id": len(TOKENS)},
            {"eos_token_id": "last"},
        ],
        ids=str,
    )
    def test_damage(self, tmp_path, changes):
        with pytest.raises(CheckpointError, match="has a damaged tokenizer"):
            written(tmp_path, **changes)
        assert not list(tmp_path.iterdir())

    def test_a_refused_tokenizer_leaves_no_checkpoint_behind(self, tmp_path):
        model = make_llama(vocab_size=len(TOKENS))
        file = write_gguf(tmp_path / "m.gguf", model, fields=fields_of("tekken"))
        with pytest.raises(CheckpointError, match="gpt2/tekken"):
            convert_gguf(file, tmp_path / "target" / "model")
        assert not list((tmp_path / "target").iterdir())


def test_a_converted_file_holds_its_tokenizer(tmp_path):
    write_gguf(tmp_path / "m.gguf", make_llama(vocab_size=len(TOKENS)))
    convert_gguf(tmp_path / "m.gguf", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer("hello 12").input_ids == [IDS[t] for t in ("hello", "Ġ", "1", "2")]
    settings = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert settings["eos_token"] == "<|im_end|>"
    ends = GenerationConfig.from_pretrained(tmp_path / "model")
    assert ends.eos_token_id == IDS["<|im_end|>"]
