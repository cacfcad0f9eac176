"""One request, for people to read."""

import pytest
from transformers import AutoTokenizer

from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.chat import ChatTemplate
from ladder_eval.harness.show import find_task, show

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"


@pytest.fixture
def sources(tiny_data):
    return DataSources(data_dir=tiny_data, notify=print)


def test_context_and_continuations_are_marked(sources):
    text = show(find_task("piqa", "quick"), doc=4, seed=0, sources=sources)
    assert text == (
        "piqa, document 4, no examples, as plain text\n\n"
        "request 1 of 2, loglikelihood:\n"
        "Question: Carry 4 pieces of wheel\nAnswer:⟦context ends⟧ use a paper⟦ends⟧\n"
        "request 2, after the first 41 characters of request 1:\n"
        "⟦context ends⟧ use the bridge twice⟦ends⟧"
    )


def test_first_document_is_the_first_that_a_run_draws(sources):
    drawn = show(find_task("piqa", None), doc=None, seed=3, sources=sources)
    place = int(drawn.split(",")[1].removeprefix(" document "))
    assert drawn == show(find_task("piqa", None), doc=place, seed=3, sources=sources)


def test_chat_template_is_that_of_the_model(sources, tiny_checkpoint):
    chat = ChatTemplate(tokenizer=AutoTokenizer.from_pretrained(tiny_checkpoint))
    chat.tokenizer.chat_template = TEMPLATE
    piqa = find_task("piqa", None)
    text = show(
        piqa, doc=0, seed=0, sources=sources, chat=chat, apply_chat_template=True,
        system_instruction="Think.",
    )  # fmt: skip
    assert "\n[system] Think.\n[user] Question: Carry 0 pieces of stone\nAnswer:\n" in text
    assert "[assistant]⟦context ends⟧use a river⟦ends⟧" in text
    assert "[user]" not in show(piqa, doc=0, seed=0, sources=sources, chat=chat)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"doc": 20}, "piqa has no document 20; --doc takes 0 to 19."),
        ({"doc": -1}, "piqa has no document -1"),
        ({"doc": 0, "apply_chat_template": True}, "--apply-chat-template needs the model"),
        ({"doc": 0, "fewshot": "own"}, "--fewshot must be per-document or stock, not 'own'."),
        ({"doc": 0, "fewshot_as_multiturn": True}, "needs --apply-chat-template"),
    ],
)
def test_wrong_wishes_are_sentences(sources, settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        show(find_task("piqa", None), seed=0, sources=sources, **settings)


def test_task_that_the_suite_lacks_is_a_sentence():
    with pytest.raises(UsageError, match="smoke has no task 'piqa'; it has arc_easy, winogrande"):
        find_task("piqa", "smoke")
