"""A report as files: the page, the same as Markdown, tables, plots, and all documents."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ladder_eval.errors import RecordError
from ladder_eval.report.leaderboard import to_csv
from ladder_eval.report.page.content import Figure, Page, Run
from ladder_eval.report.page.explorer import explore
from ladder_eval.report.page.figures import (
    difference_figures,
    speed_plots,
    timeline_plots,
    tradeoff_figures,
    vega_runtime,
)
from ladder_eval.report.page.gather import MOST_PLOTTED, gather
from ladder_eval.report.page.html import page_html
from ladder_eval.report.page.latex import block_latex
from ladder_eval.report.page.markdown import page_markdown
from ladder_eval.report.page.tables import frames
from ladder_eval.results.files import atomic_write

__all__ = ["LARGEST_BYTES", "PAGE_NAME", "write_report"]

LARGEST_BYTES: Final = 5 * 2**20
"""What the page may have at most, so that it can be sent by mail and opened on a phone."""

PAGE_NAME: Final = "index.html"


def write_report(runs: Sequence[Run], folder: Path) -> Path:
    """Write the report of some runs into a folder, and return the page's file.

    Raises:
        RecordError: If the folder or a file in it can't be written, or samples can't be read.
    """
    _make(folder / "tables")
    _make(folder / "figures")
    page = gather(runs, _plots(runs[:MOST_PLOTTED]), explore(runs, folder))
    for figure in _figures(page):
        atomic_write(folder / "figures" / f"{figure.name}.svg", figure.svg)
        atomic_write(folder / "figures" / f"{figure.name}.png", figure.png)
    for name, frame in frames(runs).items():
        atomic_write(folder / "tables" / f"{name}.csv", to_csv(frame))
    for name, text in _latex(page):
        atomic_write(folder / "tables" / f"{name}.tex", text)
    atomic_write(folder / "report.md", page_markdown(page))
    atomic_write(folder / PAGE_NAME, _fitting(page))
    return folder / PAGE_NAME


def _plots(runs: Sequence[Run]) -> dict[str, tuple[Figure, ...]]:
    """Plots, by the anchor of the section that they belong to."""
    return {
        "tradeoff": tradeoff_figures(runs),
        "accuracy": difference_figures(runs),
        "speed": speed_plots(runs),
        "timeline": timeline_plots(runs),
    }


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"can't write to {folder} ({error.strerror or error}); choose another folder (--out)."
        ) from error


def _figures(page: Page) -> Iterator[Figure]:
    for section in page.sections:
        yield from section.figures


def _latex(page: Page) -> Iterator[tuple[str, str]]:
    """A file a table, named after its section and its place in it."""
    parts = [("glance", page.glance), *((each.anchor, each.blocks) for each in page.sections)]
    for anchor, blocks in parts:
        for number, block in enumerate(blocks, 1):
            name = f"{anchor}-{number}"
            yield name, block_latex(block, f"tab:{name}")


def _fitting(page: Page) -> str:
    """The page as HTML, with less inside where it would be too large."""
    drawn = any(figure.spec for figure in _figures(page))
    runtime = vega_runtime() if drawn else ""
    texts = (page_html(each, runtime) for each in _smaller(page))
    text = ""
    for text in texts:
        if len(text.encode()) <= LARGEST_BYTES:
            break
    return text


def _smaller(page: Page) -> Iterator[Page]:
    """The page, then with half the documents again and again, then without folded tables."""
    yield page
    while page.explorer and page.explorer.documents:
        kept = page.explorer.documents[: len(page.explorer.documents) // 2]
        page = replace(page, explorer=replace(page.explorer, documents=kept))
        yield page
    text = "Further tables are in report.md, which has no limit of size."
    yield replace(
        page,
        sections=tuple(
            replace(each, folded=(), sentences=(*each.sentences, text)) if each.folded else each
            for each in page.sections
        ),
    )
