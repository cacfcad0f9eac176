"""Times, ratios and their conditions as blocks and sentences; published rows beside them."""

from collections.abc import Sequence

from ladder_eval.report.block import NOTHING, Block
from ladder_eval.report.words import memory, printed
from ladder_eval.results.load_records import Conditions, LoadRow, Percentile, ReplayRow
from ladder_eval.results.records import PublishedRow
from ladder_eval.results.speed_records import (
    EMULATED,
    RANDOM,
    EmulationRecord,
    Estimate,
    LinkRecord,
    PhaseRecord,
    SpeedRecord,
    SpeedRow,
)
from ladder_eval.results.tradeoff import phase_of

__all__ = [
    "arm_words",
    "brief_speed_block",
    "candidate_sentences",
    "control_speedup",
    "digits",
    "is_decided",
    "link_words",
    "milliseconds",
    "over_words",
    "published_block",
    "speed_block",
    "speed_conditions",
    "speed_title",
    "subject_words",
    "timing_words",
    "with_interval",
]

# Two values have a chance of one half to enclose a median: no interval worth the name.
_LEAST_ROUNDS = 3


def brief_speed_block(record: SpeedRecord) -> Block:
    """Times and the speed-up of the main phase, for the terminal, with its verdicts."""
    decodes = record.workload.output_len > 1
    phase = "decode" if decodes else "prefill"
    return Block(
        title=speed_title(record),
        # Folded by hand: with a name of 30 characters, 80 columns have just room for them.
        columns=("", "ttft ms", "tpot ms", f"{phase}\nspeedup", "interval", "hidden/\nsaved %"),
        rows=tuple(
            (
                arm_words(row),
                milliseconds(row.prefill.seconds),
                milliseconds(row.decode.seconds) if row.decode else NOTHING,
                _value(phase_of(row).speedup),
                _interval(phase_of(row).speedup),
                _share(phase_of(row).comm),
            )
            for row in record.rows
        ),
        notes=(*_verdicts(record), *_brief_conditions(record)),
    )


def speed_block(record: SpeedRecord) -> Block:
    """All that was estimated."""
    return Block(
        title=speed_title(record),
        columns=(
            "",
            "residual",
            "ttft ms",
            "tpot ms",
            "itl ms",
            "e2e latency ms",
            "tokens/s",
            "prefill speedup",
            "decode speedup",
            "e2e speedup",
            "prefill hidden/saved %",
            "decode hidden/saved %",
            "decode bound %",
            "decode efficiency",
        ),
        rows=tuple(_full_row(row) for row in record.rows),
        notes=_verdicts(record),
    )


def speed_conditions(record: SpeedRecord) -> tuple[str, ...]:
    """What the times hold for, a sentence each."""
    heads, kv_heads = (
        ":".join(map(str, n)) for n in (record.heads_per_rank, record.kv_heads_per_rank)
    )
    blocks = ", ".join(
        f"rank {rank}: {1e3 * attention:.2f} + {1e3 * mlp:.2f} ms"
        for rank, (attention, mlp) in enumerate(
            zip(record.attention_seconds, record.mlp_seconds, strict=True),
            start=record.emulation.rank if record.emulation else 0,
        )
    )
    timed = f"of rank {record.emulation.rank}" if record.emulation else "by rank"
    return (
        *_brief_conditions(record),
        f"Query heads {heads}, key-value heads {kv_heads}; weights "
        f"{memory(record.weight_bytes_per_rank)}, peak memory {memory(record.peak_memory_bytes)} "
        f"{timed}, all arms together.",
        *([f"Attention and MLP without communication: {blocks}."] if blocks else []),
        f"The driver, with the making of prompt and cache, adds {100 * record.driver_share:.1f} % "
        "to a generation.",
    )


def published_block(rows: Sequence[PublishedRow]) -> Block:
    """What a paper prints for the models of a run, in its own units; not measured here."""
    metrics = list(dict.fromkeys(metric for row in rows for metric in row.metrics))
    trained = [f"{row.model} is the paper's {row.row}; training: {row.training}." for row in rows]
    sources = "; ".join(dict.fromkeys(row.source for row in rows))
    return Block(
        title="published accuracy (not measured here): percent, and perplexity",
        columns=("", *(row.model for row in rows)),
        rows=tuple(
            (metric, *(printed(row.metrics.get(metric)) for row in rows)) for metric in metrics
        ),
        notes=(*trained, f"Published in {sources}."),
    )


def milliseconds(estimate: Estimate | Percentile) -> str:
    """A time in ms with three digits or all before the point."""
    value = 1e3 * estimate.value
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def speed_title(record: SpeedRecord) -> str:
    """What was timed, with the conditions that no figure may stand without."""
    work = record.workload
    kind = "emulated speed" if record.kind == EMULATED else "speed"
    return (
        f"{kind}{subject_words(record)}: batch_size {work.batch_size}, prompt {work.prompt_len}, "
        f"output {work.output_len}"
    )


