"""The score of a judged model: raw and length-controlled win rate and both lengths, together."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ladder_eval.errors import DataError
from ladder_eval.harness.judging.annotations import Annotation, Annotations
from ladder_eval.harness.judging.costs import Costs
from ladder_eval.harness.judging.difficulties import LengthFiles
from ladder_eval.results.length_controlled import LengthControlled, length_controlled
from ladder_eval.results.win_rates import Rate, win_rate

__all__ = ["Judged", "Judgement", "Provenance", "Rates", "judgement_json", "rates_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """The three figures that only mean something together.

    Attributes:
        win_rate: The raw win rate.
        length_controlled: The length-controlled one; None without the files that it needs.
        why_not: Why it is None.
        mean_length: The model's mean output in characters.
        reference_mean_length: The reference's.
    """

    win_rate: Rate
    length_controlled: LengthControlled | None
    why_not: str | None
    mean_length: float
    reference_mean_length: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """How many verdicts there are, and why others are missing.

    Attributes:
        documents: Instructions with a verdict.
        expected: Instructions that should have one.
        failures: Why, by instruction, where it is known.
    """

    documents: int
    expected: int
    failures: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether no verdict is missing."""
        return self.documents == self.expected

    @property
    def status(self) -> str:
        """Complete, or of how many."""
        if self.complete:
            return "complete"
        return f"incomplete: {self.documents} of {self.expected}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Who judged, how, and for how much.

    Attributes:
        judge: Name of the judge or annotator.
        url: The judge's server; None for verdicts from a file.
        prompt: Name of the prompt.
        prompt_sha256: Its hash.
        seed: Seed of the order of outputs.
        costs: What all responses cost; None for verdicts from a file.
    """

    judge: str
    url: str | None = None
    prompt: str | None = None
    prompt_sha256: str | None = None
    seed: int | None = None
    costs: Costs | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What `judge` reports.

    Attributes:
        model: The judged model.
        reference: What it was compared with.
        judged: How many verdicts there are.
        rates: Figures over the documents with a verdict; None without any.
        provenance: Who judged.
        notes: What a reader should know, such as an official quirk that was asked for.
    """

    model: str
    reference: str
    judged: Judged
    rates: Rates | None
    provenance: Provenance
    notes: tuple[str, ...] = ()


def rates_of(
    annotations: Annotations,
    files: LengthFiles | None,
    places: Sequence[int] | None,
    why_not: str | None,
) -> Rates | None:
    """All figures over the documents with a verdict; None where there is none.

    Args:
        annotations: The verdicts.
        files: What length control needs; None to do without.
        places: The place of each row in the reference, which is that in `files`.
        why_not: Why there is no length control, where there isn't.

    Raises:
        DataError: If length control is to be fitted to fewer than two verdicts.
    """
    judged = [i for i, row in enumerate(annotations.rows) if row.preference is not None]
    if not judged:
        return None
    rows = [annotations.rows[i] for i in judged]
    controlled = None
    if files is not None and places is not None:
        same = annotations.model == annotations.reference
        controlled = (
            _against_itself() if same else _controlled(rows, [places[i] for i in judged], files)
        )
    return Rates(
        win_rate=win_rate(_preferences(rows)),
        length_controlled=controlled,
        why_not=why_not,
        mean_length=sum(len(row.output) for row in rows) / len(rows),
        reference_mean_length=sum(len(row.reference) for row in rows) / len(rows),
    )


def judgement_json(judgement: Judgement) -> str:
    """A judgement as JSON; rates of an incomplete one stand under another name."""
    values = asdict(judgement)
    rates = values.pop("rates")
    if rates and rates["length_controlled"]:
        del rates["length_controlled"]["draws"]  # what they are of can be drawn again
    name = "rates" if judgement.judged.complete else "rates_of_judged_alone"
    return json.dumps({"status": judgement.judged.status, **values, name: rates}, indent=2) + "\n"


def _preferences(rows: Sequence[Annotation]) -> list[float]:
    return [row.preference for row in rows if row.preference is not None]


def _controlled(
    rows: Sequence[Annotation], places: Sequence[int], files: LengthFiles
) -> LengthControlled:
    if len(rows) < 2:
        raise DataError("length control needs verdicts on several documents; leave --gamed out.")
    deltas = [float(len(row.reference) - len(row.output)) for row in rows]
    return length_controlled(_preferences(rows), deltas, places, files.gamed, files.difficulties)


def _against_itself() -> LengthControlled:
    """The reference against itself wins half by definition, as on the leaderboard."""
    return LengthControlled(
        rate=Rate(percent=50.0, stderr=None),
        length=0.0,
        difficulty=0.0,
        model=0.0,
        penalty=None,
        resamples=0,
    )
