"""What the adapter does to texts, and what it records."""

import json
import math

import pytest
import torch
from alone import Alone
from transformers import AutoTokenizer, LlamaForCausalLM

from ladder_eval.engine.scoring import LogLikelihood, TooLargeError
from ladder_eval.errors import CheckpointError, ScoringError
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.results.recorded_work import ScoredRow, recorded_batches
from ladder_eval.results.requests import RequestLog

BOS, EOS = 256, 257
PAIRS = [
    ("Which lamp is it?", " This lamp"),
    ("Which lamp is it?", " That one there"),
    ("Hi", "!"),
    ("x" * 299, " yes"),
    ("x" * 299, " no"),
    ("Rain falls. " * 9, "Then sun."),
]


@pytest.fixture(scope="module")
def reference(tiny_checkpoint):
    return LlamaForCausalLM.from_pretrained(tiny_checkpoint).eval()


@torch.inference_mode()
def naive(model, context, continuation):
    """Log-likelihood of token ids from one whole forward of a transformers model."""
    logits = model(torch.tensor([[*context, *continuation]])).logits[0, len(context) - 1 : -1]
    logprobs = logits.double().log_softmax(-1)
    return logprobs[range(len(continuation)), torch.tensor(continuation)].sum().item()


def token_ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def logprobs(answers):
    return [logprob for logprob, _ in answers]


def lines(path):
    return path.read_text().splitlines()


def must_not_load():
    raise AssertionError("the model was loaded although every answer was recorded")


def altered(folder, change):
    """A loader of the model after a change."""

    def load():
        config = read_config(folder)
        model = load_model(folder, config, dtype=torch.float32, device=torch.device("cpu"))
        change(model)
        return Alone(model)

    return load


def before_forward(action):
    """A change of a model: action is called with 0, 1, 2, ... before each forward."""
    calls = iter(range(1000))
    return lambda model: model.register_forward_pre_hook(lambda *_: action(next(calls)))


def test_no_padding_token_is_needed(make_lm, ask):
    alone, together = (make_lm(answers=f"{size}", batch_size=size) for size in (1, 16))
    assert alone.tokenizer.pad_token is None
    one, many = ask(alone, PAIRS), ask(together, PAIRS)
    assert logprobs(many) == pytest.approx(logprobs(one), abs=5e-4)
    assert [greedy for _, greedy in many] == [greedy for _, greedy in one]
    assert alone.tally.scored_requests == together.tally.scored_requests == len(PAIRS)


@pytest.mark.parametrize("text", ["Hi", "<s>Hi"])
def test_bos_comes_once_where_the_tokenizer_adds_it(make_lm, bos_checkpoint, text):
    assert make_lm(bos_checkpoint).tok_encode(text) == [BOS, 39, 72]


@pytest.mark.parametrize(
    ("text", "ids"), [("Hi", [39, 72]), ("<s>Hi", [BOS, 39, 72]), ("", [])], ids=str
)
def test_no_bos_is_made_up(make_lm, text, ids):
    assert make_lm().tok_encode(text) == ids


def test_bos_policy_says_what_is_done(make_lm, bos_checkpoint):
    assert make_lm().bos_policy == "none: the tokenizer adds none"
    assert make_lm(bos_checkpoint).bos_policy == "once, by the tokenizer"


def test_bos_stands_before_the_context_alone(make_lm, bos_checkpoint, reference, ask):
    lm = make_lm(bos_checkpoint)
    context, target = token_ids(lm.tokenizer, "Hi there,"), token_ids(lm.tokenizer, " you")
    expected = naive(reference, [BOS, *context], target)
    found = logprobs(ask(lm, [("Hi there,", " you"), ("<s>Hi there,", " you")]))
    assert found == pytest.approx([expected, expected], abs=5e-4)
    assert lm.tally.scored_requests == 1


def test_bos_is_neither_doubled_nor_predicted_in_whole_texts(
    make_lm, bos_checkpoint, reference, roll
):
    lm = make_lm(bos_checkpoint)
    expected = naive(reference, [BOS], token_ids(lm.tokenizer, "Rain falls."))
    assert roll(lm, ["Rain falls."]) == pytest.approx([expected], rel=1e-5)


def test_empty_context_is_bos(make_lm, reference, ask):
    lm = make_lm()
    expected = naive(reference, [BOS], token_ids(lm.tokenizer, "Rain"))
    assert logprobs(ask(lm, [("", "Rain")])) == pytest.approx([expected], abs=5e-4)


def test_space_at_the_end_of_the_context_is_predicted(make_lm, reference, ask):
    lm = make_lm()
    context, target = token_ids(lm.tokenizer, "Hi"), token_ids(lm.tokenizer, " you")
    found = logprobs(ask(lm, [("Hi ", "you"), ("Hi", " you")]))
    assert found == pytest.approx([naive(reference, context, target)] * 2, abs=5e-4)


