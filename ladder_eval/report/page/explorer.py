"""Documents to look into: a choice of them on the report's page, and all of them beside it."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from ladder_eval.report.page.answered import Answered, read_answered
from ladder_eval.report.page.content import Document, Explorer, Run
from ladder_eval.report.page.documents import Reader, abridged, has_prompts
from ladder_eval.report.page.samples_pages import link_to, write_samples

__all__ = ["MOST_EMBEDDED", "MOST_PAGED", "chosen", "explore"]

MOST_EMBEDDED: Final = 200
"""Documents on the page itself, at most."""

MOST_PAGED: Final = 30_000
"""Documents of several runs, at most, that pages with all of them are written for."""

# Of those that flips leave to documents on which nothing changed, where there are any.
_UNCHANGED: Final = MOST_EMBEDDED // 5
_PROMPT: Final = 1800  # characters of a prompt on the page itself
_TEXT: Final = 900  # characters of any other text there
_CHARACTERS: Final = 1_500_000  # of all of it, so that the page stays small with many models

_TOO_MANY: Final = (
    "Together the runs have too many documents for pages with all of them; a report of one run has "
    "its own."
)

_Item = TypeVar("_Item")
_Place = tuple[int, int]  # a run's and a document's number
Numbers = npt.NDArray[np.int64]


def explore(runs: Sequence[Run], folder: Path | None) -> Explorer | None:
    """Choose documents, and write pages with all of them into `folder`/samples.

    Documents that flipped come first, taken by turns from runs, candidates, tasks, and gains and
    losses; then others, by turns from runs and tasks. Among equals the order is that of the
    documents' hashes: as good as random, and always the same. Several runs have pages with all of
    their documents only as long as these aren't more than MOST_PAGED; one run always has.

    Args:
        runs: Finished runs; those without samples have no documents.
        folder: The report's folder; None to write no pages.

    Returns:
        None if no run has samples.

    Raises:
        RecordError: If samples can't be read, or a page can't be written.
    """
    found = [each for each in map(read_answered, runs) if each is not None]
    total = sum(len(each.table) for each in found)
    if not found:
        return None
    many = len(found) > 1 and total > MOST_PAGED
    if many:
        folder = None
    documents = _within(_read(found, chosen(found), linked=folder is not None), _CHARACTERS)
    index = write_samples(found, folder) if folder is not None else ""
    return Explorer(
        documents=tuple(documents),
        total=total,
        flips=sum(int(each.changed.sum()) for each in found),
        index=index,
        notes=(*_notes(found), *([_TOO_MANY] if many else [])),
    )


def chosen(found: Sequence[Answered], most: int = MOST_EMBEDDED) -> list[_Place]:
    """Which documents the page has itself, as (number of the run, number of the document).

    Those that flipped come first, each part in the order of runs and documents.
    """
    flips = _different(_alternate([_flips(i, each) for i, each in enumerate(found)]))
    others = _different(_alternate([_others(i, each) for i, each in enumerate(found)]))
    unchanged = list(islice(others, most))
    first = list(islice(flips, most - min(len(unchanged), _UNCHANGED)))
    return sorted(first) + sorted(unchanged[: most - len(first)])


def _flips(number: int, answered: Answered) -> Iterator[_Place]:
    """Changed documents of a run, by turns of candidate, task, and gain or loss."""
    by_candidate = [
        _alternate([_by_turns(documents, changes) for documents in _by_hash(answered)])
        for changes in answered.changes.T
    ]
    return ((number, document) for document in _alternate(by_candidate))


def _by_turns(documents: Numbers, changes: npt.NDArray[np.int8]) -> Iterator[int]:
    """Gains and losses among documents by turns, as long as there are both."""
    own = changes[documents]
    return _alternate([documents[own == 1].tolist(), documents[own == -1].tolist()])


def _others(number: int, answered: Answered) -> Iterator[_Place]:
    """The other documents of a run, by turns of tasks."""
    changed = answered.changed
    by_task = [documents[~changed[documents]].tolist() for documents in _by_hash(answered)]
    return ((number, document) for document in _alternate(by_task))


def _by_hash(answered: Answered) -> list[Numbers]:
    """The documents of each task, in the order of their hashes."""
    hashes = answered.table["doc_hash"].to_numpy(dtype=str)
    return [
        documents[np.argsort(hashes[documents], kind="stable")]
        for documents in answered.tasks.values()
    ]


def _alternate(streams: Iterable[Iterable[_Item]]) -> Iterator[_Item]:
    """One of each stream by turns, until all have ended."""
    waiting = deque(map(iter, streams))
    while waiting:
        stream = waiting.popleft()
        with suppress(StopIteration):
            yield next(stream)
            waiting.append(stream)


def _different(places: Iterable[_Place]) -> Iterator[_Place]:
    """Each place once: a document may have flipped for several candidates."""
    seen: set[_Place] = set()
    for place in places:
        if place not in seen:
            seen.add(place)
            yield place


def _read(
    found: Sequence[Answered], places: Sequence[_Place], *, linked: bool
) -> Iterator[Document]:
    """The documents, abridged, in the order of `places`."""
    read: dict[_Place, Document] = {}
    for number, answered in enumerate(found):
        own = [document for run, document in places if run == number]
        if own:
            documents = Reader(answered).documents(own)
            read |= {(number, i): each for i, each in zip(own, documents, strict=True)}
    for number, document in places:
        link = link_to(number, found[number], document) if linked else ""
        yield replace(abridged(read[number, document], _PROMPT, _TEXT), link=link)


def _within(documents: Iterable[Document], most: int) -> Iterator[Document]:
    """The first documents whose texts have so many characters together."""
    left = most
    for document in documents:
        left -= _size(document)
        if left < 0:
            return
        yield document


def _size(document: Document) -> int:
    """About how many characters a document takes on a page."""
    answers = sum(
        len(each.text) + len(each.extracted) + 80 * max(1, len(each.scores))
        for each in document.answers
    )
    return 400 + len(document.prompt) + sum(map(len, document.choices)) + answers


def _notes(found: Sequence[Answered]) -> Iterator[str]:
    for each in found:
        if not has_prompts(each):
            yield (
                f"Run {each.run.result.run_id} has no prompts (its folder has no lm_eval/): "
                "documents are shown as the data set has them."
            )
