"""What a judge's responses cost."""

from collections.abc import Collection
from dataclasses import dataclass

from ladder_eval.harness.judging.asking import VerdictLogs
from ladder_eval.harness.judging.verdicts import Spent, spent

__all__ = ["Costs", "Prices", "costs_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """Prices of a million tokens, in whatever currency.

    Attributes:
        prompt: Of tokens in.
        completion: Of tokens out.
    """

    prompt: float
    completion: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What all responses cost, those of earlier runs into the same folder included.

    Attributes:
        responses: Verdicts, and responses that were none but came with a count of tokens.
        prompt_tokens: Tokens in, of responses that say so.
        completion_tokens: Tokens out.
        uncounted: Verdicts that didn't say how many tokens they took.
        price: Price of all tokens; None where prices weren't given or tokens not counted.
    """

    responses: int
    prompt_tokens: int
    completion_tokens: int
    uncounted: int
    price: float | None


def costs_of(keys: Collection[str], logs: VerdictLogs, prices: Prices | None) -> Costs:
    """The costs of questions, by their keys."""
    verdicts = [spent(logs.answers.get(key)) for key in keys if key in logs.answers]
    wasted = [one for one in _wasted(set(keys), logs) if one is not None]
    counted = [one for one in verdicts if one is not None] + wasted
    tokens_in = sum(one.prompt_tokens for one in counted)
    tokens_out = sum(one.completion_tokens for one in counted)
    uncounted = sum(one is None for one in verdicts)
    return Costs(
        responses=len(verdicts) + len(wasted),
        prompt_tokens=tokens_in,
        completion_tokens=tokens_out,
        uncounted=uncounted,
        price=None if prices is None or uncounted else _price(prices, tokens_in, tokens_out),
    )


def _wasted(keys: set[str], logs: VerdictLogs) -> list[Spent | None]:
    return [
        spent(entry.get("response"))
        for name, entry in logs.failures.items()
        if name.split(" ")[0] in keys and isinstance(entry, dict)
    ]


def _price(prices: Prices, tokens_in: int, tokens_out: int) -> float:
    return (prices.prompt * tokens_in + prices.completion * tokens_out) / 1e6
