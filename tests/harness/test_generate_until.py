"""Texts that the adapter generates, against lm-eval's own model, and what it records of them."""

import json
import math
import re
from collections import Counter

import pytest
import torch
from alone import Alone
from lm_eval.models.huggingface import HFLM

from ladder_eval.engine.generation import Generated
from ladder_eval.errors import CheckpointError, ScoringError, UsageError
from ladder_eval.harness.stopping import TextEnd
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.results.recorded_work import grouped, recorded_batches
from ladder_eval.results.requests import RequestLog

BOS, EOS = 256, 257
PROMPTS = ["Which lamp is it?", "Hi", "x" * 299, "Rain falls. " * 9, "A", "Sun and rain. " * 3]


def hf(folder, **settings):
    return HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=1, **settings)


# transformers' default for Llama, which the tiny checkpoint has, and the tokenizer's.
ENDS = (2, EOS)


def must_not_load():
    raise AssertionError("the model was loaded although every answer was recorded")


@pytest.fixture(scope="module")
def plain(tiny_checkpoint):
    """What lm-eval's model says after each prompt, 20 tokens at most."""
    return texts_of(hf(tiny_checkpoint), PROMPTS, max_gen_toks=20)


def texts_of(lm, prompts, **kwargs):
    from lm_eval.api.instance import Instance

    requests = [
        Instance(request_type="generate_until", doc={}, arguments=(prompt, dict(kwargs)), idx=0)
        for prompt in prompts
    ]
    return lm.generate_until(requests, disable_tqdm=True)


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_greedy_texts_are_those_of_lm_eval(make_lm, write, plain, batch_size):
    lm = make_lm(batch_size=batch_size)
    assert write(lm, PROMPTS, max_gen_toks=20) == plain
    assert len(set(plain)) == len(PROMPTS)
    assert lm.tally.cut_texts == 4  # one text ends at once, another after 11 tokens


def test_texts_end_where_those_of_lm_eval_do(make_lm, write, plain, tiny_checkpoint):
    until = [found[0] for text in plain if (found := re.findall("[!-~]{2}", text))]
    assert len(set(until)) > 2
    lm = make_lm()
    found = write(lm, PROMPTS, until=until, max_gen_toks=20)
    assert found == texts_of(hf(tiny_checkpoint), PROMPTS, until=until, max_gen_toks=20)
    assert sum(one != other for one, other in zip(found, plain, strict=True)) > 2


def test_one_string_may_stand_alone(make_lm, write, plain):
    (end,) = re.findall("[!-~]{2}", plain[0])[:1]
    one, many = write(make_lm(), PROMPTS[:1], until=end), write(make_lm(), PROMPTS, until=[end])
    assert one == many[:1] == [plain[0][: plain[0].find(end)]]


@pytest.mark.parametrize("with_bos", [False, True])
def test_long_prompts_are_cut_as_lm_eval_cuts_them_but_keep_bos(
    make_lm, write, tiny_checkpoint, bos_checkpoint, with_bos
):
    """Room is left for what is generated; lm-eval's own model drops BOS."""
    folder = bos_checkpoint if with_bos else tiny_checkpoint
    lm = make_lm(folder, max_length=40)
    found = write(lm, [PROMPTS[3], PROMPTS[1]], max_gen_toks=20)
    assert lm.tally.truncated_requests == 1
    # The last 20 tokens of the prompt, or <s> and the last 19: a token a byte.
    kept = PROMPTS[3][-19:] if with_bos else PROMPTS[3][-20:]
    theirs = hf(folder)
    assert found == texts_of(theirs, [kept, PROMPTS[1]], max_gen_toks=20)


def test_no_room_for_a_prompt_is_a_sentence(make_lm, write):
    with pytest.raises(ScoringError, match=r"generates up to 16 tokens, .* read only 16"):
        write(make_lm(max_length=16, load=must_not_load), PROMPTS, max_gen_toks=16)


def test_answers_are_kept_and_taken_from_the_log(make_lm, write, tmp_path, plain):
    assert write(make_lm(), PROMPTS, max_gen_toks=20) == plain
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert sorted(text for text, _, _ in answers) == sorted(plain)
    ends = [(count, ended_by) for _, count, ended_by in answers]
    assert sorted(ends) == [(0, "eos"), (11, "eos"), *[(20, "length")] * 4]
    again = make_lm(load=must_not_load)
    assert write(again, PROMPTS, max_gen_toks=20) == plain
    assert (again.tally.reused_requests, again.tally.scored_requests) == (6, 0)
    assert again.tally.cut_texts == 4


