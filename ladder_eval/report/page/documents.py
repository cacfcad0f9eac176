"""Documents to look into: what was asked, what each model answered, and what is right.

Everything in them that a model or a data set wrote is text, whatever it says.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ladder_eval.report.page.answered import Answered, read_cells
from ladder_eval.report.page.choices import Question, question, right_choices, scores
from ladder_eval.report.page.content import Answer, Document
from ladder_eval.report.words import figure
from ladder_eval.results.logged import Logged, LoggedSamples
from ladder_eval.results.metrics import LOWER_IS_BETTER, Term, over

__all__ = ["Reader", "abridged", "has_prompts", "one_line"]

_CHANGES: Final = {1: "gain", -1: "loss", 0: ""}
_PREVIEW: Final = 140  # characters

# What data sets call the part that tells a document from others, most telling first.
_TELLING: Final = (
    *("question", "question_stem", "query", "goal", "sentence", "instruction", "prompt", "page"),
)


class Reader:
    """Reads documents of one run."""

    def __init__(self, answered: Answered) -> None:
        """Read the answers, but no prompts yet.

        Raises:
            RecordError: If the samples can't be read.
        """
        self._answered = answered
        self._logged = {name: LoggedSamples(answered.run.folder, name) for name in answered.models}
        more = () if has_prompts(answered) else ("document",)
        self._cells = read_cells(answered.run, more)

    def documents(self, numbers: Sequence[int]) -> Iterator[Document]:
        """The documents with these numbers in `Answered.table`, in that order.

        Raises:
            RecordError: If a file of the run can't be read.
        """
        table = self._answered.table.iloc[list(numbers)]
        asked = self._lines(self._answered.models[0], table)
        written = [self._texts(name, table, asked) for name in self._answered.models]
        for place, row in enumerate(table.to_dict("records")):
            number = int(numbers[place])
            texts = [each[place] for each in written]
            yield self._document(number, row, asked[place], texts)

    def _lines(self, model: str, table: Any) -> list[Logged | None]:
        """What was logged of a model about each document."""
        found: list[Logged | None] = [None] * len(table)
        places = table.assign(part=_parts(table)).reset_index(drop=True)
        for part, rows in places.groupby("part", sort=False):
            wanted = zip(rows["doc_id"], rows["doc_hash"], strict=True)
            lines = self._logged[model].read(str(part), wanted)
            for place, line in zip(rows.index, lines, strict=True):
                found[place] = line
        return found

    def _texts(self, model: str, table: Any, asked: Sequence[Logged | None]) -> list[str]:
        """What a model wrote before any filter; "" where it chose, or where it isn't known."""
        found = [""] * len(table)
        places = [i for i, line in enumerate(asked) if line and _is_written(line)]
        if places:
            for place, line in zip(places, self._lines(model, table.iloc[places]), strict=True):
                found[place] = "\n\n".join(_attempts(line)) if line else ""
        return found

    def _document(
        self, number: int, row: dict[Any, Any], line: Logged | None, texts: Sequence[str]
    ) -> Document:
        rows = self._answered.rows[number]
        there = [i for i in range(len(rows)) if rows[i] >= 0]
        cells = dict(zip(there, self._cells.take([int(rows[i]) for i in there]), strict=True))
        fields = line.document if line else _fields(cells[there[0]].get("document"))
        asked = question(line.requests) if line else Question(prompt=_shown(fields))
        metric, target = str(row["metric"]), cells[there[0]]["target"]
        answers = [
            replace(
                _answer(asked, metric, cells[i], texts[i]),
                model=self._answered.models[i],
                worth=_worth(metric, float(cells[i]["value"])),
                role=self._role(i),
                change=_CHANGES[int(self._answered.changes[number, i])],
            )
            for i in there
        ]
        return Document(
            run_id=self._answered.run.result.run_id,
            task=str(row["task"]),
            subject=str(row["subject"]),
            doc_id=int(row["doc_id"]),
            doc_hash=row["doc_hash"],
            metric=metric,
            change=_change(answers),
            prompt=asked.prompt,
            target="" if metric in LOWER_IS_BETTER else _plain(target),  # it's the prompt again
            answers=tuple(answers),
            preview=one_line(_telling(fields) or asked.prompt),
            choices=asked.choices,
            right=right_choices(asked.choices, target, answers),
        )

    def _role(self, model: int) -> str:
        if not self._answered.compared:
            return ""
        return "candidate" if model else "baseline"


