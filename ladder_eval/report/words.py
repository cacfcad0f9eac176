"""How numbers and records read in a report: percent, points, layers, subsets.

Inside, all is fractions, seconds and bytes. A minus is always the sign "−", so that a negative
number never looks like a range or a hyphen.
"""

from collections.abc import Iterable, Sequence

from ladder_eval.report.block import NOTHING
from ladder_eval.results.records import UNKNOWN, Comparison, ModelRecord, TaskRecord

__all__ = [
    "batches_words",
    "bounds",
    "conditions_of",
    "documents",
    "figure",
    "layers",
    "made_words",
    "memory",
    "percent",
    "points",
    "printed",
    "residual",
    "subset",
    "tensor_parallel",
    "truncation",
    "verdict",
    "whole",
]


def percent(fraction: float) -> str:
    """A fraction in percent with one decimal, such as "71.3"."""
    return f"{100 * fraction:.1f}".replace("-", "−")


def figure(value: float) -> str:
    """A perplexity or another positive number with four digits, such as "18.54"."""
    return f"{value:#.4g}".rstrip(".")


def printed(value: float | None) -> str:
    """A published number with the two decimals of its table, or a dash."""
    return NOTHING if value is None else f"{value:.2f}"


def points(fraction: float) -> str:
    """A difference of fractions in signed percentage points, such as "−2.8".

    One decimal, or the first digit that isn't zero, so that no difference is rounded to none.
    """
    value = 100 * fraction
    if abs(value) < 1e-6:
        return "0.0"
    text = f"{value:+.1f}" if abs(value) >= 0.05 else f"{value:+.6f}"[: _significant(value)]
    return text.replace("-", "−")


def bounds(low: float, high: float) -> str:
    """An interval of differences in points, such as "[−5.4, −0.2]"."""
    return f"[{points(low)}, {points(high)}]"


def layers(indexes: Iterable[int]) -> str:
    """Layer indexes with runs drawn together, such as "0–3, 8"; "none" without any."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs) or "none"


def residual(model: ModelRecord) -> str:
    """A model's residual and where it applies, such as "hybrid ladder (layers 8–15 of 16)"."""
    if model.num_hidden_layers is None:
        return model.residual
    if not model.ladder_layers:
        return f"{model.residual} ({model.num_hidden_layers} layers)"
    return f"{model.residual} (layers {layers(model.ladder_layers)} of {model.num_hidden_layers})"


def conditions_of(model: ModelRecord) -> str:
    """How a model was run, in the sentence without which its numbers mean nothing."""
    return (
        f"{model.name}: {residual(model)}, {made_words(model)}; {model.dtype} on "
        f"{model.device}, {tensor_parallel(model)}, {batches_words(model)}."
    )


def batches_words(model: ModelRecord) -> str:
    """How large a model's batches were, such as "batch_size 32 (up to 512 tokens a batch)"."""
    rows, tokens = model.batch_size or UNKNOWN, " or ".join(map(str, model.batch_tokens))
    return f"batch_size {rows}{f' (up to {tokens} tokens a batch)' if tokens else ''}"


def made_words(model: ModelRecord) -> str:
    """How the weights came to fit the residual, or that it isn't known."""
    return f"imported from {model.origin}" if model.origin else model.adaptation


def tensor_parallel(model: ModelRecord) -> str:
    """How a model was divided among ranks, such as "tp_size 2 by gloo, heads 6:3 and ..."."""
    replicas = f"dp_size {model.dp_size}, " if model.dp_size > 1 else ""
    if model.tp_size is None or model.tp_size == 1:
        return f"{replicas}tp_size {model.tp_size or UNKNOWN}"
    heads, kv_heads = (
        ":".join(map(str, n)) for n in (model.heads_per_rank, model.kv_heads_per_rank)
    )
    text = (
        f"{replicas}tp_size {model.tp_size} by {model.tp_backend}, heads {heads}, "
        f"key-value heads {kv_heads}"
    )
    if model.weight_bytes_per_rank:
        text += f", weights {memory(model.weight_bytes_per_rank)}"
    if model.tp_check is not None:
        text += f", largest difference from tp_size 1 {model.tp_check:.1e}"
    return text


def truncation(model: ModelRecord) -> str:
    """How many of a model's requests were cut, where any were."""
    return (
        f"{model.name}: {model.truncated_requests} requests were longer than the model can read "
        "and lost the start of their context."
    )


def memory(sizes: Sequence[int]) -> str:
    """Bytes by rank in GiB, such as "0.31 + 0.20 GiB"."""
    return f"{' + '.join(f'{size / 2**30:.2f}' for size in sizes)} GiB"


def documents(task: TaskRecord) -> str:
    """How many documents of how many, such as "40 of 570"; the number alone if it's all of them.

    Data with another number of documents than its authors publish is named as such.
    """
    text = str(task.documents)
    if task.documents != task.documents_in_split:
        text += f" of {task.documents_in_split}"
    if task.official_documents not in (None, task.documents_in_split):
        text += f" (official: {task.official_documents})"
    return text


def subset(tasks: Sequence[TaskRecord]) -> str:
    """What part of the official documents was evaluated, such as "subset: 40 of 570"; "" if all."""
    evaluated = sum(task.documents for task in tasks)
    there_are = whole(tasks)
    return "" if evaluated == there_are else f"subset: {evaluated} of {there_are}"


def whole(tasks: Sequence[TaskRecord]) -> int:
    """Documents that there are: as loaded or as published, whichever are more."""
    return sum(max(task.official_documents or 0, task.documents_in_split) for task in tasks)


def verdict(pooled: Comparison, tasks: Sequence[TaskRecord]) -> str:
    """What the pooled comparison over `tasks` says in one sentence, and no more than that."""
    part = f" ({subset(tasks)})" if subset(tasks) else ""
    scope = f"Pooled over {pooled.n} documents{part}"
    level = f"{100 * pooled.confidence:g} % interval"
    if pooled.decided:
        way = "better" if pooled.difference > 0 else "worse"
        return (
            f"{scope}, {pooled.candidate} is {points(abs(pooled.difference))[1:]} points {way} "
            f"than {pooled.baseline} ({level} {points(pooled.low)} to {points(pooled.high)})."
        )
    half_width = points((pooled.high - pooled.low) / 2).lstrip("+")
    return (
        f"{scope}, the difference between {pooled.candidate} and {pooled.baseline} is too small to "
        f"decide: the {level} {bounds(pooled.low, pooled.high)} contains zero; with these "
        f"documents, only a measured difference of about {half_width} points or more would be "
        "decided."
    )


def _significant(value: float) -> int:
    """Characters of a number written with sign and six decimals, to its first digit not zero."""
    digits = f"{abs(value):.6f}"
    return 2 + next((i for i, digit in enumerate(digits) if digit not in "0."), len(digits) - 1)
