"""Where texts end, token by token, against the text as a whole; and what tasks may ask for."""

import random
import re
import shutil

import pytest
from lm_eval.models.utils import postprocess_generated_text
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ladder_eval.engine.sampling import Sampling
from ladder_eval.errors import UsageError
from ladder_eval.harness.stopping import TextEnd, settings_of

EOS = 257


@pytest.fixture(scope="module")
def tokenizer(tiny_checkpoint):
    """A token a byte."""
    return AutoTokenizer.from_pretrained(tiny_checkpoint)


@pytest.fixture(scope="module")
def merging(tiny_checkpoint, tmp_path_factory):
    """The same with tokens of several letters, one of which spans the end of a sentence."""
    folder = tmp_path_factory.mktemp("models") / "merging"
    shutil.copytree(tiny_checkpoint, folder)
    file = folder / "tokenizer.json"
    made = Tokenizer.from_file(str(file))
    made.add_tokens([". Qu", "estion:", "</think>"])
    made.save(str(file))
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def special(tiny_checkpoint, tmp_path_factory):
    """The same with a special token that closes thoughts."""
    folder = tmp_path_factory.mktemp("models") / "special"
    shutil.copytree(tiny_checkpoint, folder)
    file = folder / "tokenizer.json"
    made = Tokenizer.from_file(str(file))
    made.add_special_tokens(["</think>"])
    made.save(str(file))
    return AutoTokenizer.from_pretrained(folder)


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def ended(end, tokens):
    """How many tokens are generated until the text is over; None if it never is."""
    is_over = end.watch()
    for count in range(1, len(tokens) + 1):
        if is_over(tokens[:count]):
            return count
    return None


TEXT = "Twelve. Question: How?\n\nTen"


@pytest.mark.parametrize(
    ("until", "answer", "count"),
    [
        (["\n\n"], "Twelve. Question: How?", 24),
        (["Question:"], "Twelve. ", 17),
        (["Ten", "?", "How"], "Twelve. Question: ", 21),
        (["never"], TEXT, None),
        ([], TEXT, None),
        (["T"], "", 1),
    ],
)
def test_text_ends_before_the_first_of_the_strings(tokenizer, until, answer, count):
    end, tokens = TextEnd(tokenizer, until), ids(tokenizer, TEXT)
    assert ended(end, tokens) == count
    assert end.cut(tokens) == end.cut(tokens[:count]) == answer
    assert answer == postprocess_generated_text(TEXT, until, None)


@pytest.mark.parametrize(
    ("until", "answer", "count"),
    [(["Question:"], "Twelve. ", 8), ([". "], "Twelve", 7), (["e. Q"], "Twelv", 7)],
)
def test_strings_may_span_tokens_and_end_within_one(merging, until, answer, count):
    tokens = ids(merging, TEXT)
    assert tokens[6:8] == [258, 259]  # ". Qu" and "estion:"
    end = TextEnd(merging, until)
    assert ended(end, tokens) == count
    assert end.cut(tokens[:count]) == answer


def test_characters_of_several_tokens_are_found(tokenizer):
    end, tokens = TextEnd(tokenizer, ["ü€"]), ids(tokenizer, "für ü€ und")
    assert ended(end, tokens) == len("für ü€".encode())
    assert end.cut(tokens) == "für "


def test_strings_are_found_far_into_a_long_text(tokenizer):
    tokens = ids(tokenizer, "abc " * 500 + "STOP" + "x" * 9)
    end = TextEnd(tokenizer, ["STOP"])
    assert ended(end, tokens) == 2004
    assert end.cut(tokens) == "abc " * 500


def test_special_tokens_are_no_text_and_part_no_string(tokenizer):
    tokens = [*ids(tokenizer, "one ST"), EOS, 256, *[EOS] * 40, *ids(tokenizer, "OP two")]
    end = TextEnd(tokenizer, ["STOP"])
    assert ended(end, tokens) == 6 + 42 + 2
    assert end.cut(tokens) == "one "


@pytest.mark.parametrize("think_end", ["", "</think>"])
def test_a_string_may_be_a_special_token(special, think_end):
    """As tasks give `<|im_end|>` to models whose end-of-text token is another."""
    end = TextEnd(special, ["\n\n", "</s>"], think_end)
    tokens = ids(special, "Hm.</s> So</think>Four.</s> Five.")
    stop = tokens.index(EOS) if not think_end else len(tokens) - 7
    assert ended(end, tokens) == stop + 1
    assert end.cut(tokens[: stop + 1]) == ("Four." if think_end else "Hm.")


def pieces():
    """As Llama 2's: spaces are part of words, and what isn't in the vocabulary is bytes."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    words += [*"abSTOPQn.,?!':▁", "▁a", "▁ST", "ST", "OP", "▁n", "'t", "▁.", "▁▁"]
    model = models.Unigram([(word, -len(words[i:])) for i, word in enumerate(words)], 0, True)
    made = Tokenizer(model)
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return made


def words():
    """As BERT's, with its way to clean a text up."""
    known = ["[UNK]", "a", "b", "##b", "stop", "st", "##op", *".,?!'", "n", "##n", "'t", ":"]
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=True)
    made.add_special_tokens(["</s>"])
    return made


def cleaned(made, clean=True):
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="</s>", clean_up_tokenization_spaces=clean
    )


UNTIL = ["STOP", " STOP", "STO", "\n\n", "\n", "stop", "st op", " a", "a.", " n't", "ü€", "漢\n"]
UNTIL += ["." * 24, "'" * 12, "?!", "TOP "]
PIECES = [
    "a",
    "b",
    " ",
    "STOP",
    " ST",
    "OP",
    "\n",
    "漢",
    "ü",
    "€",
    " .",
    "?",
    " n't",
    " ' ",
    "stop",
]
PIECES += ["," * 3, "漢" * 40, "😀" * 3, "." * 30, " '" * 30]


