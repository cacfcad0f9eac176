"""Token by token: the prompt in one forward, then a forward for each token that follows."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ladder_eval.models.cache import KeyValueCache
from ladder_eval.models.transformer import Transformer


def generate(
    model: Transformer, prompt: Tensor, cache: KeyValueCache, *, output_len: int
) -> Iterator[Tensor]:
    """The most likely tokens after a prompt, one of each row at a time, [batch].

    All ranks of the model's group call this together, with equal prompts.

    Args:
        model: One rank's part of a model.
        prompt: Token ids of equally long rows, [batch, prompt_len].
        cache: What earlier forwards have left; it has room for prompt_len + output_len - 1 more.
        output_len: Number of tokens a row.
    """
    ids = prompt
    for _ in range(output_len):
        with torch.inference_mode():
            token = most_likely(model, model(ids, cache=cache)[:, -1])
        yield token
        ids = token[:, None]


def most_likely(model: Transformer, hidden: Tensor) -> Tensor:
    """The most likely next token, [batch], over all ranks' parts of the vocabulary.

    Args:
        model: One rank's part of a model.
        hidden: Final hidden states, [batch, hidden].
    """
    largest, best = model.logits(hidden).max(-1)
    # A float32 holds every whole number up to 16,777,216, more than any vocabulary has.
    own = torch.stack((largest, (best + model.vocabulary.start).float()), dim=-1)
    return leading(*model.tp.all_gather(own).unbind(-1))


def leading(largest: Tensor, tokens: Tensor) -> Tensor:
    """The token of the rank with the largest logit, [...], from all ranks' [tp, ...].

    Of equal logits the first rank's wins, as argmax over the whole vocabulary would choose.
    """
    return tokens.gather(0, largest.argmax(0, keepdim=True)).squeeze(0).long()
