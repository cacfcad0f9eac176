"""The log of answered requests, which lets a killed run go on where it stopped."""

import hashlib
import json
import os
from collections.abc import ItemsView, Mapping, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ladder_eval.errors import RecordError
from ladder_eval.results.files import sync_folder

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
    """Answers by request key, in a file of one JSON line per answer that only ever grows.

    An answer counts as kept once `append` has returned. A crash can tear the end of the file:
    on opening, everything from the first line that isn't a whole record is cut off, never guessed
    at, and `cut_bytes` says how much that was. Floats return bit for bit.

    Attributes:
        path: The file.
        cut_bytes: Bytes cut off on opening; 0 if the file was whole.
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
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(path, "a+")
            sync_folder(path.parent)
            self._file.seek(0)
            content = self._file.readall()
            self._answers, self._size = _parse(content)
            self.cut_bytes = len(content) - self._size
            self._file.truncate(self._size)
        except OSError as error:
            raise self._unwritable(error) from error

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
        lines = "".join(_line(key, answer) for key, answer in answers.items()).encode()
        try:
            self._write(lines)
        except OSError as error:
            self._file.truncate(self._size)
            raise self._unwritable(error) from error
        self._size += len(lines)
        self._answers.update(_parse(lines)[0])

    def close(self) -> None:
        """Close the file; what was appended stays readable here."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, lines: bytes) -> None:
        if self._file.write(lines) != len(lines):
            raise OSError("the disk took only a part of the answers")
        os.fsync(self._file.fileno())

    def _unwritable(self, error: OSError) -> RecordError:
        return RecordError(
            f"can't keep answers in {self.path} ({error.strerror or error}); "
            "free some space there, or choose another folder."
        )


def read_answers(path: Path) -> dict[str, Answer]:
    """The answers of a log that is left as it is, up to the first line that isn't whole.

    Raises:
        RecordError: If the file can't be read.
    """
    try:
        return _parse(path.read_bytes())[0]
    except OSError as error:
        raise RecordError(
            f"can't read the answers in {path} ({error.strerror or error}); give another run."
        ) from None


def _line(key: str, answer: Answer) -> str:
    return json.dumps({"key": key, "answer": answer}, separators=(",", ":")) + "\n"


def _parse(content: bytes) -> tuple[dict[str, Answer], int]:
    """The answers of all lines before the first bad one, and where that one begins."""
    answers: dict[str, Answer] = {}
    size = 0
    for line in content.splitlines(keepends=True):
        record = _record(line)
        if record is None:
            break
        answers[record[0]] = record[1]
        size += len(line)
    return answers, size


def _record(line: bytes) -> tuple[str, Answer] | None:
    """Key and answer of a whole line; None of any other."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.keys() != {"key", "answer"}:
        return None
    key = record["key"]
    return (key, record["answer"]) if isinstance(key, str) else None
