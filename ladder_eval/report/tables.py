"""One run's result as a table for the terminal, and as the Markdown of report.md.

Both print the same `Block` records and the same conditions, so they can't disagree.
"""

import shlex
from collections.abc import Iterable, Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from ladder_eval.report.block import NOTHING, Block, transposed
from ladder_eval.report.comparisons import comparison_blocks
from ladder_eval.report.gaps import gap_blocks
from ladder_eval.report.judged import judged_blocks, waiting_sentence
from ladder_eval.report.load import (
    brief_load_block,
    load_block,
    load_conditions,
    replay_block,
)
from ladder_eval.report.scores import all_scores, average_blocks, metric_words, score_blocks
from ladder_eval.report.speed import (
    brief_speed_block,
    published_block,
    speed_block,
    speed_conditions,
)
from ladder_eval.report.utilisation import utilisation_blocks
from ladder_eval.report.words import (
    batches_words,
    conditions_of,
    made_words,
    memory,
    residual,
    subset,
    tensor_parallel,
)
from ladder_eval.results.averages import headlines
from ladder_eval.results.records import UNKNOWN, ModelRecord, RunResult, TaskRecord

__all__ = [
    "block_markdown",
    "block_table",
    "blocks",
    "comparison_table",
    "conditions",
    "escaped",
    "facts_markdown",
    "markdown",
    "page",
]


def blocks(result: RunResult) -> tuple[Block, ...]:
    """Differences of each candidate; without a comparison, scores of each model."""
    return comparison_blocks(result) or score_blocks(result)


def conditions(result: RunResult) -> tuple[tuple[str, str], ...]:
    """What the numbers hold for, as labels and texts: models, tasks, data, machine, methods."""
    made = result.provenance
    limit = "all documents" if result.limit is None else f"at most {result.limit} documents a task"
    asked = f"{limit}, seed {result.seed}{_prefixed(subset(result.tasks))}"
    rows = [(f"model {model.name}", _model_text(model)) for model in result.models]
    rows += [(f"task {task.task}", _task_text(result, task)) for task in result.tasks]
    rows += [
        *([("documents", asked)] if result.tasks else []),
        ("hardware", _pairs(made.hardware) or NOTHING),
        ("time", f"started {made.started_at}, {made.seconds:.1f} s wall time"),
        ("peak memory", memory(made.peak_memory_bytes) if made.peak_memory_bytes else NOTHING),
        ("versions", _pairs(made.versions) or NOTHING),
        ("commit", made.commit or NOTHING),
        ("command", shlex.join(made.command)),
        *([("intervals", _methods(result))] if result.scores else []),
        *([("waiting", waiting_sentence(result))] if result.pending_tasks else []),
    ]
    rows += [("speed", text) for record in result.speed for text in speed_conditions(record)]
    rows += [("load", text) for load in result.load for text in load_conditions(load)]
    return (*rows, *(("warning", text) for text in result.warnings))


def comparison_table(result: RunResult) -> Table:
    """The result for the terminal: blocks with their verdicts, then the conditions in brief."""
    shown = [*blocks(result), *map(transposed, average_blocks(result))]  # 80 columns are few
    shown += [*judged_blocks(result), *map(brief_speed_block, result.speed)]
    shown += [*map(transposed, gap_blocks(result.speed)), *_published(result)]
    shown += [*map(brief_load_block, result.load), *map(replay_block, result.replay)]
    return page(shown, _brief_conditions(result))


def page(shown: Iterable[Block], lines: Iterable[str]) -> Table:
    """Blocks for the terminal, each with its sentences, and lines below all of them."""
    found = Table.grid(padding=(0, 0, 1, 0))
    for block in shown:
        found.add_row(Group(Text(block.title), _rich_table(block), *map(Text, block.notes)))
    found.add_row(Group(*map(Text, lines)))
    return found


def markdown(result: RunResult) -> str:
    """The result as Markdown: verdicts first, then tables, conditions and all scores."""
    parts = [f"# {escaped(result.suite)}: run {escaped(result.run_id)}"]
    scored = (*blocks(result), *average_blocks(result), *judged_blocks(result))
    speed = (*map(speed_block, result.speed), *utilisation_blocks(result.speed))
    timed = (*gap_blocks(result.speed), *map(load_block, result.load))
    replayed = map(replay_block, result.replay)
    for block in (*scored, *speed, *timed, *replayed, *_published(result)):
        parts += [f"## {escaped(block.title)}", *map(escaped, block.notes), _markdown_table(block)]
    parts += ["## Conditions", facts_markdown(conditions(result))]
    if result.scores:
        parts += ["## All scores", _markdown_table(all_scores(result))]
    return "\n\n".join(parts) + "\n"


def _published(result: RunResult) -> list[Block]:
    return [published_block(result.published)] if result.published else []


def block_table(block: Block) -> Group:
    """A block with its title and notes, for the terminal."""
    return Group(Text(block.title), _rich_table(block), *map(Text, block.notes))


