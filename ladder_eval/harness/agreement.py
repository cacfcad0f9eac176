"""How the answers of two engines to the same requests differ."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ladder_eval.harness.questions import Answers
from ladder_eval.results.throughput_records import Agreement, MetricPair, TextDifference

# Tokens of a text that are shown where it begins to differ.
_SHOWN = 8


def agreement_of(
    ours: Answers,
    theirs: Answers,
    metrics: tuple[Mapping[str, float], Mapping[str, float]],
    difference: Callable[[int, str, str], TextDifference],
) -> Agreement:
    """Compare the answers to a task.

    Args:
        ours: Answers of this package's engine.
        theirs: Those of the other.
        metrics: What lm-eval makes of ours and of theirs.
        difference: Where two texts of a request, the n-th, differ.
    """
    choices = _pairs(ours, theirs, "loglikelihood")
    rolling = _pairs(ours, theirs, "loglikelihood_rolling")
    texts = _pairs(ours, theirs, "generate_until")
    return Agreement(
        metrics=tuple(
            MetricPair(metric=name, ours=value, theirs=metrics[1][name])
            for name, value in metrics[0].items()
        ),
        choices=max((abs(a[0] - b[0]) for a, b in choices), default=None),
        greedy=sum(a[1] != b[1] for a, b in choices),
        rolling=max((abs(a - b) / abs(b) for a, b in rolling), default=None),
        texts=len(texts),
        differences=tuple(difference(n, a, b) for n, (a, b) in enumerate(texts) if a != b),
    )


def text_difference(
    request: int,
    ours: str,
    theirs: str,
    *,
    prompt: Sequence[int],
    encode: Callable[[str], list[int]],
    decode: Callable[[Sequence[int]], str],
    gap: Callable[[Sequence[int]], float],
) -> TextDifference:
    """Where two texts part, and how near the two best tokens were to each other there.

    The texts are made tokens again, which now and then cuts them otherwise than they were written.

    Args:
        request: The request's place.
        ours: A text.
        theirs: Another.
        prompt: Token ids of what stood before both.
        encode: Token ids of a text.
        decode: And back.
        gap: By how much the best logit after these tokens is above the second best.
    """
    mine, others = encode(ours), encode(theirs)
    same = zip(mine, others, strict=False)  # one may end where the other goes on
    position = next((n for n, (a, b) in enumerate(same) if a != b), min(len(mine), len(others)))
    return TextDifference(
        request=request,
        position=position,
        gap=gap([*prompt, *mine[:position]]),
        ours=decode(mine[position : position + _SHOWN]),
        theirs=decode(others[position : position + _SHOWN]),
    )


def _pairs(ours: Answers, theirs: Answers, kind: str) -> list[tuple[Any, Any]]:
    return list(zip(ours.get(kind, ()), theirs.get(kind, ()), strict=True))
