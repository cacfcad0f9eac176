"""All documents of all runs as pages that need no scripts: a hundred each, with an index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ladder_eval.errors import RecordError
from ladder_eval.report.page.answered import Answered
from ladder_eval.report.page.documents import Reader
from ladder_eval.report.page.html import environment, part
from ladder_eval.results.files import atomic_write
from ladder_eval.results.store import slug

__all__ = ["ON_A_PAGE", "SAMPLES_NAME", "link_to", "write_samples"]

SAMPLES_NAME: Final = "samples"
"""Name of the folder with the pages."""

ON_A_PAGE: Final = 100
"""Documents on a page."""

_STYLES: Final = ("page.css", "explorer.css")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPages:
    """One task of a run, as the index lists it.

    Attributes:
        name: Its name.
        documents: Its documents.
        changed: On how many of them a candidate differs from the baseline.
        pages: Its pages, relative to the index.
    """

    name: str
    documents: int
    changed: int
    pages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPages:
    """One run, as the index lists it.

    Attributes:
        run_id: The run's name.
        tasks: Its tasks.
    """

    run_id: str
    tasks: tuple[TaskPages, ...]


def write_samples(found: Sequence[Answered], folder: Path) -> str:
    """Write all documents as pages into `folder`/samples, over what is there.

    Returns:
        The index, relative to `folder`.

    Raises:
        RecordError: If samples can't be read, or a page can't be written.
    """
    home = folder / SAMPLES_NAME
    listed = [
        RunPages(
            run_id=answered.run.result.run_id,
            tasks=tuple(_write_run(home, number, answered)),
        )
        for number, answered in enumerate(found)
    ]
    _write(home / "style.css", part(*_STYLES))
    index = environment().get_template("samples_index.html.j2").render(runs=listed)
    _write(home / "index.html", index)
    return f"{SAMPLES_NAME}/index.html"


def link_to(number: int, answered: Answered, document: int) -> str:
    """Where a document stands, relative to the folder that `write_samples` is given.

    Args:
        number: The run's number.
        answered: The run.
        document: The document's number.
    """
    task = str(answered.table["task"].iloc[document])
    place = int(answered.tasks[task].searchsorted(document))
    page = _page(number, answered, task, place // ON_A_PAGE)
    return f"{SAMPLES_NAME}/{page}#{_anchor(document)}"


def _write_run(home: Path, number: int, answered: Answered) -> Iterator[TaskPages]:
    template = environment().get_template("samples.html.j2")
    reader = Reader(answered)
    changed = answered.changed
    for task, documents in answered.tasks.items():
        starts = range(0, len(documents), ON_A_PAGE)
        pages = [_page(number, answered, task, i) for i in range(len(starts))]
        for i, start in enumerate(starts):
            own = [int(document) for document in documents[start : start + ON_A_PAGE]]
            text = template.render(
                run_id=answered.run.result.run_id,
                task=task,
                candidates=answered.models[1:] if answered.compared else (),
                page=i + 1,
                pages=len(pages),
                previous=Path(pages[max(i - 1, 0)]).name,
                next=Path(pages[min(i + 1, len(pages) - 1)]).name,
                first=start + 1,
                last=start + len(own),
                total=len(documents),
                documents=zip(map(_anchor, own), reader.documents(own), strict=True),
            )
            _write(home / pages[i], text)
        yield TaskPages(
            name=task,
            documents=len(documents),
            changed=int(changed[documents].sum()),
            pages=tuple(pages),
        )


def _page(number: int, answered: Answered, task: str, page: int) -> str:
    """A page's place below the folder of all; the names in it are safe in links, too."""
    return f"{number + 1}-{slug(answered.run.result.run_id)}/{slug(task)}-{page + 1}.html"


def _anchor(document: int) -> str:
    return f"document-{document}"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"can't write to {path.parent} ({error.strerror or error}); choose another place."
        ) from error
    atomic_write(path, text)
