"""Token ids of texts, encoded many at a time: on all cores, and while a model answers others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from transformers import PreTrainedTokenizerBase

Piece = TypeVar("Piece")

Encoding = tuple[str, bool]
"""A text, and whether the tokenizer adds its special tokens."""


class TextEncoder:
    """What a tokenizer makes of texts.

    Args:
        tokenizer: The tokenizer. A fast one encodes texts that are given together on all cores.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._known: Mapping[Encoding, list[int]] = {}

    def ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text."""
        wanted = (text, add_special_tokens)
        known = self._known.get(wanted)
        return self._encoded([wanted])[wanted] if known is None else known

    def expect(self, texts: Iterable[Encoding]) -> None:
        """Encode texts together that are going to be asked for; others are no longer kept."""
        self._known = self._encoded(dict.fromkeys(texts))

    def ahead(
        self, pieces: Sequence[Piece], texts: Callable[[Piece], Iterable[Encoding]]
    ) -> Iterator[Piece]:
        """Pieces of work, the texts of each encoded together, those of the next meanwhile.

        Args:
            pieces: The work.
            texts: What is going to be asked for during a piece of it; each text is encoded once.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="encoding") as thread:

            def begun(piece: Piece) -> Future[dict[Encoding, list[int]]]:
                return thread.submit(self._encoded, dict.fromkeys(texts(piece)))

            coming = [begun(piece) for piece in pieces[:1]]
            for place, piece in enumerate(pieces, start=1):
                self._known = coming.pop().result()
                coming = [begun(after) for after in pieces[place : place + 1]]
                yield piece

    def _encoded(self, wanted: Iterable[Encoding]) -> dict[Encoding, list[int]]:
        found: dict[Encoding, list[int]] = {}
        for special in (True, False):
            texts = [text for text, adds in wanted if adds == special]
            if texts:
                ids = self._tokenizer(texts, add_special_tokens=special, verbose=False)["input_ids"]
                found |= zip([(text, special) for text in texts], ids, strict=True)
        return found
