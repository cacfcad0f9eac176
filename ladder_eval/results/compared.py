"""A candidate of one run against a baseline of any: claims, look, flips and control."""

from collections.abc import Sequence
from dataclasses import dataclass

from ladder_eval.errors import UsageError
from ladder_eval.results.averages import average_tasks
from ladder_eval.results.claims import LEVEL, TaskClaim, task_claims
from ladder_eval.results.endpoint import Endpoint, Size, endpoint, endpoint_tasks
from ladder_eval.results.flips import flips, write_flips
from ladder_eval.results.looks import (
    LOOKS_NAME,
    Look,
    Looking,
    digest,
    now,
    read_looks,
    record,
    spend,
)
from ladder_eval.results.pairing import Pair, compare, pair
from ladder_eval.results.records import POOLED, Comparison, ModelRecord, TaskRecord
from ladder_eval.results.sides import Side

__all__ = ["Compared", "Control", "compare_runs", "controlled", "run_otherwise"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """The baseline against itself (A/A): what changes though nothing should.

    Attributes:
        conditions: In which it was run, as far as they differ, such as "batch_size 1, not 8".
        tasks: Each task.
        endpoint: The endpoint, at the level of one look.
        changed: Documents whose value differs.
    """

    conditions: str
    tasks: tuple[TaskClaim, ...]
    endpoint: Endpoint | None
    changed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What may be said of a candidate.

    Attributes:
        candidate: Its name.
        baseline: The baseline's name.
        models: How the two were run, the candidate first.
        tasks: Each task.
        pooled: All right and wrong answers together, if there are any.
        endpoint: The primary endpoint; None where no task's metric is a fraction.
        look: What this look was given; None without an endpoint.
        missing: Tasks of the suite's average without answers to compare.
        changed: Documents whose value differs, of metrics that are fractions.
        flips: The file that lists them.
        control: The baseline against itself, if such a run was given.
        notes: What differs between the two beside the models.
    """

    candidate: str
    baseline: str
    models: tuple[ModelRecord, ModelRecord]
    tasks: tuple[TaskClaim, ...]
    pooled: Comparison | None
    endpoint: Endpoint | None
    look: Looking | None
    missing: tuple[str, ...]
    changed: int
    flips: str
    control: Control | None
    notes: tuple[str, ...]


def compare_runs(
    candidate: Side,
    baseline: Side,
    *,
    margin: float,
    last: bool = False,
    control: Side | None = None,
) -> Compared:
    """Compare two models' recorded answers to the same requests.

    The look is recorded beside the candidate's run, and the flips in it.

    Args:
        candidate: The candidate.
        baseline: The baseline, of the same run or another.
        margin: The drop that is tolerated, a fraction.
        last: Whether this is declared the last look at the claim.
        control: The baseline once more, run otherwise.

    Raises:
        PairingError: If the two were not asked the same.
        UsageError: If both are the same, the control isn't one, or an earlier look was the last.
        RecordError: If look or flips can't be written.
    """
    _require_two(candidate, baseline)
    pairs, names = pair(candidate.samples, baseline.samples), average_tasks(candidate.result)
    checked = controlled(control, baseline, margin) if control else None
    found, look = _look(candidate, baseline, pairs, names, margin, last=last)
    everything, changed = compare(candidate.name, baseline.name, pairs), flips(pairs)
    return Compared(
        candidate=candidate.name,
        baseline=baseline.name,
        models=(candidate.model, baseline.model),
        tasks=task_claims(everything, pairs),
        pooled=next((each for each in everything if each.task == POOLED), None),
        endpoint=found,
        look=look,
        missing=tuple(each for each in names if each not in (found.tasks if found else ())),
        changed=len(changed),
        flips=str(write_flips(candidate.folder, candidate.name, baseline.name, changed)),
        control=checked,
        notes=_notes(candidate, baseline),
    )


def _require_two(candidate: Side, baseline: Side) -> None:
    if (candidate.folder.resolve(), candidate.name) == (baseline.folder.resolve(), baseline.name):
        raise UsageError(f"{candidate.name} can't be compared with itself; give RUN:MODEL.")


def _look(
    candidate: Side,
    baseline: Side,
    pairs: Sequence[Pair],
    names: Sequence[str],
    margin: float,
    *,
    last: bool,
) -> tuple[Endpoint | None, Looking | None]:
    """The endpoint at the level that earlier looks left, and the look, which is recorded."""
    tasks = endpoint_tasks(pairs, names)
    file = candidate.folder.resolve().parent / LOOKS_NAME
    earlier, claim = read_looks(file), _claim(candidate, baseline, tasks)
    asked = sorted(
        f"{s.task} {s.doc_hash} {s.prompt_hash}" for s in baseline.samples if s.task in tasks
    )
    look = spend(earlier, claim, digest(asked), margin, last=last)
    found = endpoint(
        pairs,
        tasks,
        _sizes(candidate.result.tasks),
        margin=margin,
        level=look.level,
        next_level=look.left or LEVEL,
    )
    if found is None:
        return None, None
    made = Look(
        claim=claim,
        documents_sha256=digest(asked),
        documents=len(asked),
        level=look.level,
        margin=margin,
        verdict=found.verdict,
        looked_at=now(),
    )
    record(file, earlier, made)
    return found, look


def _claim(candidate: Side, baseline: Side, tasks: Sequence[str]) -> str:
    """Hash of what is claimed: of which models, in which dtype, on which tasks and metrics."""
    models = [f"{each.fingerprint} {each.dtype}" for each in (candidate.model, baseline.model)]
    metrics = {sample.task: sample.metric for sample in baseline.samples}
    return digest([*models, *(f"{name} {metrics[name]}" for name in sorted(tasks))])


def _sizes(tasks: Sequence[TaskRecord]) -> dict[str, Size]:
    return {
        task.task: Size(
            documents=task.documents,
            available=max(task.official_documents or 0, task.documents_in_split),
        )
        for task in tasks
    }


def controlled(control: Side, baseline: Side, margin: float = 0.01) -> Control:
    """A model against itself, run otherwise.

    Args:
        control: The model once more.
        baseline: The model.
        margin: As of `compare_runs`.

    Raises:
        UsageError: If it isn't the same model in the same dtype, or was run alike.
        PairingError: If the two were not asked the same.
    """
    theirs, own = baseline.model, control.model
    if own.fingerprint != theirs.fingerprint or own.dtype != theirs.dtype:
        raise UsageError(
            f"{own.name} ({own.dtype}) of {control.folder} is no control of {theirs.name} "
            f"({theirs.dtype}): give the same model and dtype, at another batch size or tp_size."
        )
    conditions = run_otherwise(own, theirs)
    if not conditions:
        raise UsageError(
            f"{control.folder} ran {own.name} as {baseline.folder} did, so that it controls "
            "nothing; run it at another --batch-size or --tp, into another --output-dir."
        )
    pairs = pair(control.samples, baseline.samples)
    names, sizes = average_tasks(baseline.result), _sizes(baseline.result.tasks)
    return Control(
        conditions=conditions,
        tasks=task_claims(compare(own.name, theirs.name, pairs), pairs),
        endpoint=endpoint(pairs, names, sizes, margin=margin),
        changed=len(flips(pairs)),
    )


def run_otherwise(model: ModelRecord, other: ModelRecord) -> str:
    """How a model was run, as far as another wasn't."""
    names = ("batch_size", "tp_size", "tp_backend", "device")
    found = [(name, str(getattr(model, name)), str(getattr(other, name))) for name in names]
    if model.batch_tokens and other.batch_tokens:  # of older results it isn't known
        own, theirs = (" and ".join(map(str, each.batch_tokens)) for each in (model, other))
        found.append(("batch_tokens", own, theirs))
    return ", ".join(f"{name} {own}, not {theirs}" for name, own, theirs in found if own != theirs)


def _notes(candidate: Side, baseline: Side) -> tuple[str, ...]:
    """What differs between the two beside their weights and residuals."""
    found = []
    own, theirs = candidate.model, baseline.model
    if own.dtype != theirs.dtype:
        found.append(f"{own.name} was run in {own.dtype}, {theirs.name} in {theirs.dtype}.")
    if conditions := run_otherwise(own, theirs):
        found.append(f"{own.name} was run at {conditions} as {theirs.name}.")
    versions, others = candidate.result.provenance.versions, baseline.result.provenance.versions
    if changed := [name for name in versions if versions[name] != others.get(name)]:
        found.append(f"The runs had different versions of {', '.join(changed)}.")
    return tuple(found)
