"""Claims as blocks and sentences: tests of each task, the primary endpoint, control, and gate."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.comparisons import comparison_blocks
from ladder_eval.report.words import bounds, conditions_of, figure, points
from ladder_eval.results.claims import LEVEL, POWER, TaskClaim
from ladder_eval.results.compared import Compared, Control
from ladder_eval.results.endpoint import Endpoint
from ladder_eval.results.gate import SpeedAxis
from ladder_eval.results.looks import Looking
from ladder_eval.results.records import RunResult
from ladder_eval.results.statistics import Interval

__all__ = [
    "claim_blocks",
    "claim_lines",
    "condition_lines",
    "control_lines",
    "endpoint_lines",
    "speed_lines",
]


def claim_blocks(compared: Compared, result: RunResult) -> tuple[Block, ...]:
    """Differences and ratios as a run's report has them, and the tests of each task.

    Args:
        compared: The comparison.
        result: The candidate's run, which describes the tasks.
    """
    found = [each.comparison for each in compared.tasks]
    found += [compared.pooled] if compared.pooled else []
    shown = replace(result, baseline=compared.baseline, comparisons=tuple(found))
    return *comparison_blocks(shown), _tests(compared.tasks)


def claim_lines(compared: Compared) -> Iterator[str]:
    """The endpoint's verdict, the tasks that hold after correction, flips, control and notes."""
    yield from endpoint_lines(compared)
    decided = [each for each in compared.tasks if each.adjusted_p <= LEVEL]
    named = ", ".join(each.comparison.task for each in decided) or "no task"
    yield f"At 5 %, corrected for all tasks (Holm, {len(compared.tasks)}): {named} differs."
    yield f"Changed documents: {compared.changed}, listed in {compared.flips}."
    yield from control_lines(compared)
    methods = dict.fromkeys(each.comparison.method for each in compared.tasks)
    yield f"Intervals: {'; '.join(methods)}."
    yield from condition_lines(compared)


def condition_lines(compared: Compared) -> Iterator[str]:
    """How both models were run, and what else differs between them."""
    yield from map(conditions_of, compared.models)
    yield from compared.notes


def endpoint_lines(compared: Compared) -> Iterator[str]:
    """The primary endpoint: what it is of, its verdict, and what more documents could tell."""
    found, look = compared.endpoint, compared.look
    if found is None or look is None:
        yield "No primary endpoint: no task's metric is a fraction."
        return
    yield _accuracy(compared, found)
    yield (
        f"Over documents instead (micro): {points(found.micro)} points "
        f"{_two_sided(found.micro_interval, found.level)}."
    )
    yield _needed(found, look)
    yield _look(look)


def _accuracy(compared: Compared, found: Endpoint) -> str:
    """The verdict on the endpoint, with the interval that it follows from."""
    k = len(found.tasks)
    missing = f", without {', '.join(compared.missing)}" if compared.missing else ""
    return (
        f"{found.verdict}: mean of {k} {'task' if k == 1 else 'tasks'}{missing}: "
        f"{points(found.difference)} points {_two_sided(found.interval, found.level)}, "
        f"margin {points(-found.margin)}."
    )


def control_lines(compared: Compared) -> Iterator[str]:
    """The baseline against itself, if such a run was given."""
    if compared.control is not None:
        yield control_sentence(compared.baseline, compared.control)


def control_sentence(name: str, control: Control) -> str:
    """What changed though nothing should."""
    found = control.endpoint
    mean = (
        f", {points(found.difference)} {_two_sided(found.interval, found.level)}" if found else ""
    )
    return (
        f"A/A control, {name} against itself ({control.conditions}): "
        f"changed documents: {control.changed}{mean}."
    )


def speed_lines(axis: SpeedAxis) -> Iterator[str]:
    """The verdict on speed, its conditions, and the baseline against itself."""
    yield (
        f"{axis.verdict}: speed-up {axis.speedup:.3f} {_ratio(axis.interval, axis.level)} over "
        f"{axis.rounds} rounds, at least {axis.least:g} wanted."
    )
    if axis.control is not None:
        yield (
            f"Baseline against itself (A/A): {axis.control:.3f} "
            f"{_ratio(axis.control_interval, axis.level)}."
        )
    yield f"Timed: {_timed(axis)}."


def _tests(claims: Sequence[TaskClaim]) -> Block:
    return Block(
        title=f"tests, and the smallest true drop found with a power of {100 * POWER:g} %",
        columns=("task", "test", "p", "Holm", "s.e.", "clustered", "BCa", "smallest"),
        rows=tuple(_test_row(each) for each in claims),
        notes=(
            "s.e.: of the difference in points over documents; clustered: over the sources that "
            "documents share, such as subjects; BCa: a 95 % bootstrap interval.",
        ),
    )


def _test_row(claim: TaskClaim) -> tuple[str, ...]:
    ratio = claim.comparison.ratio is not None
    smallest = figure(claim.detectable) if ratio else points(-claim.detectable)
    return (
        claim.comparison.task,
        claim.p_value.test,
        _p(claim.p_value.value),
        _p(claim.adjusted_p),
        _stderr(claim.stderr),
        _stderr(claim.source_stderr),
        _bca(claim.bca, ratio),
        smallest,
    )


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _stderr(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.2f}"


def _bca(interval: Interval | None, ratio: bool) -> str:
    if interval is None:
        return NOTHING
    if ratio:
        return f"[{figure(interval.low)}, {figure(interval.high)}]"
    return bounds(interval.low, interval.high)


def _two_sided(interval: Interval, level: float) -> str:
    return f"{bounds(interval.low, interval.high)} (each end one-sided {100 * level:.3g} %)"


def _ratio(interval: Interval | None, level: float) -> str:
    if interval is None:
        return "(no interval: too few rounds, or no spread)"
    return f"[{interval.low:.3f}, {interval.high:.3f}] (each end one-sided {100 * level:.3g} %)"


def _needed(found: Endpoint, look: Looking) -> str:
    smallest = f"Smallest true drop found with a power of {100 * POWER:g} %:"
    text = f"{smallest} {points(-found.detectable)} points."
    if found.verdict != "INCONCLUSIVE":
        return text
    if found.needed is None:
        return (
            f"{text} Not decidable here: if there were no difference, all documents that these "
            "benchmarks have would still not show it within the margin."
        )
    how = "as the last look (--last)" if look.left else "as a claim of its own"
    return (
        f"{text} If there were no difference, --limit {found.needed} ({found.needed_documents} "
        f"documents in all) would show it within the margin with that power, {how}."
    )


def _look(look: Looking) -> str:
    left = f"{100 * look.left:.3g} % is left for going on"
    text = f"Look {look.number} at this claim, at {100 * look.level:.3g} % one-sided; {left}."
    if not look.margins:
        return text
    earlier = " and ".join(points(-each) for each in look.margins)
    return f"{text} It was also judged at the margin {earlier}; only one was chosen unseen."


def _timed(axis: SpeedAxis) -> str:
    said = axis.conditions
    work, link = said.get("workload", {}), said.get("link")
    over = "the virtual link" if link else said.get("backend", NOTHING)
    weights = f"{said.get('weights', NOTHING)}"
    return (
        f"{said.get('model', NOTHING)}, weights {weights}, tp_size {said.get('tp_size', NOTHING)} "
        f"over {over}, {said.get('dtype', NOTHING)} on {said.get('device', NOTHING)}, "
        f"batch_size {work.get('batch_size', NOTHING)}, prompt {work.get('prompt_len', NOTHING)}, "
        f"output {work.get('output_len', NOTHING)}"
    )
