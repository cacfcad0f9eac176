"""Samples: one row a model, document and filter, as a table and as records."""

from dataclasses import dataclass, fields
from typing import Final

import pandas as pd
import pyarrow as pa

__all__ = ["SAMPLE_COLUMNS", "SAMPLE_SCHEMA", "Sample", "samples_of"]

SAMPLE_SCHEMA: Final = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("category", pa.string()),
        pa.field("filter", pa.string(), nullable=False),
        pa.field("is_headline", pa.bool_(), nullable=False),
        pa.field("doc_id", pa.int64(), nullable=False),
        pa.field("doc_hash", pa.string(), nullable=False),
        pa.field("prompt_hash", pa.string(), nullable=False),
        pa.field("target_hash", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("metrics", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("answers", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
    ]
)

SAMPLE_COLUMNS: Final[tuple[str, ...]] = tuple(SAMPLE_SCHEMA.names)
"""Columns of the samples, in order; only `group` and `category` may be missing in a row.

A row is a model, a document and a filter. `model`, `task`, `group` (the subject), `category` (that
of the subject) and `filter` name; `is_headline` says whether the filter is the one that counts.
`doc_id` is the document's row in the split, and `doc_hash`, `prompt_hash` and `target_hash` are
hashes of the document, its prompts and its target. `value` and `weight` are the document's in the
headline metric `metric`, as `results.metrics.Term` has them: usually a fraction and 1.
`metrics` is a JSON object with one value a metric, as lm-eval gives them. `target` is text,
`answers` a JSON list of the model's answers, `document` a JSON object.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One model's answer to one document.

    Attributes:
        task: The task's name.
        metric: The task's headline metric.
        filter: Name of the filter that turned the answer into a score.
        doc_hash: Hash of the document.
        prompt_hash: Hash of the prompts made of it.
        value: The headline metric of this answer, as `Term.value`: a fraction, or nats a word.
        weight: What it counts, as `Term.weight`.
        group: The subject, where the task has several.
        doc_id: The document's row in its split.
    """

    task: str
    metric: str
    filter: str
    doc_hash: str
    prompt_hash: str
    value: float
    weight: float = 1.0
    group: str | None = None
    doc_id: int = 0


def samples_of(samples: pd.DataFrame, model: str) -> list[Sample]:
    """One model's rows of the headline filters, in order, as `pair` takes them."""
    names = [field.name for field in fields(Sample)]
    own = (samples["model"] == model) & samples["is_headline"].astype(bool)
    rows = samples.loc[own, names].to_dict("records")
    texts = [
        row | {"group": row["group"] if isinstance(row["group"], str) else None} for row in rows
    ]
    return [Sample(**{str(name): value for name, value in row.items()}) for row in texts]
