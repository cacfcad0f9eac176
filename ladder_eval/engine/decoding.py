"""Token by token: the prompts in one forward, then a forward for each token that follows."""

from collections.abc import Callable, Iterator
from itertools import count

import torch
from torch import Tensor
from torch.nn import functional

from ladder_eval.models.cache import KeyValueCache
from ladder_eval.models.transformer import Transformer


def decode(
    model: Transformer,
    prompts: Tensor,
    cache: KeyValueCache,
    choose: Callable[[Tensor], Tensor],
    lengths: Tensor | None = None,
) -> Iterator[Tensor]:
    """The tokens after each prompt, one of each row at a time, [batch], for as long as asked.

    All ranks of the model's group call this together, with equal prompts, and ask as often. Texts
    that end by themselves are `generation`'s; here all rows go on, as a clock needs them to.

    Args:
        model: One rank's part of a model.
        prompts: Token ids, [batch, prompt_len], padded on the right.
        cache: What earlier forwards have left; it grows where its room is too small.
        choose: The next token of each row, [batch], after final hidden states [batch, hidden].
        lengths: Number of tokens of each prompt, [batch]; None where none is padded.
    """
    with torch.inference_mode():
        cache.reserve(prompts.shape[1])
        newest = _last(model(prompts, cache=cache), lengths)
        tokens = choose(newest)
    for step in count():
        yield tokens
        with torch.inference_mode():
            cache.reserve(1)
            # Of a padded row the prompt's end is followed by columns that nobody may look at.
            positions = None if lengths is None else (lengths + step)[:, None]
            mask = None if lengths is None else _visible(lengths, prompts.shape[1], step + 1)
            newest = model(tokens[:, None], positions=positions, mask=mask, cache=cache)[:, -1]
            tokens = choose(newest)


def _last(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    """The hidden state of each prompt's last token, [batch, hidden]."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]


def _visible(lengths: Tensor, prompt_len: int, decoded: int) -> Tensor:
    """The columns that each row's newest token may look at, [batch, 1, 1, keys]."""
    columns = torch.arange(prompt_len, device=lengths.device)
    prompt = columns < lengths[:, None]  # [batch, prompt_len]
    return functional.pad(prompt, (0, decoded), value=True)[:, None, None]


def most_likely(model: Transformer, hidden: Tensor) -> Tensor:
    """The most likely next token, [batch], over all ranks' parts of the vocabulary.

    Args:
        model: One rank's part of a model.
        hidden: Final hidden states, [batch, hidden].
    """
    return leading(*candidates(model, hidden))


def candidates(model: Transformer, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each rank's own tokens, and the token that has it, both [tp, batch]."""
    largest, best = model.logits(hidden).max(-1)
    # A float32 holds every whole number up to 16,777,216, more than any vocabulary has.
    own = torch.stack((largest, (best + model.vocabulary.start).float()), dim=-1)
    largest, tokens = model.tp.all_gather(own).unbind(-1)
    return largest, tokens


def leading(largest: Tensor, tokens: Tensor) -> Tensor:
    """The token of the rank with the largest logit, [...], from all ranks' [tp, ...].

    Of equal logits the first rank's wins, as argmax over the whole vocabulary would choose.
    """
    return tokens.gather(0, largest.argmax(0, keepdim=True)).squeeze(0).long()
