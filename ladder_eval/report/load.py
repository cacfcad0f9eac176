"""Times under load and with a run's requests, and their conditions, as blocks and sentences."""

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.speed import (
    arm_words,
    digits,
    milliseconds,
    over_words,
    subject_words,
    timing_words,
    with_interval,
)
from ladder_eval.results.load_records import (
    FEWEST_FOR_P99,
    Latency,
    Lengths,
    LoadRecord,
    LoadRow,
    Percentile,
    ReplayRecord,
    ReplayRow,
)
from ladder_eval.results.speed_records import RANDOM

__all__ = [
    "brief_load_block",
    "load_block",
    "load_conditions",
    "replay_block",
    "replay_conditions",
]


def brief_load_block(record: LoadRecord) -> Block:
    """Percentiles, the speed-up of the middle request and how busy the ranks were."""
    ttft, tpot = (_headings(name, _requests(record, name)) for name in ("ttft", "tpot"))
    return Block(
        title=_load_title(record),
        columns=("", *ttft, *tpot, "ttft p50\nspeedup", "busy %"),
        rows=tuple(
            (
                arm_words(row),
                *_pair(row.ttft),
                *_pair(row.tpot),
                _ratio(row.ttft.speedup_p50),
                _busy(row),
            )
            for row in record.rows
        ),
        notes=(*_verdicts(record), *_few(record), *load_conditions(record)),
    )


def load_block(record: LoadRecord) -> Block:
    """All that was estimated, with intervals."""
    latencies = [
        heading
        for name in ("ttft", "tpot")
        for shown in [_headings(name, _requests(record, name))]
        for heading in (*shown, f"{name} p50 speedup", f"{name} p99 speedup")
    ]
    return Block(
        title=_load_title(record),
        columns=(
            "",
            "residual",
            *(heading.replace("\n", " ") for heading in latencies),
            "busy %",
            "served/s",
            "full batches/s × batch_size",
            "mean batch",
        ),
        rows=tuple(_full_row(row) for row in record.rows),
        notes=(*_verdicts(record), *_few(record)),
    )


def load_conditions(record: LoadRecord) -> tuple[str, ...]:
    """What the times hold for, a sentence each."""
    return (
        f"Poisson arrivals, seed {record.seed}, the same for every residual; {record.policy}; "
        f"prompts of {_tokens(record.prompt_lens)} and outputs of {_tokens(record.output_lens)}, "
        f"{record.lengths}.",
        f"ttft counts from the arrival, with the queue; {record.method}.",
        timing_words(record.conditions),
    )


def replay_block(record: ReplayRecord) -> Block:
    """Seconds, tokens a second and speed-up, with intervals over rounds."""
    return Block(
        title=f"requests of run {record.run_id}{subject_words(record.conditions)}",
        columns=("", "seconds", "tokens/s", "speedup"),
        rows=tuple(_replay_row(row) for row in record.rows),
        notes=replay_conditions(record),
    )


def replay_conditions(record: ReplayRecord) -> tuple[str, ...]:
    """What the times hold for, a sentence each."""
    part = "" if record.requests == record.all_requests else f" of {record.all_requests:,}"
    drawn = f" (whole batches, seed {record.seed})" if part else ""
    written = record.requests - record.scored
    made = record.conditions
    tokens = "made-up tokens and random weights" if made.weights == RANDOM else "made-up tokens"
    return (
        f"{record.requests:,}{part} requests of {record.requests_of} in run {record.run_id}, suite "
        f"{record.suite}{drawn}: {record.scored:,} scored, {written:,} written, in the run's "
        f"{record.batches:,} batches; {record.read_tokens:,} tokens read and "
        f"{record.written_tokens:,} written by each arm. Lengths are the run's, with {tokens} of "
        f"the shape {made.model}.",
        timing_words(made),
    )


def _load_title(record: LoadRecord) -> str:
    return (
        f"load{subject_words(record.conditions)}: {record.rate:g} requests a second, "
        f"{record.requests} requests, batch_size up to {record.batch_size}"
    )


