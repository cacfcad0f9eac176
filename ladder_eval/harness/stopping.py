"""How a text is to be generated, and where it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lm_eval.models.utils import normalize_gen_kwargs
from transformers import PreTrainedTokenizerBase

from ladder_eval.engine.generation import Stop
from ladder_eval.engine.sampling import Sampling
from ladder_eval.errors import UsageError

_KNOWN = ("until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k")
# What other engines offer, at the value at which it does nothing.
_NEUTRAL = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "repetition_penalty": 1.0,
    "length_penalty": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "use_cache": True,
}
# Characters that decoding may change by what stands before them, generously.
_CONTEXT = 8
# What decoding gives for a part of a character.
_HALF = "\ufffd"


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationSettings:
    """lm-eval's `generation_kwargs` of a task.

    Attributes:
        until: Texts that end a generation; they are no part of it.
        max_gen_toks: Most tokens to generate.
        sampling: How tokens are drawn; its seed is each request's own.
    """

    until: tuple[str, ...]
    max_gen_toks: int
    sampling: Sampling


def settings_of(kwargs: Mapping[str, Any], default_max_gen_toks: int) -> GenerationSettings:
    """Read a task's `generation_kwargs`, as lm-eval's own models do.

    Args:
        kwargs: `until` (a text or a list of them), `max_gen_toks`, `do_sample`, `temperature`,
            `top_p` and `top_k`, or lm-eval's other names for the second.
        default_max_gen_toks: Where the task doesn't say.

    Raises:
        UsageError: if one is unknown or out of its range: none is silently ignored.
    """
    try:
        values = dict(normalize_gen_kwargs(dict(kwargs), default_max_gen_toks))
        _require_known(values)
        drawn = values["do_sample"]
        sampling = Sampling(
            temperature=float(values.get("temperature", 1.0)) if drawn else 0.0,
            top_p=1.0 if (top_p := values.get("top_p")) is None else float(top_p),
            top_k=int(values.get("top_k") or 0),
        )
        if values["max_gen_toks"] < 1:
            raise ValueError(f"max_gen_toks {values['max_gen_toks']} must be 1 or more")
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"The generation_kwargs {dict(kwargs)!r} can't be used: {error}."
        ) from None
    return GenerationSettings(
        until=_until(values["until"]), max_gen_toks=values["max_gen_toks"], sampling=sampling
    )


def _require_known(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name not in _KNOWN and (name not in _NEUTRAL or value != _NEUTRAL[name]):
            raise ValueError(f"{name}={value!r} isn't offered; offered are {', '.join(_KNOWN)}")


def _until(values: Sequence[Any]) -> tuple[str, ...]:
    if wrong := [value for value in values if value is not None and not isinstance(value, str)]:
        raise UsageError(f"until has {wrong[0]!r}; give a text, or a list of texts.")
    return tuple(value for value in values if value)


class TextEnd:
    """Where a text ends: before the first of some strings, which may span tokens.

    A string may also be a special token, which no text shows.

    A reasoning model's thoughts are hidden: where a string closes them, only what follows it is
    the answer, and only there do the strings count. Thoughts that are never closed are the answer.

    Attributes:
        until: The strings.
        think_end: The string that closes the thoughts; empty where there are none.

    Raises:
        UsageError: if that is more than a special token.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, until: Sequence[str], think_end: str = ""
    ) -> None:
        self._tokenizer = tokenizer
        self.until = tuple(until)
        self.think_end = think_end
        added = tokenizer.added_tokens_decoder.items()
        self._hidden = {token for token, what in added if what.special}
        ids = tokenizer.encode(think_end, add_special_tokens=False) if think_end else []
        # A special token isn't part of any text, so that it has to be looked for as a token.
        self._think_token = ids[0] if len(ids) == 1 and ids[0] in self._hidden else None
        if self._think_token is None and not self._hidden.isdisjoint(ids):
            raise UsageError(
                f"think_end_token {think_end!r} has more in it than a special token of the "
                "tokenizer; give that alone."
            )
        # As a string of `until` a special token has to be looked for in the same way.
        self._stop_tokens = {token for token, what in added if what.special and str(what) in until}
        # A few more characters give those of the string their context.
        self._window = max(map(len, (*self.until, think_end)), default=0) + _CONTEXT

    def watch(self) -> Stop:
        """What says of one growing text whether it is over, from its last tokens alone.

        It can be pickled, for another process to ask.
        """
        tail = _Tail(self._text, self._window)
        return partial(self._is_over, _Growing(tail=tail, thinking=bool(self.think_end)))

    def cut(self, tokens: Sequence[int]) -> str:
        """The answer in a text: after the thoughts, before the first of the strings."""
        answer = self._answer(tokens)
        return answer[: self._first_end(answer)]

    def _is_over(self, text: "_Growing", tokens: Sequence[int]) -> bool:
        if not self.until:
            return False
        if tokens[-1] == self._think_token:
            text.thinking = False
        if tokens[-1] in self._hidden:
            return tokens[-1] in self._stop_tokens and not text.thinking
        end = text.tail.add(tokens[-1])
        if text.thinking and self._think_token is None and self.think_end in end:
            text.thinking = False
        if text.thinking or not any(string in end for string in self.until):
            return False
        return self._first_end(self._answer(tokens)) is not None  # the tail may be a thought

    def _answer(self, tokens: Sequence[int]) -> str:
        if not self.think_end:
            return self._text(tokens)
        if self._think_token is None:
            text = self._text(tokens)
            _, found, answer = text.rpartition(self.think_end)
            return answer.lstrip() if found else text
        tokens = list(tokens)
        if self._think_token not in tokens:
            return self._text(tokens)
        place = len(tokens) - tokens[::-1].index(self._think_token)
        return self._text(tokens[place:]).lstrip()

    def _first_end(self, text: str) -> int | None:
        places = [place for end in self.until if (place := text.find(end)) >= 0]
        return min(places, default=None)

    def _text(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text


@dataclass(kw_only=True, slots=True)
class _Growing:
    """What is kept of a text while it grows: its end, and whether that is a thought."""

    tail: "_Tail"
    thinking: bool


class _Tail:
    """The end of a growing text, at least so many characters of it.

    It begins where a character does: a decoder may turn all bytes after half of one into nonsense.
    How many tokens it takes is open, since some of them leave nothing in a text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], window: int) -> None:
        self._decode = decode
        self._window = window
        self._tokens: list[int] = []
        self._mark = 0  # the next beginning, in tokens
        self._before = 0  # characters before it

    def add(self, token: int) -> str:
        """Go on with a token, and return the end of the text."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        if len(text) - self._before >= self._window and not text.endswith(_HALF):
            del self._tokens[: self._mark]
            self._mark, self._before = len(self._tokens), len(self._decode(self._tokens))
        return text