def test_a_text_is_on_disk_before_anything_else_is_computed(make_lm, write, tmp_path):
    on_disk = []

    class Slow:
        def generate(self, requests, stops, *, batch_size):
            assert batch_size == 2
            for index in range(len(requests)):
                on_disk.append(len((tmp_path / "answers.jsonl").read_text().splitlines()))
                yield index, Generated((40, 41), "stop")

    lm = make_lm(batch_size=2, load=Slow)
    assert len(write(lm, PROMPTS, max_gen_toks=20)) == len(PROMPTS)
    assert on_disk == [0, 1, 2, 3, 4, 5]
    assert lm.tally.cut_texts == 0  # a text that a string ended is whole
    progress = lm._book._progress
    most = sum(len(prompt) + 20 for prompt in PROMPTS)  # a token a byte
    assert progress.started == [most]
    assert (len(progress.advanced), sum(progress.advanced)) == (6, most)


def test_a_text_that_was_over_is_kept_when_another_ends_the_run(make_lm, write, tmp_path, plain):
    """Two are over, after 0 and 11 tokens, when a third breaks at its 15th."""
    lm, watch = make_lm(), TextEnd.watch
    broken = []

    def watched(self):
        is_over = watch(self)

        def asked(tokens):
            if len(tokens) == 15:
                broken.append(tokens)
                raise KeyboardInterrupt
            return is_over(tokens)

        return asked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextEnd, "watch", watched)
        with pytest.raises(KeyboardInterrupt):
            write(lm, PROMPTS, max_gen_toks=20)
    assert len(broken) == 1
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"][1:] for line in lines] == [[0, "eos"], [11, "eos"]]
    again = make_lm()
    assert write(again, PROMPTS, max_gen_toks=20) == plain
    assert (again.tally.reused_requests, again.tally.scored_requests) == (2, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_gen_toks": 19},
        {"until": ["@@"]},
        {"do_sample": True},
        {"temperature": 0.7},
        {"eos": (257, 3)},
        {"think_end_token": "</t>"},
        {"identity": ("model", "bfloat16")},
    ],
    ids=str,
)
def test_an_answer_is_never_served_to_another_setting(make_lm, write, changes):
    write(make_lm(), PROMPTS[:1], max_gen_toks=20)
    own = {name: changes[name] for name in changes if name in ("eos", "identity")}
    own |= {name: changes[name] for name in changes if name == "think_end_token"}
    lm = make_lm(**own)
    write(lm, PROMPTS[:1], **({"max_gen_toks": 20} | {k: changes[k] for k in changes.keys() - own}))
    assert (lm.tally.reused_requests, lm.tally.scored_requests) == (0, 1)


def test_a_seed_changes_only_what_is_drawn(make_lm, write):
    drawn = {"do_sample": True, "temperature": 1.5, "max_gen_toks": 20}
    first = write(make_lm(), PROMPTS[:2], **drawn)
    write(make_lm(), PROMPTS[:2], max_gen_toks=20)
    assert write(make_lm(load=must_not_load), PROMPTS[:2], **drawn) == first
    write(make_lm(load=must_not_load, seed=1), PROMPTS[:2], max_gen_toks=20)
    other = write(make_lm(seed=1), PROMPTS[:2], **drawn)
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_repeats_are_drawn_anew_and_the_same_again(make_lm, write):
    drawn = {"do_sample": True, "temperature": 1.5, "max_gen_toks": 20}
    found = write(make_lm(), [PROMPTS[0]] * 3 + [PROMPTS[1]], **drawn)
    assert len(set(found)) == 4
    assert write(make_lm(answers="own", batch_size=1), [PROMPTS[0]] * 3, **drawn) == found[:3]


def test_each_prompt_and_each_repeat_has_numbers_of_its_own(make_lm):
    lm, repeats, drawn = make_lm(), Counter(), {"do_sample": True}
    asked = [lm._text_request((prompt, drawn), repeats) for prompt in ("Hi", "Ho", "Hi", "Ho")]
    assert len({text.prompt.sampling.seed for text in asked}) == 4


def test_greedy_repeats_are_generated_once(make_lm, write, plain):
    lm = make_lm()
    assert write(lm, [PROMPTS[0]] * 3, max_gen_toks=20) == [plain[0]] * 3
    assert lm.tally.scored_requests == 1


def test_texts_do_not_depend_on_their_neighbours(make_lm, write, plain):
    """lm-eval 2723: a token that ends one text early, others late or never."""
    ends = {char: [text.find(char) for text in plain] for char in "".join(plain) if char < "\x7f"}
    char, places = max(ends.items(), key=lambda item: len(set(item[1])))
    assert len(set(places)) > 2
    assert -1 in places
    lm = make_lm()
    (eos,) = lm.tokenizer.encode(char)
    found = write(make_lm(answers="own", eos=(*ENDS, eos)), PROMPTS, max_gen_toks=20)
    assert found == [text.partition(char)[0] for text in plain]


def test_an_empty_prompt_is_bos(make_lm, write, tiny_checkpoint):
    expected = texts_of(hf(tiny_checkpoint), ["<s>"], max_gen_toks=20)
    assert write(make_lm(), ["", "<s>"], max_gen_toks=20) == expected * 2