def test_context_of_spaces_alone_is_bos(make_lm, reference, ask):
    lm = make_lm()
    expected = naive(reference, [BOS], token_ids(lm.tokenizer, "  Rain"))
    assert logprobs(ask(lm, [("  ", "Rain")])) == pytest.approx([expected], abs=5e-4)


@pytest.mark.parametrize("with_bos", [False, True])
def test_long_context_is_cut_on_the_left(
    make_lm, tiny_checkpoint, bos_checkpoint, reference, ask, with_bos
):
    lm = make_lm(bos_checkpoint if with_bos else tiny_checkpoint, max_length=16)
    text = "abcdefghijklmnopqrst"
    context, target = token_ids(lm.tokenizer, text), token_ids(lm.tokenizer, " xyz")
    # 16 tokens are read, the last of the continuation isn't: 13 are left for the context.
    kept = [BOS, *context[-12:]] if with_bos else context[-13:]
    assert len(kept) + len(target) - 1 == 16
    found = ask(lm, [(text, " xyz"), (text[-5:], " xyz")])
    assert found[0][0] == pytest.approx(naive(reference, kept, target), abs=5e-4)
    assert lm.tally.truncated_requests == 1


def test_context_that_just_fits_is_whole(make_lm, reference, ask):
    lm = make_lm(max_length=16)
    context, target = token_ids(lm.tokenizer, "abcdefghijklm"), token_ids(lm.tokenizer, " xyz")
    (found,) = ask(lm, [("abcdefghijklm", " xyz")])
    assert found[0] == pytest.approx(naive(reference, context, target), abs=5e-4)
    assert lm.tally.truncated_requests == 0


def test_continuation_longer_than_the_model_is_refused(make_lm, ask):
    lm = make_lm(max_length=16, load=must_not_load)
    with pytest.raises(ScoringError, match=r"A continuation of 17 tokens .* 16 that the model"):
        ask(lm, [("Hi", "x" * 17)])


def test_every_batch_is_on_disk_before_the_next(make_lm, tmp_path, tiny_checkpoint, ask):
    recorded = []
    log = tmp_path / "answers.jsonl"
    note = before_forward(lambda _: recorded.append(len(lines(log))))
    lm = make_lm(load=altered(tiny_checkpoint, note), batch_size=1)
    ask(lm, PAIRS)
    assert recorded == [0, 2, 3, 5]  # two answers, one, two, one: the longest context first
    assert len(lines(log)) == lm.tally.scored_requests == 6
    assert lm._book._progress.started == [lm.tally.scored_tokens]
    assert sum(lm._book._progress.advanced) == lm.tally.scored_tokens


def test_after_a_crash_only_the_rest_is_scored(make_lm, tmp_path, tiny_checkpoint, ask):
    log = tmp_path / "answers.jsonl"

    def crash(call):
        if call == 2:
            raise RuntimeError("out of power")

    with pytest.raises(RuntimeError, match="out of power"):
        ask(make_lm(load=altered(tiny_checkpoint, before_forward(crash)), batch_size=1), PAIRS)
    assert len(lines(log)) == 3

    second = make_lm(batch_size=1)
    found = ask(second, PAIRS)
    assert (second.tally.reused_requests, second.tally.scored_requests) == (3, 3)
    assert len({json.loads(line)["key"] for line in lines(log)}) == len(lines(log)) == 6
    assert found == ask(make_lm(answers="undisturbed", batch_size=1), PAIRS)

    third = make_lm(load=must_not_load)
    assert ask(third, PAIRS) == found
    assert (third.tally.reused_requests, third.tally.scored_requests) == (6, 0)
    assert third.tally.scored_tokens == 0


@pytest.mark.parametrize(
    "identity", [("model", "bfloat16"), ("other", "float32"), ("modelfloat32",)], ids="/".join
)
def test_answers_are_never_served_to_another_model(make_lm, ask, identity):
    ask(make_lm(), PAIRS)
    other = make_lm(identity=identity, ladder_layers=2)
    found = ask(other, PAIRS)
    assert (other.tally.reused_requests, other.tally.scored_requests) == (0, 6)
    assert found == ask(make_lm(answers="own", ladder_layers=2), PAIRS)


def test_whole_texts_are_not_choices_of_other_contexts(make_lm, ask, roll):
    first = make_lm()
    ask(first, [("Ra", "in"), ("R", "ain")])
    second = make_lm()
    roll(second, ["Rain"])
    assert second.tally.reused_requests == 0


def test_duplicates_are_scored_once(make_lm, ask):
    lm = make_lm()
    found = ask(lm, [PAIRS[0], PAIRS[2], PAIRS[0], PAIRS[0]])
    assert lm.tally.scored_requests == 2
    assert found[0] == found[2] == found[3]
    assert found == ask(make_lm(load=must_not_load), [PAIRS[0], PAIRS[2], PAIRS[0], PAIRS[0]])


