"""`bench throughput` as blocks: how fast, how near to the limit, and whether the answers agree."""

import statistics
from collections.abc import Iterator

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.speed import digits, with_interval
from ladder_eval.report.tables import block_markdown
from ladder_eval.results.throughput import (
    CHOICES_MOST,
    NEAR_TIE,
    ROLLING_MOST,
    disagreements,
    same_metrics,
)
from ladder_eval.results.throughput_records import (
    OURS,
    STOCK,
    ThroughputResult,
    ThroughputTask,
)

__all__ = ["throughput_blocks", "throughput_lines", "throughput_markdown"]


def throughput_blocks(result: ThroughputResult) -> list[Block]:
    """Rates of both engines, the limit, and the answers."""
    return [_ratios(result), _rates(result), _limits(result), _answers(result)]


def throughput_lines(result: ThroughputResult) -> Iterator[str]:
    """The conditions, without which the numbers mean nothing."""
    made = result.provenance
    limit = "all documents" if result.limit is None else f"limit {result.limit}"
    parts = "" if result.parts is None else f", the first {result.parts} parts of each task"
    asked = f"as {result.suite} asks" if result.suite else "as the task's own file asks"
    yield (
        f"{result.model} ({result.weights}), {result.dtype} on {result.device}, "
        f"{result.threads} threads for both engines."
    )
    yield (
        f"Requests {asked}, as plain text: {limit}{parts}, seed {result.seed}, {result.fewshot} "
        "examples."
    )
    yield (
        f"{made.hardware.get('processor', NOTHING)}, {made.hardware.get('cores', NOTHING)} cores: "
        f"{made.seconds:.0f} s wall time; torch {made.versions['torch']}, transformers "
        f"{made.versions['transformers']}, lm-eval {made.versions['lm-eval']}; commit "
        f"{made.commit or NOTHING}."
    )
    for task in result.tasks:
        yield from (f"Warning: {task.task}: {text}." for text in disagreements(task.agreement))


def throughput_markdown(result: ThroughputResult) -> str:
    """The result as Markdown."""
    lines = "\n".join(f"* {line}" for line in throughput_lines(result))
    blocks = map(block_markdown, throughput_blocks(result))
    return "\n\n".join([f"# {result.run_id}", *blocks, "## Conditions", lines]) + "\n"


def _ratios(result: ThroughputResult) -> Block:
    rounds = len(result.tasks[0].rounds)
    return Block(
        title=f"whole-task time of {STOCK} by that of {OURS}, measured in interleaved rounds",
        columns=("", "times as fast", f"{OURS} s", f"{STOCK} s", f"{STOCK} batch"),
        rows=tuple(
            (
                _name(task),
                with_interval(task.summary.times_as_fast),
                with_interval(task.summary.seconds),
                with_interval(task.summary.stock_seconds),
                str(task.stock_batch_size),
            )
            for task in result.tasks
        ),
        notes=(
            f"Medians of {rounds} rounds"
            f"{_coverage(result.tasks[0])}; ratios are taken within a round.",
            *(f"{task.task}: {_tries(task)}." for task in result.tasks),
        ),
    )


def _coverage(task: ThroughputTask) -> str:
    """How often an interval of so many rounds holds the true median; few rounds have none."""
    ratio = task.summary.times_as_fast
    if ratio.low == ratio.high:
        return ""
    return (
        f" with the interval between two of them that holds the median with {ratio.confidence:.0%}"
    )


def _tries(task: ThroughputTask) -> str:
    tried = (
        f"{each.batch_size} in {digits(each.seconds)} s"
        if each.seconds is not None
        else f"{each.batch_size} not, for want of memory for its logits"
        for each in task.tries
    )
    which = f"{task.tries[0].documents} of {task.counts.documents} documents"
    return f"batch sizes of {STOCK} tried on {which}: {', '.join(tried)}"


