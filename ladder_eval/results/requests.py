"""The log of answered requests, which lets a killed run go on where it stopped."""

import hashlib
import json
from collections.abc import ItemsView, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ladder_eval.errors import RecordError
from ladder_eval.results.lines import LineFile, Lines, read_lines

__all__ = ["Answer", "RequestLog", "read_answers", "request_key"]

Answer: TypeAlias = bool | int | float | str | Sequence["Answer"] | Mapping[str, "Answer"] | None
"""What a model answered: any JSON value, such as [log-likelihood, is_greedy] or a text."""


def request_key(*parts: str | int | Sequence[int]) -> str:
    """SHA-256, in hex, of whatever determines an answer.

    JSON keeps parts apart: ("ab", "c") and ("a", "bc") differ, as do 1, "1" and [1].
    """
    plain = [part if isinstance(part, str | int) else list(part) for part in parts]
    return hashlib.sha256(json.dumps(plain, separators=(",", ":")).encode()).hexdigest()


class RequestLog:
    """Answers by request key, in a file of one checksummed line per answer that only ever grows.

    An answer counts as kept once `append` has returned. What is appended together is kept together.
    On opening, lines that a crash has torn or that don't agree with their checksum are taken out,
    never guessed at, and `damage` says how many they were. Floats return bit for bit.

    Attributes:
        path: The file.
        damage: What was taken out on opening, in words; "" if the file was whole.
    """

    def __init__(self, path: Path, lent: Mapping[str, Answer] | None = None) -> None:
        """Open the log, creating the file and its folders.

        Args:
            path: The file.
            lent: Answers of another log, which `get` knows, too; they are not written here.

        Raises:
            RecordError: If the file can't be read or written.
        """
        self.path = path
        self._lent = lent or {}
        try:
            self._lines = LineFile(path)
        except OSError as error:
            raise self._unwritable(error) from error
        self.damage = str(self._lines.found) if self._lines.found.damaged else ""
        self._answers = _answers(self._lines.found)

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: object) -> bool:
        return key in self._answers

    def get(self, key: str) -> Answer:
        """The answer of a request, or None if there's none yet."""
        return self._answers.get(key, self._lent.get(key))

    def items(self) -> ItemsView[str, Answer]:
        """All keys with their answers, in the order in which the keys came."""
        return self._answers.items()

    def append(self, answers: Mapping[str, Answer]) -> None:
        """Keep answers, and return when they're on disk. A key's last answer counts.

        Raises:
            RecordError: If they can't be written; the log then holds what it held before.
            TypeError: If an answer isn't a JSON value.
        """
        try:
            self._lines.append([{"key": key, "answer": answers[key]} for key in answers])
        except OSError as error:
            raise self._unwritable(error) from error
        self._answers.update(json.loads(json.dumps(dict(answers))))

    def close(self) -> None:
        """Close the file; what was appended stays readable here."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> RecordError:
        return RecordError(
            f"can't keep answers in {self.path} ({error.strerror or error}); "
            "free some space there, or choose another folder."
        )


def read_answers(path: Path) -> dict[str, Answer]:
    """The answers of a log that is left as it is; those that can't be trusted are left out.

    Raises:
        RecordError: If the file can't be read.
    """
    try:
        return _answers(read_lines(path))
    except OSError as error:
        raise RecordError(
            f"can't read the answers in {path} ({error.strerror or error}); give another run."
        ) from None


def _answers(lines: Lines) -> dict[str, Answer]:
    return {
        each["key"]: each["answer"]
        for each in lines.records
        if isinstance(each.get("key"), str) and "answer" in each
    }