def subject_words(record: SpeedRecord | Conditions) -> str:
    """What no title may leave out: random weights, missing layers, ranks and link."""
    weights = ", random weights" if record.weights == RANDOM else ""
    part = f", {part_words(record)}" if part_words(record) else ""
    ranks = f"tp_size {record.tp_size}"
    if record.tp_size > 1:
        ranks += f" over {link_words(record.link)}"
    return f"{weights}{part}, {ranks}"


def link_words(link: LinkRecord) -> str:
    """A link in a few words, such as "the virtual link (serial, 0.5 × block time, 100 GB/s)"."""
    if link.mode is None or link.latency is None or link.bandwidth is None:
        return link.name
    latency = f"{digits(1e6 * link.latency)} µs"
    if link.latency_ratio is not None:
        latency = f"{link.latency_ratio:g} × block time"
    return f"the {link.name} ({link.mode}, {latency}, {link.bandwidth / 1e9:g} GB/s)"


def arm_words(row: SpeedRow | LoadRow | ReplayRow) -> str:
    """An arm's name, that of a bound with what it is."""
    return "no-comm (a bound)" if row.role == "bound" else row.arm


def _full_row(row: SpeedRow) -> tuple[str, ...]:
    ttft, prefill_speedup, prefill_comm, _, _ = _cells(row.prefill)
    tpot, decode_speedup, decode_comm, bound, efficiency = _cells(row.decode)
    e2e_latency, e2e_speedup, *_ = _cells(row.total)
    itl, tokens = with_interval(row.itl, 1e3), with_interval(row.tokens_per_s)
    times = (ttft, tpot, itl, e2e_latency, tokens)
    ratios = (prefill_speedup, decode_speedup, e2e_speedup)
    shares = (prefill_comm, decode_comm, bound, efficiency)
    return (arm_words(row), row.residual, *times, *ratios, *shares)


def _cells(phase: PhaseRecord | None) -> tuple[str, str, str, str, str]:
    """Milliseconds, speed-up, percent hidden or saved, percent possible, and their ratio."""
    if phase is None:
        return NOTHING, NOTHING, NOTHING, NOTHING, NOTHING
    return (
        with_interval(phase.seconds, 1e3),
        with_interval(phase.speedup),
        with_interval(phase.comm, 100),
        with_interval(phase.bound, 100),
        with_interval(phase.efficiency),
    )


def with_interval(estimate: Estimate | None, factor: float = 1.0) -> str:
    """A median and its interval, such as "45.6 [44.1, 47.0]"; of one or two rounds without."""
    if estimate is None:
        return NOTHING
    value, low, high = (digits(factor * x) for x in (estimate.value, estimate.low, estimate.high))
    return value if estimate.rounds < _LEAST_ROUNDS else f"{value} [{low}, {high}]"


def digits(value: float) -> str:
    """A number with three digits, or all before the point."""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"
    return text.rstrip(".").replace("-", "−")


def _value(estimate: Estimate | None) -> str:
    return NOTHING if estimate is None else f"{estimate.value:.2f}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.rounds < _LEAST_ROUNDS:
        return NOTHING
    return f"[{estimate.low:.2f}, {estimate.high:.2f}]"


def _share(estimate: Estimate | None) -> str:
    return NOTHING if estimate is None else f"{round(100 * estimate.value)}".replace("-", "−")


def candidate_sentences(record: SpeedRecord) -> dict[str, str]:
    """What may be said of each candidate's speed, by the arm's name, with what it is said of."""
    baseline = next(row for row in record.rows if row.role == "baseline")
    control, over = control_speedup(record), over_words(record)
    return {
        row.arm: f"{over}{_verdict(row, baseline.arm, control)}"
        for row in record.rows
        if row.role == "candidate"
    }


def control_speedup(record: SpeedRecord) -> Estimate | None:
    """The baseline against itself (A/A), in the main phase: what chance alone does."""
    return phase_of(next(row for row in record.rows if row.role == "control")).speedup


def is_decided(speedup: Estimate, control: Estimate) -> bool:
    """Whether a speed-up's interval lies on one side of 1 and of the control's interval."""
    if speedup.rounds < _LEAST_ROUNDS:
        return False
    return speedup.low > max(1.0, control.high) or speedup.high < min(1.0, control.low)


def _verdicts(record: SpeedRecord) -> tuple[str, ...]:
    """A sentence a candidate, and what chance alone does."""
    baseline = next(row for row in record.rows if row.role == "baseline")
    control, sentences = control_speedup(record), list(candidate_sentences(record).values())
    if control is not None:
        sentences.append(
            f"{baseline.arm} against itself (A/A): {control.value:.2f}{_sure(control)}."
        )
    return tuple(sentences)


def over_words(record: SpeedRecord | Conditions) -> str:
    """What a sentence must not be quoted without."""
    over = f"over the {record.link.name}" if record.link.mode else ""
    if record.kind == EMULATED:
        over = "emulated"
    random = "with random weights" if record.weights == RANDOM else ""
    text = " and ".join(filter(None, (over, random)))
    return f"{text[0].upper()}{text[1:]}, " if text else ""