@pytest.mark.parametrize("kind", ["bytes", "merging", "pieces", "cleaned pieces", "words"])
def test_a_text_is_over_as_soon_as_the_whole_of_it_has_a_string(request, kind):
    """Texts and random tokens, some of which are special or in no vocabulary."""
    tokenizer = {
        "bytes": lambda: request.getfixturevalue("tokenizer"),
        "merging": lambda: request.getfixturevalue("merging"),
        "pieces": lambda: cleaned(pieces(), clean=False),
        "cleaned pieces": lambda: cleaned(pieces()),
        "words": lambda: cleaned(words()),
    }[kind]()
    over = 0
    for seed in range(300):
        chance = random.Random(seed)
        until = chance.sample(UNTIL, 2)
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 12)))
        tokens = ids(tokenizer, text)
        if seed % 3 == 0:
            tokens = chance.choices(range(len(tokenizer) + 9), k=60)
        if seed % 5 == 0:
            tokens = [t for token in tokens for t in (token, tokenizer.eos_token_id, 10**5)]
        wholes = (
            tokenizer.decode(tokens[:n], skip_special_tokens=True)
            for n in range(1, len(tokens) + 1)
        )
        found = (n for n, whole in enumerate(wholes, 1) if any(end in whole for end in until))
        expected = next(found, None)
        assert ended(TextEnd(tokenizer, until), tokens) == expected, (seed, until, text)
        over += expected is not None
    assert over > 30


THOUGHTS = "I think.\n\nSo\n\n</think>\n\nFour.\n\nBut"


def test_strings_do_not_count_in_thoughts(tokenizer):
    """lm-eval 3700."""
    end, tokens = TextEnd(tokenizer, ["\n\n"], "</think>"), ids(tokenizer, THOUGHTS)
    assert ended(end, tokens) == len(THOUGHTS) - 3
    assert end.cut(tokens) == "Four."
    assert end.cut(tokens) == postprocess_generated_text(THOUGHTS, ["\n\n"], "</think>")


@pytest.mark.parametrize("kind", ["merging", "special"])
def test_thoughts_may_be_closed_by_one_token(request, kind):
    tokenizer = request.getfixturevalue(kind)
    tokens = ids(tokenizer, THOUGHTS)
    assert len(tokens) == len(THOUGHTS) - len("</think>") + 1
    end = TextEnd(tokenizer, ["\n\n"], "</think>")
    assert ended(end, tokens) == len(tokens) - 3
    assert end.cut(tokens) == "Four."


def test_thoughts_that_are_never_closed_are_the_answer(tokenizer):
    end, tokens = TextEnd(tokenizer, ["\n\n"], "</think>"), ids(tokenizer, "I think.\n\nSo")
    assert ended(end, tokens) is None
    assert end.cut(tokens) == "I think."


@pytest.mark.parametrize("kind", ["tokenizer", "special"])
def test_only_what_follows_the_last_thought_is_the_answer(request, kind):
    tokenizer = request.getfixturevalue(kind)
    text = "a</think> b. c</think> d. e"
    end = TextEnd(tokenizer, ["."], "</think>")
    assert end.cut(ids(tokenizer, text)) == postprocess_generated_text(text, ["."], "</think>")
    assert end.cut(ids(tokenizer, text)) == "d"


def test_thoughts_are_closed_by_a_special_token_alone(special):
    with pytest.raises(UsageError, match=r"'</think>\\n' has more in it than a special token"):
        TextEnd(special, ["."], "</think>\n")


@pytest.mark.parametrize(
    ("kwargs", "until", "most", "sampling"),
    [
        ({}, (), 256, Sampling()),
        ({"until": "\n"}, ("\n",), 256, Sampling()),
        ({"until": ["\n", "", "Q:"], "max_gen_toks": 9}, ("\n", "Q:"), 9, Sampling()),
        ({"until": None, "max_new_tokens": 9}, (), 9, Sampling()),
        ({"temperature": 0.0, "do_sample": False, "top_p": None}, (), 256, Sampling()),
        ({"do_sample": False, "temperature": 0.7}, (), 256, Sampling()),
        ({"temperature": 0.7}, (), 256, Sampling(temperature=0.7)),
        ({"do_sample": True}, (), 256, Sampling(temperature=1.0)),
        (
            {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "num_beams": 1},
            (),
            256,
            Sampling(temperature=0.5, top_p=0.9, top_k=40),
        ),
    ],
    ids=str,
)
def test_settings_are_read_as_tasks_give_them(kwargs, until, most, sampling):
    given = dict(kwargs)
    found = settings_of(kwargs, 256)
    assert (found.until, found.max_gen_toks, found.sampling) == (until, most, sampling)
    assert kwargs == given


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_beams": 4}, "num_beams=4 isn't offered; offered are until"),
        ({"repetition_penalty": 1.2}, "repetition_penalty=1.2 isn't offered"),
        ({"max_length": 99}, "max_length=99 isn't offered"),
        ({"max_gen_toks": 0}, "max_gen_toks 0 must be 1 or more"),
        ({"max_gen_toks": "many"}, "invalid literal"),
        ({"temperature": -1, "do_sample": True}, "temperature -1.0 must be 0 or more"),
        ({"temperature": 1, "top_p": 3}, "top_p 3.0 must be above 0"),
        ({"temperature": 1, "top_p": 0}, "top_p 0.0 must be above 0"),
        ({"until": ["a", 3]}, "until has 3; give a text, or a list of texts"),
    ],
    ids=str,
)
def test_other_settings_are_refused_in_a_sentence(kwargs, message):
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        settings_of(kwargs, 256)
    assert "\n" not in str(caught.value)
