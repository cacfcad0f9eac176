"""A judge's response as a preference.

As AlpacaEval 2's weighted annotator (its `logprob_parser`): the first token's most likely
alternatives have log-probabilities, and those of the two labels are normalised over both. A label
that is not among them counts as impossible; without either there is no verdict.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ladder_eval.harness.judging.prompts import FIRST, SECOND

__all__ = ["Spent", "UnusableError", "preference", "spent"]


class UnusableError(Exception):
    """A response that is no verdict; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Tokens that a response cost.

    Attributes:
        prompt_tokens: Tokens in.
        completion_tokens: Tokens out.
    """

    prompt_tokens: int
    completion_tokens: int


def preference(response: object, *, model_first: bool) -> float:
    """1 plus the probability of the label that the model's output stood under.

    Args:
        response: A chat completion with log-probabilities, as JSON.
        model_first: Whether the model's output was the one shown first.

    Raises:
        UnusableError: If it has no log-probabilities, or neither label is among them.
    """
    found = {
        entry["token"]: float(entry["logprob"])
        for entry in _alternatives(response)
        if entry["token"] in (FIRST, SECOND)
    }
    if not found:
        raise UnusableError(f"neither {FIRST} nor {SECOND} is among the judge's likeliest tokens")
    most = max(found.values())
    first, second = (math.exp(found.get(label, -math.inf) - most) for label in (FIRST, SECOND))
    return 1 + (first if model_first else second) / (first + second)


def spent(response: object) -> Spent | None:
    """The tokens that a response says it cost; None where it doesn't."""
    usage = response.get("usage") if isinstance(response, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    before, after = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(before, int) or not isinstance(after, int) or min(before, after) < 0:
        return None
    return Spent(prompt_tokens=before, completion_tokens=after)


def _alternatives(response: object) -> list[dict[str, Any]]:
    """The first token's alternatives, each with a token and a finite log-probability."""
    try:
        entries = response["choices"][0]["logprobs"]["content"][0]["top_logprobs"]  # type: ignore[index]
        usable = [entry for entry in entries if math.isfinite(float(entry["logprob"]))]
        return [entry for entry in usable if isinstance(entry["token"], str)]
    except (LookupError, TypeError, ValueError) as error:
        raise UnusableError("the judge gave no log-probabilities (top_logprobs)") from error
