"""What a model is asked about one document, for people to read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from lm_eval.api.instance import Instance

from ladder_eval.errors import UsageError
from ladder_eval.harness.arm import read_tokenizer
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.chat import ChatTemplate, Prompting, prompting_of
from ladder_eval.harness.evaluation import PreparedTask, is_in_chat, prepare
from ladder_eval.harness.fewshot import PER_DOCUMENT, STOCK
from ladder_eval.harness.suites import OUTPUTS, Suite, load_suite, suite_of
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources

# They stand within the text, so that spaces and line breaks beside them can be seen.
CONTEXT_ENDS = "⟦context ends⟧"
ENDS = "⟦ends⟧"


def find_task(name: str, suite: str | None) -> Suite:
    """One task as a suite asks it, or as its own file has it: the suite with this task alone.

    Raises:
        UsageError: if there is no such task or suite.
    """
    found = load_suite(suite) if suite else suite_of([name])
    tasks = tuple(task for task in found.tasks if task.name == name)
    if not tasks:
        raise UsageError(
            f"{found.name} has no task {name!r}; it has {', '.join(t.name for t in found.tasks)}."
        )
    return replace(found, tasks=tasks)


def chat_template_of(model: str, sources: WeightSources) -> ChatTemplate:
    """The chat template of a model, whose weights are not read.

    Raises:
        LadderEvalError: if the model can't be had.
    """
    folder = select(model, choice=ResidualChoice(), sources=sources).folder
    if folder is None:
        raise UsageError(f"No checkpoint of {model} is known; give a folder as --model.")
    return ChatTemplate(tokenizer=read_tokenizer(folder))


def show(
    suite: Suite,
    *,
    doc: int | None,
    seed: int,
    sources: DataSources,
    fewshot: str = PER_DOCUMENT,
    chat: ChatTemplate | None = None,
    apply_chat_template: bool | None = None,
    fewshot_as_multiturn: bool | None = None,
    system_instruction: str | None = None,
) -> str:
    """All that a model is asked about a document.

    Args:
        suite: A suite of one task.
        doc: The document's place, counted over all parts; None for the first that a run draws.
        seed: The run's seed.
        sources: Where data is taken from.
        fewshot: How examples are drawn.
        chat: The model's chat template; without a model, questions are shown as plain text.
        apply_chat_template: Whether it is applied; None for what the suite says.
        fewshot_as_multiturn: Whether examples are turns; None for what the suite says.
        system_instruction: A text before the prompt.

    Raises:
        DataError: if data is missing.
        UsageError: if there is no such document, or the form can't be had.
    """
    if fewshot not in (PER_DOCUMENT, STOCK):
        raise UsageError(f"--fewshot must be {PER_DOCUMENT} or {STOCK}, not {fewshot!r}.")
    if apply_chat_template and chat is None:
        raise UsageError("--apply-chat-template needs the model that has one; give --model.")
    prompting = prompting_of(
        suite,
        apply_chat_template=apply_chat_template if chat else False,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
    )
    limit = 1 if doc is None else None
    asked = suite.for_chat() if prompting.apply_chat_template else suite
    (prepared,) = prepare(asked, limit=limit, seed=seed, sources=sources, fewshot=fewshot)
    part, row = _place(prepared, doc or 0)
    instances = _requests(prepared, part, row, fewshot, prompting, chat)
    heading = f"{part}, document {row}, {_examples(prepared, part, fewshot, seed)}, {prompting}"
    if chat is None and (suite.apply_chat_template or suite.answering(OUTPUTS)):
        heading += " (a run applies the chat template of --model)"
    return "\n".join([heading, "", *_lines(instances)])


def _place(prepared: PreparedTask, doc: int) -> tuple[str, int]:
    places = [(part, row) for part, rows in prepared.chosen.items() for row in rows]
    if not 0 <= doc < len(places):
        raise UsageError(
            f"{prepared.task.name} has no document {doc}; --doc takes 0 to {len(places) - 1}."
        )
    return places[doc]


def _requests(
    prepared: PreparedTask,
    part: str,
    row: int,
    fewshot: str,
    prompting: Prompting,
    chat: ChatTemplate | None,
) -> list[Instance]:
    lm_task = prepared.lm_tasks[part]
    lm_task.template = chat.render if chat and is_in_chat(prepared.task, prompting) else None
    lm_task.restart()
    lm_task.build_all_requests(
        # lm-eval's sequence gives a document's examples only after those before it.
        samples=list(range(row + 1)) if fewshot == STOCK else [row],
        apply_chat_template=prompting.apply_chat_template,
        fewshot_as_multiturn=prompting.fewshot_as_multiturn,
        system_instruction=prompting.system_instruction,
        chat_template=chat.render if chat else None,
    )
    last = lm_task.instances[-1].doc_id
    return [instance for instance in lm_task.instances if instance.doc_id == last]


def _examples(prepared: PreparedTask, part: str, fewshot: str, seed: int) -> str:
    (config,) = [each for each in prepared.task.parts if each.name == part]
    if not config.num_fewshot:
        return "no examples"
    if config.examples is None:
        return f"{config.num_fewshot} examples of the task's own"
    drawn = "" if config.takes_first else f" ({fewshot}, seed {seed})"
    return f"{config.num_fewshot} examples from {config.examples}{drawn}"


def _lines(instances: Sequence[Instance]) -> Iterator[str]:
    first, *others = instances
    kind, number = first.request_type, len(instances)
    yield f"request 1 of {number}, {kind}:"
    yield _text(first.args)
    for index, other in enumerate(others, 2):
        pairs = zip(first.args[0], other.args[0], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        yield f"request {index}, after the first {shared:,} characters of request 1:"
        yield _text((other.args[0][shared:], *other.args[1:]))


def _text(arguments: Sequence[Any]) -> str:
    """A request's text; its last argument tells what is to follow the context."""
    if len(arguments) == 1:  # a whole text, each token of which is predicted
        return f"{CONTEXT_ENDS}{arguments[0]}{ENDS}"
    context, then = arguments
    if isinstance(then, Mapping):
        return f"{context}{CONTEXT_ENDS}\ngeneration arguments: {json.dumps(dict(then))}"
    return f"{context}{CONTEXT_ENDS}{then}{ENDS}"
