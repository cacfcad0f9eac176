"""What the report's page says, as frozen records; `html`, `text` and `files` only set it.

The mean difference of a candidate, for sentences and plots alike, is `results.mean_difference`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.results.mean_difference import MeanDifference
from ladder_eval.results.records import RunResult
from ladder_eval.results.speed_records import Estimate, SpeedRecord, SpeedRow
from ladder_eval.results.tradeoff import phase_of

__all__ = [
    "BETTER",
    "UNDECIDED",
    "WORSE",
    "Answer",
    "Document",
    "Explorer",
    "Facts",
    "Figure",
    "Page",
    "Run",
    "Section",
    "Timing",
    "Verdict",
]


BETTER: Final = "better"
"""The outcome of a mean difference whose interval lies above zero."""

WORSE: Final = "worse"
"""That of one whose interval lies below zero."""

UNDECIDED: Final = "undecided"
"""That of one whose interval holds zero."""


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
        worth: The value as it reads: "right", "wrong", a number; "" where the text says it.
        role: "baseline" or "candidate"; "" where nothing is compared.
    """

    model: str
    text: str
    value: float
    change: str = ""
    extracted: str = ""
    scores: tuple[float, ...] = ()
    chosen: int | None = None
    worth: str = ""
    role: str = ""


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
    `folder`/samples; the report is `folder`/index.html, so that `index` is samples/index.html.
    `templates/explorer.html.j2` sets it, with `explorer` in its context and
    escaping on; `templates/explorer.css` and `templates/explorer.js` stand in the page's own.

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

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the candidates, in order of appearance."""
        answers = (each for document in self.documents for each in document.answers)
        return tuple(dict.fromkeys(each.model for each in answers if each.role == "candidate"))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in order."""
        return tuple(sorted({document.task for document in self.documents}))

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that have documents here, in order of appearance."""
        return tuple(dict.fromkeys(document.run_id for document in self.documents))


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """What one measurement says of one candidate.

    Attributes:
        record: The measurement.
        row: The candidate's row in it.
    """

    record: SpeedRecord
    row: SpeedRow

    @property
    def speedup(self) -> Estimate | None:
        """Over the baseline, in decoding, or in prefill where nothing is decoded."""
        return phase_of(self.row).speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What is known of one candidate.

    Attributes:
        run_id: The run.
        candidate: Its name.
        baseline: What it was compared with.
        mean: Its mean difference; None where no fractions were compared.
        timings: Its times, in the order of the run.
        sentences: What both mean.
        conditions: What they hold for; "" where only times are known.
    """

    run_id: str
    candidate: str
    baseline: str
    mean: MeanDifference | None
    timings: tuple[Timing, ...]
    sentences: tuple[str, ...]
    conditions: str

    @property
    def outcome(self) -> str:
        """BETTER, WORSE or UNDECIDED by the mean difference; a dash where there's none."""
        if self.mean is None:
            return NOTHING
        if not self.mean.decided:
            return UNDECIDED
        return BETTER if self.mean.difference > 0 else WORSE


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Labels and texts.

    Attributes:
        title: Of what they are.
        pairs: A label and a text each.
    """

    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the page, in the order: sentences, figures, tables.

    Attributes:
        anchor: Its name in links.
        title: Its heading.
        sentences: What it says, a paragraph each.
        figures: Plots.
        blocks: Tables, each with its notes.
        facts: Labels and texts, such as conditions, in groups that have a name.
        folded: Tables that are shown only when asked for, each with its notes.
    """

    anchor: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    blocks: tuple[Block, ...] = ()
    facts: tuple[Facts, ...] = ()
    folded: tuple[Block, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A report.

    Attributes:
        title: Of what it is.
        subtitle: The runs and the time, in a line.
        headline: The answer in a sentence.
        verdicts: The answer for each candidate.
        glance: All candidates in a table; empty where nothing was compared or timed.
        choices: Whether another choice would be better, a sentence each.
        conditions: What the verdicts hold for, a sentence each, those of several once.
        warnings: What a reader has to know before believing the numbers.
        sections: The rest, in order.
        explorer: Documents to look into; None where there are none.
    """

    title: str
    subtitle: str
    headline: str
    verdicts: tuple[Verdict, ...]
    glance: tuple[Block, ...]
    choices: tuple[str, ...]
    conditions: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    explorer: Explorer | None = None
