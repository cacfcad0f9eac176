"""What lm-eval logged about each document in a run's folder: prompts, and whole answers.

The files are large, as a prompt stands in them once for each choice: lines are found by their
document, and only those that are wanted are read.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from ladder_eval.errors import RecordError

__all__ = ["Logged", "LoggedSamples", "Request"]

Request = tuple[Any, ...]
"""What was asked at once: a context and its continuation, a text alone, or a context and the
settings of what is generated."""

# lm_eval.utils.sanitize_model_name (0.4.13)
_NOT_IN_FOLDERS: Final = re.compile(r"[\"<>:/|\\?*\[\]]+")
_FILE: Final = re.compile(r"samples_(?P<part>.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl", re.DOTALL)
_DOC_ID: Final = re.compile(rb'\{"doc_id": (\d+),')


@dataclass(frozen=True, kw_only=True, slots=True)
class Logged:
    """What was logged about one document.

    Attributes:
        requests: What the model was asked.
        responses: What it answered before any filter, one an attempt; texts and numbers.
        document: The document's fields.
    """

    requests: tuple[Request, ...]
    responses: tuple[Any, ...]
    document: dict[str, Any]


class LoggedSamples:
    """The files of one model in a run's folder, each of which is searched once.

    Attributes:
        folder: Where they are; a run may be without.
    """

    def __init__(self, run: Path, model: str) -> None:
        """Find the files.

        Args:
            run: The run's folder.
            model: The model's name.
        """
        self.folder = run / "lm_eval" / _NOT_IN_FOLDERS.sub("__", model)
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        named = ((_FILE.fullmatch(path.name), path) for path in paths)
        self._files = {name["part"]: path for name, path in named if name}
        self._places: dict[str, dict[int, int]] = {}

    def read(self, part: str, wanted: Iterable[tuple[int, str]]) -> Iterator[Logged | None]:
        """What was logged about documents of one of lm-eval's tasks, in the order wanted.

        Args:
            part: The task's name; where a task has subjects, the subject's.
            wanted: Row in the split and hash of each document.

        Yields:
            None for a document that isn't there, or has another hash.

        Raises:
            RecordError: If the file can't be read.
        """
        path = self._files.get(part)
        if path is None:
            yield from (None for _ in wanted)
            return
        try:
            with path.open("rb") as file:
                places = self._found(part, file)
                for doc_id, doc_hash in wanted:
                    yield _line(file, places.get(doc_id), doc_hash)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"can't read {path} ({error!r}); restore it.") from error

    def _found(self, part: str, file: BinaryIO) -> dict[int, int]:
        """Where in the file each document's first line begins."""
        if part not in self._places:
            self._places[part] = _places(file)
        return self._places[part]


def _places(file: BinaryIO) -> dict[int, int]:
    found: dict[int, int] = {}
    at = 0
    for line in file:
        start = _DOC_ID.match(line)
        doc_id = int(start[1]) if start else int(json.loads(line)["doc_id"])
        found.setdefault(doc_id, at)  # each further filter repeats the document
        at += len(line)
    return found


def _line(file: BinaryIO, place: int | None, doc_hash: str) -> Logged | None:
    if place is None:
        return None
    file.seek(place)
    values = json.loads(file.readline())
    if values["doc_hash"] != doc_hash:
        return None
    return Logged(
        requests=tuple(_requests(values["arguments"])),
        responses=tuple(values["resps"]),
        document=values["doc"] if isinstance(values["doc"], dict) else {"": values["doc"]},
    )


def _requests(logged: dict[str, dict[str, Any]]) -> Iterator[Request]:
    for i in range(len(logged)):
        arguments = logged[f"gen_args_{i}"]
        yield tuple(arguments[f"arg_{j}"] for j in range(len(arguments)))
