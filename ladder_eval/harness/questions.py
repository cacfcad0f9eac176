"""A task's requests as lm-eval builds them, and its metrics from answers given before."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from ladder_eval.harness.evaluation import PreparedTask, run_suite

Answers = Mapping[str, Sequence[Any]]
"""Answers by kind of request, in the order of the requests."""

TokenRequest = tuple[Sequence[int], Sequence[int]]
"""Token ids that stand before, and those that are asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions:
    """What a task asks.

    Attributes:
        requests: lm-eval's requests by kind, such as `loglikelihood`.
    """

    requests: Mapping[str, Sequence[Instance]]

    @property
    def documents(self) -> int:
        """Documents that are asked about."""
        return len(self._documents())

    @property
    def count(self) -> int:
        """Requests of all kinds."""
        return sum(map(len, self.requests.values()))

    def some(self, documents: int) -> "Questions":
        """The requests about so many of the documents, spread over all of them."""
        every = self._documents()
        step = max(1, math.ceil(len(every) / documents))
        kept = set(every[::step])
        return Questions(
            requests={
                kind: [each for each in asked if _document(each) in kept]
                for kind, asked in self.requests.items()
            }
        )

    def _documents(self) -> list[tuple[str, int]]:
        return list(dict.fromkeys(_document(r) for kind in self.requests.values() for r in kind))


def questions_of(prepared: PreparedTask) -> Questions:
    """The requests about a task's chosen documents, as plain text.

    Raises:
        DataError: if a row doesn't suit the task.
    """
    requests: dict[str, list[Instance]] = {}
    for name, task in prepared.lm_tasks.items():
        task.begin(template=None)
        task.build_all_requests(samples=prepared.chosen[name])
        for each in task.instances:
            # As in lm-eval's evaluator.
            requests.setdefault(each.request_type, []).extend([each] * (each.repeats or 1))
    return Questions(requests=requests)


def answers_of(lm: LM, questions: Questions) -> Answers:
    """What a model answers."""
    return {
        kind: getattr(lm, kind)(list(asked), disable_tqdm=True)
        for kind, asked in questions.requests.items()
    }


def metrics_of(prepared: PreparedTask, questions: Questions, answers: Answers) -> dict[str, float]:
    """The task's metrics from answers, as lm-eval computes them; of a group those of all parts."""
    result = run_suite(_Answered(questions, answers), [prepared])
    values = result["results"][prepared.task.name]
    return {
        name: float(value)
        for name, value in values.items()
        if "," in name and "_stderr" not in name and isinstance(value, int | float)
    }


class TokenRequests(TemplateLM):  # type: ignore[misc]
    """Takes lm-eval's requests and answers none of them: what they are as token ids.

    They are split where lm-eval splits them, and cut as its `hf` cuts them.

    Args:
        encode: `tok_encode` of the model.
        prefix: The token that stands before a text without context.
        max_length: Longest text in tokens that the model can read.

    Attributes:
        scored: Context and continuation of each choice and of each window of a whole text.
        prompts: The prompts of texts.
    """

    def __init__(self, encode: Callable[..., list[int]], prefix: int, max_length: int) -> None:
        super().__init__()
        self.scored: list[TokenRequest] = []
        self.prompts: list[list[int]] = []
        self._encode, self._prefix, self._max_length = encode, prefix, max_length

    @property
    def eot_token_id(self) -> int:
        """As the model's `prefix_token_id`, which is all that lm-eval asks it for."""
        return self._prefix

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_: Any
    ) -> list[int]:
        """As the model's."""
        return self._encode(string, add_special_tokens=add_special_tokens)

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = True
    ) -> list[float]:
        """Keep the windows in which a whole text is read, each token predicted once."""
        for request in requests:
            windows = get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0], add_special_tokens=False),
                prefix_token=self._prefix,
                max_seq_len=self._max_length,
                context_len=1,
            )
            self.scored += map(make_disjoint_window, windows)
        return [0.0] * len(requests)

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = True) -> list[str]:
        """Keep the prompts."""
        self.prompts += [self.tok_encode(request.args[0]) for request in requests]
        return [""] * len(requests)

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        for _, context, target in requests:
            room = max(1, self._max_length + 1 - len(target))
            self.scored.append((context[-room:], target))
        return [(0.0, False)] * len(requests)


class _Answered(LM):  # type: ignore[misc]
    """Gives to each request the answer that it was given before."""

    def __init__(self, questions: Questions, answers: Answers) -> None:
        super().__init__()
        self._answers = {
            _key(request): answer
            for kind, asked in questions.requests.items()
            for request, answer in zip(asked, answers[kind], strict=True)
        }

    def loglikelihood(self, requests: Sequence[Instance]) -> list[Any]:
        return [self._answers[_key(request)] for request in requests]

    loglikelihood_rolling = loglikelihood
    generate_until = loglikelihood


def _document(request: Instance) -> tuple[str, int]:
    return str(request.task_name), int(request.doc_id or 0)


def _key(request: Instance) -> tuple[str, str]:
    return request.request_type, repr(request.args)
