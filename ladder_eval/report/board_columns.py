"""The leaderboard's columns: what its exports and its index hold, in order, and what they mean."""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "COLUMNS_VERSION",
    "LEADERBOARD_COLUMNS",
    "MODEL_COLUMNS",
    "SCORE_COLUMNS",
    "Column",
    "columns_markdown",
    "kinds",
]

COLUMNS_VERSION: Final = 1
"""Rises when a column is renamed, removed or redefined; new ones only join at the end."""

_TEXT: Final = "string"
_COUNT: Final = "Int64"
_NUMBER: Final = "float64"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Its heading, with the unit where it has one.
        kind: Its pandas type: string, Int64 or float64, each with missing values.
        about: What it holds, as Markdown.
    """

    name: str
    kind: str
    about: str


MODEL_COLUMNS: Final = (
    Column("model", _TEXT, "Name."),
    Column("residual", _TEXT, "`standard`, `ladder`, `hybrid ladder`, ...; `unknown` if imported."),
    Column(
        "ladder_layers",
        _TEXT,
        "Indexes of the ladder layers, as a JSON list; missing if there are none.",
    ),
    Column("num_hidden_layers", _COUNT, "Layers."),
    Column("parameters", _COUNT, "Weights."),
    Column("suite", _TEXT, "Suite, or the names of the tasks."),
    Column("group", _TEXT, "Only rows with equal `group` are ranked together (see above)."),
    Column("tasks", _TEXT, "Names of the tasks, with spaces between them."),
    Column("task_versions", _TEXT, "The tasks' versions in the same order, as `v1.0`."),
    Column("prompting", _TEXT, "In which form was asked, such as in which chat template."),
    Column("limit", _COUNT, "Documents a task at most; missing where all were asked."),
    Column("seed", _COUNT, "Seed of the choice of documents."),
    Column("documents", _COUNT, "Documents evaluated, over all tasks."),
    Column("documents_whole", _COUNT, "Documents that there are, as loaded or as published."),
    Column("prompts_sha256", _TEXT, "Hash of all that was asked; missing where it isn't known."),
    Column("documents_sha256", _TEXT, "Hash of the evaluated documents and their answers."),
    Column(
        "mean_headline",
        _NUMBER,
        "Unweighted mean of the headline metrics, a fraction, over the tasks of the suite's "
        "average; missing if one of them is.",
    ),
    Column("mean_headline_stderr", _NUMBER, "Its standard error, sqrt(sum se²) / k."),
    Column("mean_headline_n", _COUNT, "Documents that it is of."),
    Column("baseline", _TEXT, "What the model was compared with, in pairs."),
    Column("pooled_difference_points", _NUMBER, "Its pooled difference, in percentage points."),
    Column("pooled_low_points", _NUMBER, "Lower end of the difference's 95 % interval."),
    Column("pooled_high_points", _NUMBER, "Upper end."),
    Column("pooled_n", _COUNT, "Pairs."),
    Column("speed_kind", _TEXT, "Whether times are `measured` or `emulated`."),
    Column("ttft_ms", _NUMBER, "Median time to the first token."),
    Column("tpot_ms", _NUMBER, "Median time of each further token."),
    Column("tokens_per_s", _NUMBER, "Median tokens a second, of all rows."),
    Column("decode_speedup", _NUMBER, "The baseline's tpot by the model's, a ratio."),
    Column("decode_speedup_low", _NUMBER, "Lower end of its interval."),
    Column("decode_speedup_high", _NUMBER, "Upper end."),
    Column("speed_rounds", _COUNT, "Rounds timed."),
    Column("speed_batch_size", _COUNT, "Rows generated at once."),
    Column("speed_prompt_len", _COUNT, "Tokens in."),
    Column("speed_output_len", _COUNT, "Tokens out."),
    Column("speed_tp_size", _COUNT, "Ranks timed."),
    Column("speed_link", _TEXT, "What carried their messages, such as a virtual link."),
    Column("speed_device", _TEXT, "Device of each rank."),
    Column("speed_dtype", _TEXT, "Number format timed."),
    Column("speed_weights", _TEXT, "`random`, or where the timed weights came from."),
    Column("speed_layers", _COUNT, "Layers timed, which may be a part."),
    Column("dtype", _TEXT, "Number format of the scoring."),
    Column("device", _TEXT, "Its device."),
    Column("tp_size", _COUNT, "Its ranks."),
    Column("batch_size", _COUNT, "Its rows at once."),
    Column("weights", _TEXT, "Where the weights came from."),
    Column("adaptation", _TEXT, "How they came to fit the residual."),
    Column("weights_sha256", _TEXT, "Their hash."),
    Column("tokenizer_sha256", _TEXT, "The tokenizer's hash."),
    Column("fingerprint", _TEXT, "Hash of all that determines the model's answers."),
    Column("origin", _TEXT, "Where imported results came from; missing where made here."),
    Column("run_id", _TEXT, "The run."),
    Column("started_at", _TEXT, "Its start, ISO 8601."),
    Column("commit", _TEXT, "Commit of ladder-eval, `-dirty` if changed."),
    Column("ladder_eval_version", _TEXT, "Version of ladder-eval."),
    Column("lm_eval_version", _TEXT, "Version of lm-eval."),
    Column("torch_version", _TEXT, "Version of torch."),
    Column("transformers_version", _TEXT, "Version of transformers."),
    Column("schema_version", _COUNT, "Version of the run's `results.json`."),
)
"""One row a model, suite and conditions."""

SCORE_COLUMNS: Final = (
    Column("model", _TEXT, "As above."),
    Column("suite", _TEXT, "As above."),
    Column("group", _TEXT, "As above."),
    Column("task", _TEXT, "Task."),
    Column("task_version", _TEXT, "Its version, as `v1.0`."),
    Column("dataset", _TEXT, "Its data set."),
    Column("split", _TEXT, "The evaluated split."),
    Column("num_fewshot", _COUNT, "Solved examples in a prompt."),
    Column("metric", _TEXT, "The headline metric."),
    Column("filter", _TEXT, "The filter whose answers it judges."),
    Column("part", _TEXT, "`macro` where the task's subjects count equally; else missing."),
    Column("value", _NUMBER, "The metric: a fraction, or a perplexity."),
    Column("stderr", _NUMBER, "Its standard error; missing where it can't be estimated."),
    Column("low", _NUMBER, "Lower end of its 95 % interval."),
    Column("high", _NUMBER, "Upper end."),
    Column("n", _COUNT, "Documents that have a value of the metric."),
    Column("documents", _COUNT, "Documents evaluated."),
    Column("documents_in_split", _COUNT, "Documents that the split has."),
    Column("prompts_sha256", _TEXT, "Hash of the prompts."),
    Column("documents_sha256", _TEXT, "Hash of the evaluated documents and their answers."),
    Column("data_sha256", _TEXT, "Hash of the whole split and the examples."),
    Column("dtype", _TEXT, "As above."),
    Column("device", _TEXT, "As above."),
    Column("fingerprint", _TEXT, "As above."),
    Column("origin", _TEXT, "As above."),
    Column("run_id", _TEXT, "As above."),
)
"""One row a model and task."""


def kinds(columns: tuple[Column, ...]) -> dict[str, str]:
    """The pandas type of each column, by name, in order."""
    return {column.name: column.kind for column in columns}


LEADERBOARD_COLUMNS: Final = kinds(MODEL_COLUMNS)
"""Columns of the leaderboard in order, each with its pandas type."""


def columns_markdown(columns: tuple[Column, ...]) -> str:
    """The columns as a Markdown table, for the documentation."""
    rows = [f"| `{each.name}` | {each.kind} | {each.about} |" for each in columns]
    return "\n".join(["| column | type | what it holds |", "|---|---|---|", *rows])
