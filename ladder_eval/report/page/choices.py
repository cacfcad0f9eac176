"""What was asked as requests, as a question with choices, and which of them is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ladder_eval.report.page.content import Answer
from ladder_eval.results.logged import Request

__all__ = ["Question", "question", "right_choices", "scores"]

# lm-eval's target_delimiter of all tasks here; its length is no part of a choice's.
_DELIMITER: Final = " "


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a document asks.

    Attributes:
        prompt: What all requests have in common.
        choices: What each adds; none where there is nothing to choose.
        lengths: The characters and the bytes of each request's continuation.
    """

    prompt: str
    choices: tuple[str, ...] = ()
    lengths: tuple[tuple[int, int], ...] = ()


def question(requests: Sequence[Request]) -> Question:
    """The requests about one document as one question.

    Where contexts differ, as WinoGrande's do, a choice is the rest of its context with the
    continuation.
    """
    contexts = [str(request[0]) for request in requests]
    continuations = [request[1] for request in requests if len(request) > 1]
    if not continuations or not all(isinstance(each, str) for each in continuations):
        return Question(prompt=_encodable("\n\n".join(dict.fromkeys(contexts))))
    common = _common(contexts)
    texts = [each.removeprefix(_DELIMITER) for each in continuations]
    pairs = zip(contexts, continuations, strict=True)
    choices = [(context[len(common) :] + more).strip() for context, more in pairs]
    return Question(
        prompt=_encodable(common),
        choices=tuple(map(_encodable, choices)),
        lengths=tuple((len(text), len(text.encode(errors="replace"))) for text in texts),
    )


def scores(metric: str, asked: Question, given: Any) -> tuple[float, ...]:
    """What each choice is chosen by, as lm-eval does; none if the answers aren't of choices.

    `acc_norm` divides a log-likelihood by the choice's characters, `acc_bytes` by its bytes, any
    other metric by nothing (lm_eval.api.task, process_results).

    Args:
        metric: The headline metric.
        asked: What was asked.
        given: A model's answers, a [log-likelihood, is it the most likely] each.
    """
    if not isinstance(given, list) or not all(map(_is_loglikelihood, given)):
        return ()
    values = tuple(float(each[0]) for each in given)
    unit = _UNITS.get(metric)
    if unit is None or len(asked.lengths) != len(values):
        return values
    pairs = zip(values, asked.lengths, strict=True)
    return tuple(value / max(1, length[unit]) for value, length in pairs)


_UNITS: Final = {"acc_norm": 0, "acc_bytes": 1}


def right_choices(
    choices: Sequence[str], target: str, answers: Sequence[Answer]
) -> tuple[int, ...]:
    """Which choices are known to be right: what the target says, if all answers' values agree.

    A target is an index or a choice. Where it says neither, as WinoGrande's, an answer that is
    right shows it; of two choices, one that is wrong does, too.
    """
    chosen = {each.chosen: each.value for each in answers if each.chosen is not None}
    if not choices or not set(chosen.values()) <= {0.0, 1.0}:
        return ()
    right = _named(choices, target.strip())
    if right is None:
        known = [choice for choice, value in chosen.items() if value == 1]
        if len(choices) == 2 and not known:
            known = [1 - choice for choice in chosen if choice in (0, 1)]
        right = known[0] if known else None
    agree = all((choice == right) == (value == 1) for choice, value in chosen.items())
    return (right,) if right is not None and agree else ()


def _named(choices: Sequence[str], target: str) -> int | None:
    if target.isdecimal():
        return int(target) if int(target) < len(choices) else None
    found = [i for i, choice in enumerate(choices) if choice.strip() == target]
    return found[0] if len(found) == 1 else None


def _common(contexts: Sequence[str]) -> str:
    """What all contexts begin with, in whole words where they go on differently."""
    if len(set(contexts)) == 1:
        return contexts[0]
    first, last = min(contexts), max(contexts)  # between them, all others share as much
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    common = first[: len(list(same))]
    return common[: max(common.rfind(" "), common.rfind("\n")) + 1]


def _is_loglikelihood(answer: Any) -> bool:
    return (
        isinstance(answer, list)
        and len(answer) == 2
        and isinstance(answer[0], int | float)
        and isinstance(answer[1], bool)
    )


def _encodable(text: str) -> str:
    """A text whose single surrogates, which UTF-8 can't have, are replaced."""
    return text.encode(errors="replace").decode()
