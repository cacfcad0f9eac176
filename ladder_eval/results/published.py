"""The accuracy that the Ladder-Residual paper prints, for the models that have a name here.

Source: arXiv 2501.06589 (ICML 2025), the tables of accuracy. Needs neither torch nor the models.
"""

from typing import Final, TypeAlias

from ladder_eval.results.metrics import is_fraction
from ladder_eval.results.records import PublishedRow

__all__ = ["published_metric", "published_row"]

# The name here → the row's name in the paper, and its values in the order of its metrics.
_Rows: TypeAlias = dict[str, tuple[str, tuple[float, ...]]]

_PAPER: Final = "Ladder-Residual, arXiv 2501.06589 (ICML 2025)"

_SCRATCH_SOURCE: Final = f"{_PAPER}, table of models trained from scratch (0-shot)"
_SCRATCH_TRAINING: Final = (
    "100B tokens of FineWeb-Edu, context 2048, StarCoder tokenizer (49152), AdamW lr 3e-4 cosine, "
    "25000 steps x 4194304 tokens"
)
# Each task 0-shot; the average is that of the six accuracies.
_SCRATCH_METRICS: Final = (
    "arc_challenge",
    "arc_easy",
    "hellaswag",
    "piqa",
    "sciq",
    "winogrande",
    "average",
    "wikitext_word_perplexity",
)
_SCRATCH: Final[_Rows] = {
    "standard_1b": ("standard-1b", (34.22, 70.33, 41.1, 71.49, 87.3, 55.41, 59.98, 18.54)),
    "parallel_1b": ("parallel-1b", (30.46, 67.97, 40.35, 71.16, 87.4, 55.17, 58.75, 18.95)),
    "ladder_1b": ("ladder-1b", (31.31, 67.76, 41.18, 71.49, 86.6, 55.17, 58.92, 18.42)),
    "standard_3b": ("standard-3b", (38.99, 74.12, 46.48, 74.59, 92.0, 58.48, 64.11, 14.48)),
    "parallel_3b": ("parallel-3b", (38.48, 73.02, 45.55, 73.67, 90.0, 57.46, 63.03, 14.96)),
    "ladder_3b": ("ladder-3b", (36.77, 72.43, 45.66, 73.72, 89.9, 58.96, 62.91, 14.9)),
}

_ADAPTED_SOURCE: Final = (
    f"{_PAPER}, table of models adapted from Llama-3.1-8B-Instruct (shots: MMLU 5, ARC-C 25, "
    "HellaSwag 10, GSM8K 8, OpenBookQA unstated, others 0)"
)
_ADAPTED_TRAINING: Final = (
    "supervised fine-tuning on Infinity-Instruct (7M and Gen subsets), 3B tokens, 2 epochs, "
    "lr 5e-6, 200 warm-up steps"
)
# The baseline of that table is no work of the paper's authors.
_RELEASED: Final = "none by the paper's authors: Llama-3.1-8B-Instruct as released"
# AlpacaEval 2 is against GPT-4-Turbo.
_ADAPTED_METRICS: Final = (
    "mmlu",
    "arc_challenge",
    "openbookqa",
    "hellaswag",
    "truthfulqa_mc1",
    "gsm8k",
    "humaneval_plus",
    "ifeval",
    "alpacaeval_lc_win_rate",
    "average",
)
_ADAPTED: Final[_Rows] = {
    "standard_8b": (
        "llama-3.1-8b-instruct",
        (68.14, 60.32, 43.0, 80.04, 36.84, 84.99, 60.4, 52.57, 18.69, 56.11),
    ),
    "hybrid_ladder_8b_16l": (
        "hybrid-ladder-8b-16l-retrained",
        (65.93, 59.13, 42.2, 78.86, 39.66, 80.29, 59.1, 59.02, 21.95, 56.24),
    ),
    "hybrid_ladder_8b_20l": (
        "hybrid-ladder-8b-20l-retrained",
        (62.31, 59.9, 42.6, 77.49, 36.72, 76.19, 48.8, 59.05, 21.72, 53.86),
    ),
}


# Tasks here that the tables call otherwise.
_PUBLISHED_AS: Final = {"gsm8k_cot": "gsm8k", "alpaca_eval": "alpacaeval_lc_win_rate"}


def published_metric(task: str, metric: str) -> str:
    """What `PublishedRow.metrics` calls a task here; perplexities have their metric's name, too."""
    name = _PUBLISHED_AS.get(task, task)
    return name if is_fraction(metric) else f"{name}_{metric}"


def published_row(model: str) -> PublishedRow | None:
    """The row that the paper prints for a named model, or None if it prints none.

    Args:
        model: A name such as `ladder_1b`; the adapted hybrids are those after retraining.
    """
    if model in _SCRATCH:
        row, values = _SCRATCH[model]
        return PublishedRow(
            model=model,
            row=row,
            metrics=dict(zip(_SCRATCH_METRICS, values, strict=True)),
            training=_SCRATCH_TRAINING,
            source=_SCRATCH_SOURCE,
        )
    if model not in _ADAPTED:
        return None
    row, values = _ADAPTED[model]
    return PublishedRow(
        model=model,
        row=row,
        metrics=dict(zip(_ADAPTED_METRICS, values, strict=True)),
        training=_RELEASED if model == "standard_8b" else _ADAPTED_TRAINING,
        source=_ADAPTED_SOURCE,
    )