def has_prompts(answered: Answered) -> bool:
    """Whether what was asked is in the run's folder, as lm-eval logged it."""
    return LoggedSamples(answered.run.folder, answered.models[0]).folder.is_dir()


def abridged(document: Document, prompt: int, text: int) -> Document:
    """The document with its prompt and other texts cut to so many characters in the middle."""
    answers = tuple(
        replace(each, text=_cut(each.text, text), extracted=_cut(each.extracted, text))
        for each in document.answers
    )
    cut = replace(
        document,
        prompt=_cut(document.prompt, prompt),
        target=_cut(document.target, text),
        answers=answers,
        choices=tuple(_cut(choice, text) for choice in document.choices),
    )
    return replace(cut, is_abridged=cut != document)


def one_line(text: str, most: int = _PREVIEW) -> str:
    """A text's beginning in one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _cut(text: str, most: int) -> str:
    """A text without its middle: what is asked stands last, and what it is first."""
    if len(text) <= most:
        return text
    tail = most * 2 // 3
    left_out = len(text) - most
    return f"{text[: most - tail]} […{left_out:,} characters left out…] {text[-tail:]}"


def _parts(table: Any) -> list[str]:
    """lm-eval's task of each document: the subject where there are subjects."""
    return [
        str(subject) or str(task)
        for task, subject in zip(table["task"], table["subject"], strict=True)
    ]


def _is_written(line: Logged) -> bool:
    """Whether text was asked for, rather than probabilities."""
    return len(line.requests[0]) > 1 and isinstance(line.requests[0][1], dict)


def _attempts(line: Logged) -> Iterator[str]:
    for response in line.responses:
        yield from map(_plain, response if isinstance(response, list) else [response])


def _answer(asked: Question, metric: str, cells: dict[str, Any], text: str) -> Answer:
    given = json.loads(cells["answers"])
    value = float(cells["value"])
    if metric in LOWER_IS_BETTER:
        return Answer(model="", text=_perplexity(metric, cells), value=value)
    values = scores(metric, asked, given)
    if values:
        chosen = values.index(max(values))
        text = asked.choices[chosen] if asked.choices else f"choice {chosen + 1}"
        return Answer(model="", text=text, value=value, scores=values, chosen=chosen)
    extracted = _plain(given)
    if not text or text == extracted:
        return Answer(model="", text=extracted, value=value)
    return Answer(model="", text=text, value=value, extracted=extracted)


def _worth(metric: str, value: float) -> str:
    if metric in LOWER_IS_BETTER:
        return ""
    return {0.0: "wrong", 1.0: "right"}.get(value, f"{value:.2f}")


def _perplexity(metric: str, cells: dict[str, Any]) -> str:
    """A document's own perplexity, in words; where it has no words or bytes, that it hasn't."""
    value, weight = float(cells["value"]), float(cells["weight"])
    if not weight:
        return f"no {metric}: nothing to predict"
    own = over(metric, [Term(value, weight)])
    return f"{metric} {figure(own)}, over {weight:,.0f} {_UNITS.get(metric, 'units')}"


_UNITS: Final = {"word_perplexity": "words", "byte_perplexity": "bytes", "bits_per_byte": "bytes"}


def _change(answers: Sequence[Answer]) -> str:
    changes = {each.change for each in answers} - {""}
    return "both" if len(changes) > 1 else next(iter(changes), "")


def _fields(document: str | None) -> dict[str, Any]:
    fields = json.loads(document) if document else {}
    return fields if isinstance(fields, dict) else {"": fields}


def _shown(fields: dict[str, Any]) -> str:
    """A document's fields as text, where the prompt made of them isn't known."""
    return "\n".join(f"{name}: {_plain(value)}" for name, value in fields.items())


def _telling(fields: dict[str, Any]) -> str:
    named = (fields.get(name) for name in _TELLING)
    return next((text for text in named if isinstance(text, str) and text.strip()), "")


def _plain(value: Any) -> str:
    """A value of JSON as text for readers; what can't be encoded is replaced."""
    if isinstance(value, list) and len(value) == 1:
        return _plain(value[0])
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_plain(each)}" for name, each in value.items())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode(errors="replace").decode()