def _headings(name: str, requests: int) -> tuple[str, str]:
    mark = "*" if requests < FEWEST_FOR_P99 else ""
    return f"{name} p50\nms, n {requests}", f"{name} p99{mark}\nms, n {requests}"


def _requests(record: LoadRecord, name: str) -> int:
    """How many requests have this time; the same for every arm."""
    latency: Latency | None = getattr(record.rows[0], name)
    return latency.requests if latency else 0


def _verdicts(record: LoadRecord) -> tuple[str, ...]:
    """A sentence a candidate on its median request, and what chance alone does."""
    over = over_words(record.conditions)
    baseline = next(row.arm for row in record.rows if row.role == "baseline")
    control = next(row.ttft.speedup_p50 for row in record.rows if row.role == "control")
    sentences = [
        f"{over}{row.arm} has its median first token {_sure(ratio)} times as soon as {baseline}"
        f"{'' if _decided(ratio, control) else ', which cannot be told from what chance does'}."
        for row in record.rows
        for ratio in [row.ttft.speedup_p50]
        if row.role == "candidate" and ratio is not None
    ]
    if control is not None:
        sentences.append(f"{baseline} against itself (A/A): {_sure(control)} times.")
    return tuple(sentences)


def _sure(ratio: Percentile) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _decided(ratio: Percentile, control: Percentile | None) -> bool:
    """Whether an interval lies on one side of 1 and of the control's interval."""
    if control is None or control.low is None or control.high is None:
        return False
    if ratio.low is None or ratio.high is None:
        return False
    return ratio.low > max(1.0, control.high) or ratio.high < min(1.0, control.low)


def _few(record: LoadRecord) -> tuple[str, ...]:
    fewest = min(filter(None, (_requests(record, name) for name in ("ttft", "tpot"))))
    if fewest >= FEWEST_FOR_P99:
        return ()
    return (
        f"* Of {fewest} requests, p99 is what the slowest one met; give --requests "
        f"{FEWEST_FOR_P99} or more.",
    )


def _pair(latency: Latency | None) -> tuple[str, str]:
    if latency is None:
        return NOTHING, NOTHING
    return milliseconds(latency.p50), milliseconds(latency.p99)


def _ratio(ratio: Percentile | None) -> str:
    return NOTHING if ratio is None else f"{ratio.value:.2f}"


def _busy(row: LoadRow) -> str:
    return f"{100 * row.utilisation:.0f}"


def _full_row(row: LoadRow) -> tuple[str, ...]:
    return (
        arm_words(row),
        row.residual,
        *_full_latency(row.ttft),
        *_full_latency(row.tpot),
        _busy(row),
        digits(row.requests_per_s),
        digits(row.capacity) if row.capacity else NOTHING,
        f"{row.mean_batch:.2f}",
    )


def _full_latency(latency: Latency | None) -> tuple[str, ...]:
    if latency is None:
        return (NOTHING,) * 4
    return (
        _enclosed(latency.p50, 1e3),
        _enclosed(latency.p99, 1e3),
        _enclosed(latency.speedup_p50),
        _enclosed(latency.speedup_p99),
    )


def _enclosed(percentile: Percentile | None, factor: float = 1.0) -> str:
    """A percentile and its interval, such as "45.6 [44.1, 47.0]"."""
    if percentile is None:
        return NOTHING
    value = digits(factor * percentile.value)
    if percentile.low is None or percentile.high is None:
        return value
    return f"{value} [{digits(factor * percentile.low)}, {digits(factor * percentile.high)}]"


def _replay_row(row: ReplayRow) -> tuple[str, ...]:
    return (
        arm_words(row),
        with_interval(row.seconds),
        with_interval(row.tokens_per_s),
        with_interval(row.speedup),
    )


def _tokens(lengths: Lengths) -> str:
    if lengths.shortest == lengths.longest:
        return f"{lengths.longest:,} tokens"
    return f"{lengths.shortest:,} to {lengths.longest:,} tokens (mean {lengths.mean:.0f})"