def _rates(result: ThroughputResult) -> Block:
    columns = ("", "requests/s", "tokens/s", "tokens read", "unique tokens", "tokens written")
    return Block(
        title="rates, and tokens that were read",
        columns=columns,
        rows=tuple(
            row
            for task in result.tasks
            for row in (
                _rate(task, OURS, task.summary.seconds.value),
                _rate(task, STOCK, task.summary.stock_seconds.value),
            )
        ),
        notes=(
            "Tokens/s are all tokens of all requests, by the median time. Tokens read are what an "
            f"engine computed, of {STOCK} with padding; unique tokens what has to be read once.",
        ),
    )


def _rate(task: ThroughputTask, engine: str, seconds: float) -> tuple[str, ...]:
    counts = task.counts
    return (
        f"{task.task} {engine}",
        digits(counts.requests / seconds),
        digits(counts.tokens / seconds),
        f"{task.rounds[-1].trial(engine).read_tokens:,}",
        f"{counts.unique_tokens:,}",
        f"{counts.written_tokens:,}" if counts.written_tokens else NOTHING,
    )


def _limits(result: ThroughputResult) -> Block:
    return Block(
        title=f"distance of {OURS} to the machine's limit",
        columns=("", "of the limit %", "GFLOP needed", "GFLOP/s", "products GFLOP/s", "copy GB/s"),
        rows=tuple(_limit(task) for task in result.tasks),
        notes=(
            "GFLOP needed are linear layers and causal attention of the unique tokens, and the "
            "logits that are asked for. The limit is the time that they take at the pace of the "
            "model's matrix products alone, in the same round; of writing texts at least the time "
            "in which a plain copy moves the weights, keys and values that steps read.",
        ),
    )


def _limit(task: ThroughputTask) -> tuple[str, ...]:
    products = statistics.median(each.products_flops_per_second for each in task.rounds)
    copied = statistics.median(each.copied_bytes_per_second for each in task.rounds)
    return (
        _name(task),
        with_interval(task.summary.of_limit, 100),
        digits(task.work.flops / 1e9),
        with_interval(task.summary.flops_per_second, 1e-9),
        digits(products / 1e9),
        digits(copied / 1e9),
    )


def _answers(result: ThroughputResult) -> Block:
    notes = [note for task in result.tasks for note in _differences(task)]
    return Block(
        title="answers of both engines",
        columns=("", "metrics", "choices", "whole texts", "written texts"),
        rows=tuple(_answer(task) for task in result.tasks),
        notes=(
            f"Largest difference of a choice's log-likelihood (allowed {CHOICES_MOST:g}), of a "
            f"whole text's relative to it (allowed {ROLLING_MOST:g}), and written texts that are "
            f"identical; where they aren't, logits nearer than {NEAR_TIE:g} are a near-tie.",
            *notes,
        ),
    )


def _answer(task: ThroughputTask) -> tuple[str, ...]:
    found = task.agreement
    same = found.texts - len(found.differences)
    return (
        _name(task),
        "the same" if same_metrics(found) else "differ",
        NOTHING if found.choices is None else f"{found.choices:.1e}",
        NOTHING if found.rolling is None else f"{found.rolling:.1e}",
        f"{same} of {found.texts}" if found.texts else NOTHING,
    )


def _differences(task: ThroughputTask) -> Iterator[str]:
    """The metrics, and each text that differs."""
    found = task.agreement
    metrics = (f"{each.metric} {each.ours:.6g} and {each.theirs:.6g}" for each in found.metrics)
    yield f"{task.task}, {OURS} and {STOCK}: {'; '.join(metrics)}."
    if found.greedy:
        yield f"{task.task}: {found.greedy} choices are the most likely text to only one of both."
    for each in found.differences:
        yield (
            f"{task.task}, request {each.request}: the texts part at token {each.position}, where "
            f"the best logit is {each.gap:.1e} above the second: {each.ours!r}, {each.theirs!r}."
        )


def _name(task: ThroughputTask) -> str:
    return f"{task.task} {task.num_fewshot}-shot, {task.counts.documents} documents"
