"""How a token is drawn from a model's logits."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """What a token is drawn by, in the order in which it is applied; transformers has the same.

    Attributes:
        temperature: Logits are divided by it; 0 takes the most likely token.
        top_k: Only so many of the most likely tokens can be drawn; 0 for all.
        top_p: Only the fewest most likely tokens that have this probability together.
        seed: Seed of a text's draws, so that they depend on no other text.

    Raises:
        ValueError: if a value is out of its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} must be 0 or more")
        if self.top_k < 0:
            raise ValueError(f"top_k {self.top_k} must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p} must be above 0 and at most 1")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature == 0 or self.top_k == 1


GREEDY = Sampling()


def draw(logits: Tensor, sampling: Sampling, uniform: float) -> int:
    """The token that a uniform number in [0, 1) stands for.

    Tokens are laid side by side by falling probability, each as wide as it is likely; the number
    falls on one of them.

    Args:
        logits: Of the whole vocabulary, [vocab].
        sampling: How to draw; not greedy.
        uniform: The number.
    """
    probabilities, tokens = kept(logits, sampling)
    edges = probabilities.cumsum(0)
    place = int(torch.searchsorted(edges, uniform * float(edges[-1]), right=True))
    return int(tokens[min(place, len(tokens) - 1)])


def kept(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Probabilities of the tokens that can be drawn, most likely first, and these tokens, [kept].

    The probabilities are float64 and relative: they add up to 1 before top_p.
    """
    count = min(sampling.top_k or len(logits), len(logits))
    largest, tokens = (logits.double() / sampling.temperature).topk(count)
    probabilities = largest.softmax(0)
    before = probabilities.cumsum(0) - probabilities  # what likelier tokens have together
    wide = int((before < sampling.top_p).sum())
    return probabilities[:wide], tokens[:wide]