def facts_markdown(facts: Iterable[tuple[str, str]]) -> str:
    """Labels and texts, such as conditions, as a list."""
    return "\n".join(f"* **{escaped(label)}**: {escaped(text)}" for label, text in facts)


def block_markdown(block: Block, level: int = 2) -> str:
    """A block with its title, a heading of that level, and notes, as Markdown."""
    title = f"{level * '#'} {escaped(block.title)}"
    return "\n\n".join([title, _markdown_table(block), *map(escaped, block.notes)])


def _model_text(model: ModelRecord) -> str:
    if model.origin:
        return (
            f"{residual(model)}, {made_words(model)}; weights: {model.weights}; {model.dtype} on "
            f"{model.device}; prompts {model.prompts}; whether requests were truncated and what "
            "the scoring cost isn't known"
        )
    return (
        f"{residual(model)}, {model.adaptation}, {model.parameters} parameters; "
        f"weights: {model.weights} (SHA-256 {model.weights_sha256[:12]}); "
        f"{model.dtype} on {model.device}, {tensor_parallel(model)}, "
        f"{batches_words(model)}; "
        f"prompts {model.prompts}, BOS: {model.bos}; {model.scored_requests} requests scored "
        f"({model.scored_tokens} tokens, {model.scoring_seconds:.1f} s), "
        f"{model.reused_requests} reused, {model.truncated_requests} truncated"
        f"{f', {model.cut_texts} texts cut' if model.cut_texts else ''}"
    )


def _task_text(result: RunResult, task: TaskRecord) -> str:
    macro = "; differences are over documents" if task.part else ""
    return (
        f"{task.dataset}, {task.split} split{_prefixed(subset([task]))}, "
        f"{task.num_fewshot}-shot, {metric_words(result, task)}{macro}, version {task.version}; "
        f"data: {task.source} (SHA-256 {_brief(task.data_sha256)}), "
        f"prompts: SHA-256 {_brief(task.prompts_sha256)}{_prefixed(task.execution)}"
    )


def _brief(digest: str) -> str:
    return digest[:12] or UNKNOWN


def _methods(result: RunResult) -> str:
    """How the shown intervals were computed."""
    if result.comparisons:
        return "; ".join(dict.fromkeys(each.method for each in result.comparisons))
    shown = [s for model in result.models for s in headlines(result, model.name).values()]
    return "; ".join(dict.fromkeys(each.method for each in shown if each.method)) or NOTHING


def _uncompared(result: RunResult) -> str:
    """Names of tasks whose perplexities gave no interval, such as with one document."""
    compared = {each.task for each in result.comparisons}
    alone = [t.task for t in result.tasks if t.task not in compared]
    return ", ".join(alone) if result.comparisons else ""


def _pairs(values: dict[str, str] | dict[str, str | int | float | list[str]]) -> str:
    return ", ".join(
        f"{name} {', '.join(value) if isinstance(value, list) else value}"
        for name, value in values.items()
    )


def _prefixed(text: str) -> str:
    return f", {text}" if text else ""


def _rich_table(block: Block) -> RenderableType:
    # Cells are Text, because a plain string's square brackets would be read as markup.
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for i, column in enumerate(block.columns):
        # Where the terminal is narrow, counts fold, but names and values never do.
        heading = Text(column.removesuffix(" %") + "\n%" if column.endswith(" %") else column)
        justify: JustifyMethod = "right" if i else "left"
        table.add_column(
            heading, justify=justify, overflow="fold", no_wrap=i != 1 and not block.folds
        )
    for i, row in enumerate(block.rows):
        last = block.total and i == len(block.rows) - 1
        if last:
            table.add_section()
        table.add_row(*map(Text, row), style="bold" if last else "")
    return table


def _brief_conditions(result: RunResult) -> Iterator[str]:
    """The conditions without which the numbers mean nothing; report.md has them all."""
    made = result.provenance
    yield from map(conditions_of, result.models)
    shots = sorted({task.num_fewshot for task in result.tasks})
    splits = sorted({task.split for task in result.tasks})
    if result.comparisons:
        yield "+/−: documents that only the candidate, only the baseline has right."
    if result.tasks:
        yield (
            f"{' and '.join(f'{each}-shot' for each in shots)} on {' and '.join(splits)} splits, "
            f"seed {result.seed}. Intervals: {_methods(result)}."
        )
    if alone := _uncompared(result):
        yield f"Not compared, as their documents have no spread to estimate from: {alone}."
    if result.pending_tasks:
        yield waiting_sentence(result)
    if made.hardware:  # imported results don't say
        processor, cores = (made.hardware.get(name, NOTHING) for name in ("processor", "cores"))
        yield (
            f"{processor}, {cores} cores: "
            f"{made.seconds:.0f} s wall time, {memory(made.peak_memory_bytes)} peak memory."
        )
    yield from (f"Warning: {text}" for text in result.warnings)


def _markdown_table(block: Block) -> str:
    ruler = ["---", *["---:"] * (len(block.columns) - 1)]
    lines = [block.columns, ruler, *block.rows]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(text: str) -> str:
    """Keep text from being read as Markdown's tables, tags or lines."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())