def test_nan_is_an_error_that_names_the_text(make_lm, tmp_path, tiny_checkpoint, ask):
    def break_(model):
        model.layers[1].mlp.down_proj.weight.fill_(math.nan)

    load = altered(tiny_checkpoint, break_)
    with pytest.raises(ScoringError, match=r"nan .*'Hi!'") as caught:
        ask(make_lm(load=load), [("Hi", "!"), ("Rain falls. " * 2, "Then sun.")])
    assert "\n" not in str(caught.value)
    assert lines(tmp_path / "answers.jsonl") == []


def test_a_request_that_does_not_fit_is_named_and_what_fitted_is_kept(make_lm, tmp_path, ask):
    class Full:
        """What has room for the batches that come first, but not for the request "Hi!"."""

        def batch_tokens(self):
            return 512

        def score(self, batches):
            fitting, other = [batch for batch in batches if 0 not in batch.requests], {0}
            for batch in fitting:
                yield batch, {index: LogLikelihood(-1.0, True) for index in batch.requests}
            raise TooLargeError(*other)

    with pytest.raises(ScoringError) as caught:
        ask(make_lm(load=Full, batch_size=1), [("Hi", "!"), ("Rain falls. ", "Then sun.")])
    assert str(caught.value) == (
        "A request of 3 tokens, 'Hi!'..., takes more memory than there is; spread the model over "
        "more ranks (--tp), or leave its task out."
    )
    assert len(lines(tmp_path / "answers.jsonl")) == 1


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33, 100])
def test_every_token_of_a_whole_text_is_predicted_once(make_lm, tiny_checkpoint, roll, size):
    def level(model):
        model.embed_tokens.weight.zero_()  # tied to the head: all tokens are equally likely

    lm = make_lm(load=altered(tiny_checkpoint, level), max_length=16)
    text = "".join(chr(97 + i % 26) for i in range(size))
    assert roll(lm, [text]) == pytest.approx([-size * math.log(258)], rel=1e-6)
    assert lm.tally.scored_requests == math.ceil(size / 16)


def test_whole_texts_keep_their_order(make_lm, roll):
    texts = ["Rain.", "x" * 40, "", "Sun and rain."]
    alone = [roll(make_lm(answers=f"{i}"), [text])[0] for i, text in enumerate(texts)]
    assert roll(make_lm(max_length=512), texts) == pytest.approx(alone, rel=1e-5)
    assert alone[2] == 0


def test_tokens_of_an_empty_text_fall_back_to_the_end_of_text(make_lm, tiny_checkpoint):
    lm = make_lm()
    assert (lm.prefix_token_id, lm.eot_token_id) == (BOS, EOS)
    lm.tokenizer = AutoTokenizer.from_pretrained(tiny_checkpoint, bos_token=None)
    assert lm.prefix_token_id == EOS


@pytest.mark.parametrize(
    "damaged", [None, [], ["a", 3], [math.nan, False], [-math.inf, True], [-1.5], [-1.5, 0], {}]
)
def test_damaged_answers_are_scored_anew(make_lm, ask, damaged):
    sound = ask(make_lm(), [PAIRS[0]])
    lm = make_lm()
    (key,) = lm._book._log._answers
    lm._book._log.append({key: damaged})
    assert ask(lm, [PAIRS[0]]) == sound
    assert (lm.tally.scored_requests, lm.tally.reused_requests) == (1, 0)


def test_tokens_that_the_model_does_not_know_are_a_sentence(make_lm, ask):
    lm = make_lm()
    lm.tokenizer.add_tokens(["<new>"])
    with pytest.raises(CheckpointError, match=r"gives the token 258, .* knows only 258 tokens"):
        ask(lm, [("a", "<new>")])


def test_the_lengths_of_each_batch_are_kept(make_lm, ask, tmp_path):
    with RequestLog(tmp_path / "batches.jsonl") as batches:
        lm = make_lm(batch_size=3, batches=batches)
        ask(lm, PAIRS[:3])
        ask(lm, PAIRS)  # the first three are known
    first, second = recorded_batches(map(json.loads, lines(tmp_path / "batches.jsonl")))
    pairs = [[token_ids(lm.tokenizer, text) for text in pair] for pair in PAIRS]
    assert first.scored == (row_of(pairs[:2]), row_of(pairs[2:3]))
    ((rain, sun),) = pairs[5:]
    # lm-eval moves the space at a context's end into the continuation.
    assert second.scored == (row_of(pairs[3:5]), row_of([(rain[:-1], [*rain[-1:], *sun])]))


def row_of(pairs):
    """What is read and predicted after of continuations of one context, each beginning once."""
    read = {(*c, *t)[:end] for c, t in pairs for end in range(1, len(c) + len(t))}
    sources = {(*c, *t)[:end] for c, t in pairs for end in range(len(c), len(c) + len(t))}
    targets = sum(len(continuation) for _, continuation in pairs)
    return ScoredRow(len(read), len(sources), targets, len(pairs))