def _verdict(row: SpeedRow, baseline: str, control: Estimate | None) -> str:
    phase, speedup = phase_of(row), phase_of(row).speedup
    if speedup is None or control is None:
        return ""
    verb = "decodes" if row.decode else "reads its prompt"
    text = f"{row.arm} {verb} {speedup.value:.2f} times as fast as {baseline}{_sure(speedup)}"
    if not is_decided(speedup, control):
        return f"{text}, which can't be told from what chance does here."
    if phase.comm is None:
        return f"{text}; what communication costs is too little to say how much of it went."
    verb = "hides" if row.comm_name == "hidden_comm" else "saves"
    text += f" and {verb} {_percent(phase.comm)} of the exposed communication"
    if phase.bound is not None:
        text += f", of {_share(phase.bound)} % that its dependencies allow"
    return f"{text}."


def _sure(estimate: Estimate) -> str:
    """An interval in words; one or two rounds have none."""
    if estimate.rounds < _LEAST_ROUNDS:
        return f" ({estimate.rounds} round{'s' if estimate.rounds > 1 else ''}, no interval)"
    return (
        f" ({100 * estimate.confidence:.0f} % interval {estimate.low:.2f} to {estimate.high:.2f}, "
        f"{estimate.rounds} rounds)"
    )


def _percent(estimate: Estimate) -> str:
    """A share with its interval, such as "85 % [72, 88]"."""
    low, high = (str(round(100 * x)).replace("-", "−") for x in (estimate.low, estimate.high))
    return f"{_share(estimate)} % [{low}, {high}]"


def _brief_conditions(record: SpeedRecord) -> tuple[str, ...]:
    emulation = record.emulation
    return (
        *([_emulation(record, emulation)] if emulation else []),
        timing_words(record),
        _bandwidth(record),
    )


def timing_words(record: SpeedRecord | Conditions) -> str:
    """What was timed, over what and how often, in a sentence."""
    rounds = f"{record.rounds}"
    if record.rounds != record.rounds_asked:
        rounds += f" of {record.rounds_asked}"
    part = f"{part_words(record)}, " if part_words(record) else ""
    return (
        f"{_link(record)}; {record.dtype} on {record.device}, {record.threads} "
        f"thread{'s' if record.threads > 1 else ''} a rank, heads "
        f"{':'.join(map(str, record.heads_per_rank))}; {part}{_weights(record)}; "
        f"{rounds} rounds after {record.warm_up} warm-up."
    )


def _emulation(record: SpeedRecord, emulation: EmulationRecord) -> str:
    """What was there, and what stood for the rest."""
    late = f"{digits(1e6 * emulation.lateness)} µs"
    others = (
        "drawn from those of this one"
        if emulation.skew is None
        else f"normal with a deviation of {digits(1e6 * emulation.skew)} µs, as given"
    )
    layers = ""
    if emulation.extrapolated:
        layers = (
            f" Times of all {record.all_hidden_layers} layers are extrapolated from "
            f"{record.num_hidden_layers}."
        )
    return (
        f"Emulated: rank {emulation.rank} of {record.tp_size} computed its share on one device, "
        f"and each message was a delay. The slowest rank sent it {late} later on average, by block "
        f"times of all ranks {others}.{layers}"
    )


def _link(record: SpeedRecord | Conditions) -> str:
    link = record.link
    if link.mode is None or link.latency is None or link.bandwidth is None:
        return "No messages" if record.tp_size == 1 else f"Messages by {link.name}"
    ratio = ""
    if link.latency_ratio is not None:
        ratio = f" = {link.latency_ratio:g} × the mean block time"
    return (
        f"{link.name.capitalize()}, {link.mode}, latency {digits(1e6 * link.latency)} µs{ratio}, "
        f"{link.bandwidth / 1e9:g} GB/s"
    )


def _weights(record: SpeedRecord | Conditions) -> str:
    return "random weights" if record.weights == RANDOM else f"weights: {record.weights}"


def part_words(record: SpeedRecord | Conditions) -> str:
    """What was left out of a model that didn't fit in memory, in words."""
    parts = []
    if record.num_hidden_layers != record.all_hidden_layers:
        layers = f"{record.num_hidden_layers} of {record.all_hidden_layers} layers"
        emulation = record.emulation if isinstance(record, SpeedRecord) else None
        extrapolated = emulation is not None and emulation.extrapolated
        parts.append(f"extrapolated from {layers}" if extrapolated else layers)
    if record.vocab_size != record.all_vocab_size:
        parts.append(f"a vocabulary of {record.vocab_size} of {record.all_vocab_size}")
    return " and ".join(parts)


def _bandwidth(record: SpeedRecord) -> str:
    """Whether the baseline is slow on this machine, or the machine is."""
    copied = record.copied_bytes_per_second
    if record.read_bytes_per_second is None:
        return f"A plain copy moves {copied / 1e9:.1f} GB/s."
    share = record.read_bytes_per_second / copied
    return (
        f"No-comm reads {record.read_bytes_per_second / 1e9:.1f} GB/s, {100 * share:.0f} % of the "
        f"{copied / 1e9:.1f} GB/s that a plain copy reads and writes."
    )
