"""The two ways to a judgement: asking a judge, or reading what one has answered."""

from collections.abc import Callable, Sequence
from typing import Final

from ladder_eval.harness.judging.annotations import (
    Annotation,
    Annotations,
    read_annotations,
    write_annotations,
)
from ladder_eval.harness.judging.asking import Question, VerdictLogs, ask_all, questions
from ladder_eval.harness.judging.client import JudgeClient
from ladder_eval.harness.judging.costs import costs_of
from ladder_eval.harness.judging.judgement import (
    Judged,
    Judgement,
    Provenance,
    judgement_json,
    rates_of,
)
from ladder_eval.harness.judging.options import Judging, Scoring
from ladder_eval.harness.judging.outputs import Outputs, pair_up, read_outputs
from ladder_eval.harness.judging.verdicts import preference
from ladder_eval.results.files import atomic_write
from ladder_eval.results.requests import RequestLog

__all__ = ["ANNOTATIONS_NAME", "judge", "score"]

ANNOTATIONS_NAME: Final = "annotations.json"

QUIRK: Final = (
    "difficulties by row number of the file, as the leaderboard takes them: where rows are "
    "missing, those of other instructions"
)


def judge(judging: Judging, bar: Callable[[int], Callable[[], None]]) -> Judgement:
    """Ask what isn't answered yet, and write annotations.json and judgement.json.

    Args:
        judging: What is judged.
        bar: Makes a bar of so many questions, and gives what advances it by one.

    Raises:
        DataError: If files can't be read, or don't have the same instructions.
        JudgeError: If the judge refuses all questions.
        RecordError: If the folder can't be written.
    """
    outputs, reference = read_outputs(judging.outputs), read_outputs(judging.reference)
    pairs = pair_up(outputs, reference)
    judging.judge.lengths.files(
        len(pairs)
    )  # files that don't fit are refused before anything is paid
    asked = questions(pairs, judging.judge.prompt, judging.judge.server, judging.judge.seed)
    with VerdictLogs.open(judging.folder) as logs, JudgeClient(judging.judge.server) as client:
        missing = sum(question.key not in logs.answers for question in asked)
        reasons = ask_all(asked, client, logs, judging.judge.concurrency, bar(missing))
        judgement, annotations = _judgement(judging, (outputs, reference), asked, logs, reasons)
        write_annotations(judging.folder / ANNOTATIONS_NAME, annotations)
        atomic_write(judging.folder / "judgement.json", judgement_json(judgement))
    return judgement


def score(scoring: Scoring) -> Judgement:
    """Score verdicts from a file.

    Raises:
        DataError: If files can't be read, or don't have the same instructions.
    """
    reference = read_outputs(scoring.reference) if scoring.reference else None
    annotations = read_annotations(scoring.annotations, reference)
    lengths = scoring.lengths
    places = _places(annotations, reference, by_row_number=lengths.by_row_number)
    files = lengths.files(annotations.expected)
    return Judgement(
        model=annotations.model,
        reference=annotations.reference,
        judged=_judged(annotations, {}),
        rates=rates_of(annotations, files, places, lengths.why_not),
        provenance=Provenance(judge=annotations.annotator),
        notes=(QUIRK,) if lengths.by_row_number else (),
    )


def _judgement(
    judging: Judging,
    both: tuple[Outputs, Outputs],
    asked: Sequence[Question],
    logs: VerdictLogs,
    reasons: dict[str, str],
) -> tuple[Judgement, Annotations]:
    outputs, reference = both
    annotations = Annotations(
        model=outputs.generator,
        reference=reference.generator,
        annotator=judging.judge.server.model,
        rows=tuple(_annotation(question, logs.answers) for question in asked),
        expected=len(asked),
    )
    failures = {q.pair.instruction: reasons[q.key] for q in asked if q.key in reasons}
    files = judging.judge.lengths.files(len(asked))
    judgement = Judgement(
        model=outputs.generator,
        reference=reference.generator,
        judged=_judged(annotations, failures),
        rates=rates_of(annotations, files, range(len(asked)), judging.judge.lengths.why_not),
        provenance=_provenance(judging, asked, logs),
    )
    return judgement, annotations


def _provenance(judging: Judging, asked: Sequence[Question], logs: VerdictLogs) -> Provenance:
    return Provenance(
        judge=judging.judge.server.model,
        url=judging.judge.server.url,
        prompt=judging.judge.prompt.name,
        prompt_sha256=judging.judge.prompt.sha256,
        seed=judging.judge.seed,
        costs=costs_of([question.key for question in asked], logs, judging.judge.prices),
    )


def _places(
    annotations: Annotations, reference: Outputs | None, *, by_row_number: bool
) -> Sequence[int] | None:
    """Where each row's instruction stands in the reference."""
    if reference is None:
        return None
    if by_row_number:
        return range(len(annotations.rows))
    place = {instruction: i for i, instruction in enumerate(reference.texts)}
    return [place[row.instruction] for row in annotations.rows]


def _judged(annotations: Annotations, failures: dict[str, str]) -> Judged:
    there = sum(row.preference is not None for row in annotations.rows)
    return Judged(documents=there, expected=annotations.expected, failures=failures)


def _annotation(question: Question, answers: RequestLog) -> Annotation:
    response = answers.get(question.key)
    known = None if response is None else preference(response, model_first=question.model_first)
    return Annotation(
        instruction=question.pair.instruction,
        reference=question.pair.reference,
        output=question.pair.output,
        preference=known,
    )
