"""What the report's page says, as frozen records; `html`, `text` and `files` only set it.

The mean difference of a candidate, for sentences and plots alike, is `results.mean_difference`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.report.block import Block
from ladder_eval.results.records import RunResult

__all__ = ["Answer", "Document", "Explorer", "Figure", "Page", "Run", "Section"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its folder.
        result: What it found.
    """

    folder: Path
    result: RunResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A plot, drawn twice, and interactive where it has a specification.

    Attributes:
        name: Its file's name without an ending, such as "tradeoff"; unique on a page.
        title: What it shows.
        caption: How it is read, and the conditions that it must not be quoted without.
        alt: What it says, for who doesn't see it.
        svg: The plot as an SVG document, with colours for light and dark.
        png: The same as PNG.
        spec: The same as a Vega-Lite specification with its data inside; None where nothing is
            interactive.
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    png: bytes
    spec: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One model's answer to a document.

    Attributes:
        model: The model's name.
        text: What it answered: the choice, the text that it wrote, or a log-likelihood in words.
        value: The answer's value in the headline metric; 1 is right where it is right or wrong.
        change: "gain" or "loss" against the baseline; "" where the values are equal, of the
            baseline itself, and where nothing is compared.
        extracted: What the filter made of a text that it wrote; "" where it's the text.
        scores: By what it chose, one a choice, the largest: the log-likelihood in nats, of acc_norm
            by the choice's characters, of acc_bytes by its bytes.
        chosen: Index of the choice with the largest; None where there are no choices.
    """

    model: str
    text: str
    value: float
    change: str = ""
    extracted: str = ""
    scores: tuple[float, ...] = ()
    chosen: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document that the models of a run were asked.

    Attributes:
        run_id: The run.
        task: The task's name.
        subject: The subject; "" where the task has none.
        doc_id: The row in the split.
        doc_hash: Hash of the document.
        metric: The headline metric.
        change: "gain" or "loss" as its answers have it, "both" where they have both, or "".
        prompt: What was asked.
        target: The right answer.
        answers: The baseline's, then the candidates'.
        preview: What it's about, in a line.
        choices: What could be chosen; none where text is written or read.
        right: Indexes of the choices that are known to be right.
        is_abridged: Whether any of its texts is.
        link: Where it stands as a whole, relative to the report; "" without pages.
    """

    run_id: str
    task: str
    subject: str
    doc_id: int
    doc_hash: str
    metric: str
    change: str
    prompt: str
    target: str
    answers: tuple[Answer, ...]
    preview: str = ""
    choices: tuple[str, ...] = ()
    right: tuple[int, ...] = ()
    is_abridged: bool = False
    link: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explorer:
    """Some documents on the page itself, and where all of them are.

    `page.explorer.explore(runs, folder)` returns it, and writes the pages with all documents into
    `folder`/samples.

    Attributes:
        documents: At most 200, flips first.
        total: Documents that there are, of all runs.
        flips: How many of them changed.
        index: Path of the first page with all of them, relative to the report; "" without pages.
        notes: Sentences that a reader has to know, such as what couldn't be read.
    """

    documents: tuple[Document, ...]
    total: int
    flips: int
    index: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the page, in the order: sentences, figures, tables.

    Attributes:
        anchor: Its name in links.
        title: Its heading.
        sentences: What it says, a paragraph each.
        figures: Plots.
        blocks: Tables, each with its notes.
        folded: Whether it begins closed, as conditions do that are long.
    """

    anchor: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    blocks: tuple[Block, ...] = ()
    folded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A report.

    Attributes:
        title: Of what it is.
        subtitle: The runs and the time, in a line.
        verdicts: The answer, a sentence each; the first is the headline.
        warnings: What a reader has to know before believing the numbers.
        sections: The rest, in order.
        explorer: Documents to look into; None where there are none.
    """

    title: str
    subtitle: str
    verdicts: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    explorer: Explorer | None = None