def test_an_empty_prompt_without_bos_and_eos_is_a_sentence(make_lm, write):
    lm = make_lm(load=must_not_load)
    lm.tokenizer.bos_token = lm.tokenizer.eos_token = None
    with pytest.raises(CheckpointError, match=r"names no eos_token, which an empty prompt needs"):
        write(lm, [""])


@pytest.mark.parametrize("text", ["Hi", "<s>Hi"])
def test_bos_comes_once(make_lm, write, bos_checkpoint, text):
    """lm-eval 2676."""
    lm = make_lm(bos_checkpoint)
    seen = []

    class Watched(Alone):
        def generate(self, requests, stops, *, batch_size):
            seen.extend(requests)
            return super().generate(requests, stops, batch_size=batch_size)

    config = read_config(bos_checkpoint)
    model = load_model(bos_checkpoint, config, dtype=torch.float32, device=torch.device("cpu"))
    lm._book._load = lambda: Watched(model)
    write(lm, [text], max_gen_toks=2)
    assert [request.prompt for request in seen] == [(BOS, 39, 72)]
    assert lm.bos_policy == (
        "once, as the prompts have it" if "<s>" in text else "once, by the tokenizer"
    )


def test_nan_is_an_error_that_names_the_prompt(make_lm, write, tiny_checkpoint, tmp_path):
    def load():
        config = read_config(tiny_checkpoint)
        model = load_model(tiny_checkpoint, config, dtype=torch.float32, device=torch.device("cpu"))
        model.layers[1].mlp.down_proj.weight.fill_(math.nan)
        return Alone(model)

    with pytest.raises(ScoringError, match=r"nan .*'Rain falls\.") as caught:
        write(make_lm(load=load), ["Rain falls."])
    assert "\n" not in str(caught.value)
    assert (tmp_path / "answers.jsonl").read_text() == ""


@pytest.mark.parametrize("damaged", [None, [], ["a", 3], ["a", 3, "sun"], [3, 3, "eos"], "a"])
def test_damaged_answers_are_generated_anew(make_lm, write, plain, damaged):
    write(make_lm(), PROMPTS[:1], max_gen_toks=20)
    lm = make_lm()
    (key,) = lm._book._log._answers
    lm._book._log.append({key: damaged})
    assert write(lm, PROMPTS[:1], max_gen_toks=20) == plain[:1]


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if quiet %}.{% endif %}{% endif %}"
)
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def test_chat_template_is_the_tokenizers(make_lm, write):
    lm = make_lm(chat_template_args={"quiet": True})
    lm.tokenizer.chat_template = TEMPLATE
    assert lm.chat_template(True) == TEMPLATE
    prompt = lm.apply_chat_template(TALK)
    assert prompt == "<s>[system]Be brief.[user]Hi[assistant]."
    open_end = lm.apply_chat_template(
        [*TALK, {"role": "assistant", "content": "Yes"}], add_generation_prompt=False
    )
    assert open_end == "<s>[system]Be brief.[user]Hi[assistant]Yes"
    write(lm, [prompt], max_gen_toks=1)
    assert lm.bos_policy == "once, as the prompts have it"


def test_missing_and_unfit_chat_templates_are_sentences(make_lm):
    lm = make_lm()
    with pytest.raises(UsageError, match=r"has no chat template; leave --apply-chat-template out"):
        lm.chat_template(True)
    lm.tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(UsageError, match=r"of system, user: no system role\.$"):
        lm.apply_chat_template(TALK)
    lm.tokenizer.chat_template = "{{ messages[0].content + 1 }}"
    with pytest.raises(UsageError, match="can't render a conversation of system, user: can only"):
        lm.apply_chat_template(TALK)
    lm.tokenizer.chat_template = "nothing of it"
    with pytest.raises(UsageError, match=r"conversation of system, user: .*final"):
        lm.apply_chat_template(TALK, add_generation_prompt=False)
    with pytest.raises(UsageError, match="by name"):
        lm.chat_template("rag")


def test_the_length_of_each_text_is_kept(make_lm, write, tmp_path, plain):
    with RequestLog(tmp_path / "batches.jsonl") as batches:
        lm = make_lm(batch_size=4, batches=batches)
        assert write(lm, PROMPTS, max_gen_toks=20) == plain
        assert write(lm, PROMPTS, max_gen_toks=20) == plain  # nothing is computed again
    lines = (tmp_path / "batches.jsonl").read_text().splitlines()
    four, two = grouped(recorded_batches(map(json.loads, lines)), 4)
    prompts = sorted(len(lm.tok_encode(prompt)) for prompt in PROMPTS)
    assert sorted(text.prompt_len for text in (*four.written, *two.written)) == prompts
    # Of the texts above, one was ended at once and one after 11 tokens; the EOS was computed, too.
    # They stand in the order in which they ended.
    assert [text.output_len for text in four.written] == [1, 12, 20, 20]
    assert [text.output_len for text in two.written] == [20, 20]
    assert (len(four.written), len(two.written)) == (4, 2)
