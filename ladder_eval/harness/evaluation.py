"""One model through a suite: lm-eval builds the requests and the metrics, the adapter answers."""

import hashlib
import json
import logging
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import datasets
import lm_eval.api.task
import transformers
from datasets import Dataset
from lm_eval.api.group import Group
from lm_eval.api.model import LM
from lm_eval.config.group import GroupConfig
from lm_eval.evaluator import evaluate
from lm_eval.utils import env as templates

from ladder_eval.errors import DataError
from ladder_eval.harness.adapter import DEFAULT_MAX_GEN_TOKS
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources, LoadedSplit, Split, load
from ladder_eval.harness.chat import PLAIN, Prompting
from ladder_eval.harness.fewshot import PER_DOCUMENT, STOCK, FewShotTask
from ladder_eval.harness.stopping import settings_of
from ladder_eval.harness.suites import OUTPUTS, PROGRAMS, Suite, SuiteTask, TaskPart

if TYPE_CHECKING:
    from ladder_eval.harness.code.task import Programs

# Documents of a task from which its length is estimated.
_PROBED_DOCUMENTS = 5
# Settings of a task that name columns.
_TEMPLATES = ("doc_to_text", "doc_to_choice", "doc_to_target")
# Compiled templates that are kept: more than the settings of any suite's tasks.
_TEMPLATES_KEPT = 1024
# A rule of thumb for English text, good enough to say how long a run takes.
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTask:
    """A task with its data and the documents that were chosen.

    Attributes:
        task: The task.
        lm_tasks: lm-eval's task of each part that has chosen documents, by name.
        chosen: The chosen rows of each of these parts, ascending.
        documents_in_split: Number of documents to choose from, over all parts.
        official_documents: Official number of these, if known.
        source: Where the data came from, in words.
        data_sha256: Hash of all documents to choose from, and of all examples.
    """

    task: SuiteTask
    lm_tasks: Mapping[str, FewShotTask]
    chosen: Mapping[str, list[int]]
    documents_in_split: int
    official_documents: int | None
    source: str
    data_sha256: str


def prepare(
    suite: Suite,
    *,
    limit: int | None,
    seed: int,
    sources: DataSources,
    fewshot: str = PER_DOCUMENT,
) -> list[PreparedTask]:
    """Load a suite's data and choose its documents and how examples are drawn.

    Args:
        suite: The suite.
        limit: Documents a task; None for all. With STOCK, documents an lm-eval task.
        seed: Seed of the choice.
        sources: Where data is taken from.
        fewshot: PER_DOCUMENT or STOCK.

    Raises:
        DataError: if data is missing, in one message that lists all of it.
    """
    quieten()
    compile_templates_once()
    parts = [part for task in suite.tasks for part in task.parts]
    data = load({split for part in parts for split in part.splits}, sources)
    return [_prepare(task, data, limit, seed, fewshot) for task in suite.tasks]


def choose(sizes: Mapping[str, int], limit: int | None, seed: int) -> dict[str, list[int]]:
    """Choose documents over all parts of a task at once; parts without any are left out.

    The choice depends on nothing but the seed and each document's part and row, and a larger
    limit keeps what a smaller one chose.
    """

    def rank(document: tuple[str, int]) -> bytes:
        part, row = document
        return hashlib.sha256(f"{seed}/{part}/{row}".encode()).digest()

    documents = [(part, row) for part, size in sizes.items() for row in range(size)]
    if limit is not None and limit < len(documents):
        documents = sorted(sorted(documents, key=rank)[:limit])
    chosen: dict[str, list[int]] = {}
    for part, row in documents:
        chosen.setdefault(part, []).append(row)
    return chosen


def choose_first(sizes: Mapping[str, int], limit: int | None) -> dict[str, list[int]]:
    """Choose the first documents of each part, as lm-eval's `--limit` does."""
    return {part: list(range(size)[:limit]) for part, size in sizes.items()}


def run_suite(
    lm: LM,
    tasks: Sequence[PreparedTask],
    prompting: Prompting = PLAIN,
    programs: "Programs | None" = None,
) -> dict[str, Any]:
    """Let lm-eval evaluate a model: its result dictionary, samples included.

    Args:
        lm: The model.
        tasks: The tasks.
        prompting: In which form they are asked; what is for a judge is always asked in the chat
            template.
        programs: Where programs run, for tasks whose answers are some.

    Raises:
        DataError: if a row doesn't suit its task.
        UsageError: if the tokenizer has no chat template, but one is needed.
    """
    for each in tasks:
        if in_chat := is_in_chat(each.task, prompting):
            lm.chat_template()  # refuse before anything is built
        for lm_task in each.lm_tasks.values():
            template = lm.apply_chat_template if in_chat else None
            lm_task.begin(template=template, programs=programs)
    groups = {t.task.name: _group(t) for t in tasks if t.task.group is not None}
    result: dict[str, Any] = evaluate(
        lm=lm,
        task_dict={
            "tasks": {name: task for t in tasks for name, task in t.lm_tasks.items()},
            "groups": groups,
            "group_map": {name: group.child_names for name, group in groups.items()},
        },
        samples={name: rows for t in tasks for name, rows in t.chosen.items()},
        bootstrap_iters=0,  # standard errors are ours: lm-eval's bootstrap forks a process pool
        log_samples=True,
        **asdict(prompting),
    )
    return result


def is_in_chat(task: SuiteTask, prompting: Prompting) -> bool:
    """Whether a task is asked in the chat template: what is for a judge always is."""
    return prompting.apply_chat_template or task.answers == OUTPUTS


def estimate_tokens(tasks: Sequence[PreparedTask]) -> float:
    """About how many tokens a model reads for the tasks, from a few documents of each."""
    total = 0.0
    for prepared in tasks:
        for name, task in prepared.lm_tasks.items():
            rows = prepared.chosen[name]
            probe = rows[:: math.ceil(len(rows) / _PROBED_DOCUMENTS)]
            task.build_all_requests(samples=probe)
            total += _characters(task, len(rows) / len(probe)) / _CHARACTERS_PER_TOKEN
    return total


def written_tokens(tasks: Sequence[PreparedTask]) -> int:
    """How many tokens a model writes for the tasks at most."""
    return sum(
        len(prepared.chosen[name])
        * task.config.repeats
        * settings_of(task.config.generation_kwargs, DEFAULT_MAX_GEN_TOKS).max_gen_toks
        for prepared in tasks
        for name, task in prepared.lm_tasks.items()
        if task.OUTPUT_TYPE == "generate_until"
    )


def _characters(task: FewShotTask, times: float) -> float:
    """Characters of so many times the task's requests; what they begin with alike counts once."""
    texts = sorted({"".join(a for a in i.args if isinstance(a, str)) for i in task.instances})
    new = [len(text) - _common_length(before, text) for before, text in pairwise(texts)]
    return len(texts[0]) + (times * len(texts) - 1) * statistics.fmean(new or [0])


def _common_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def quieten() -> None:
    """Leave the terminal to our own progress: lm-eval draws a bar a task and warns a lot."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    lm_eval.api.task.tqdm = partial(lm_eval.api.task.tqdm, disable=True)


def compile_templates_once() -> None:
    """Keep lm-eval's compiled templates: it compiles one each time that it renders a document.

    That takes most of the time in which requests are built, and more than a fast model's answers.
    """
    if not hasattr(templates.from_string, "cache_info"):
        templates.from_string = lru_cache(_TEMPLATES_KEPT)(templates.from_string)


def _prepare(
    task: SuiteTask,
    data: Mapping[Split, LoadedSplit],
    limit: int | None,
    seed: int,
    fewshot: str,
) -> PreparedTask:
    evaluated = {part.name: data[part.evaluated] for part in task.parts}
    official = _official_documents(task)
    _require_rows(task, data, official)
    lm_tasks = {
        part.name: _lm_task(part, {s.name: data[s].rows for s in part.splits}, fewshot, seed)
        for part in task.parts
    }
    # A task may leave rows out, as Meta's ARC does with questions of three choices.
    sizes = {name: len(lm_task.eval_docs) for name, lm_task in lm_tasks.items()}
    left_out = sum(len(split.rows) for split in evaluated.values()) - sum(sizes.values())
    chosen = choose_first(sizes, limit) if fewshot == STOCK else choose(sizes, limit, seed)
    examples = dict.fromkeys(part.examples for part in task.parts if part.examples)
    read = [*evaluated.values(), *(data[split] for split in examples)]
    return PreparedTask(
        task=task,
        lm_tasks={name: lm_task for name, lm_task in lm_tasks.items() if name in chosen},
        chosen=chosen,
        documents_in_split=sum(sizes.values()),
        official_documents=None if official is None else official - left_out,
        source=_common_source([split.source for split in evaluated.values()]),
        data_sha256=_data_sha256([split.rows for split in read]),
    )


def _require_rows(task: SuiteTask, data: Mapping[Split, LoadedSplit], official: int | None) -> None:
    """Refuse what is no part of the benchmark: no rows, more than there are, or unfilled ones."""
    if empty := [str(part.evaluated) for part in task.parts if not data[part.evaluated].rows]:
        raise DataError(f"{', '.join(empty)} has no rows; give a folder that has them.")
    rows = sum(len(data[part.evaluated].rows) for part in task.parts)
    if official is not None and rows > official:
        split = task.parts[0].evaluated
        raise DataError(
            f"{split.hub_id} {split.name} has {rows:,} rows for {task.name}, more than the "
            f"{official:,} that there are; fetch it again."
        )
    for part in task.parts:
        for split in sorted(part.splits):
            _require_filled(part, split, data[split].rows)


def _require_filled(part: TaskPart, split: Split, rows: Dataset) -> None:
    """Refuse nulls in columns that the task asks for: a template writes them as "None"."""
    templates = " ".join(str(part.config.get(field)) for field in _TEMPLATES)
    for name, column in zip(rows.column_names, rows.data.columns, strict=True):
        if column.null_count and re.search(rf"\b{re.escape(name)}\b", templates):
            raise DataError(
                f"{column.null_count} rows of {split} have no {name}, which {part.name} needs; "
                "fetch the data again."
            )


def _official_documents(task: SuiteTask) -> int | None:
    split = task.parts[0].evaluated
    benchmark = BENCHMARKS.get(split.hub_id)
    return benchmark.official_rows(split) if benchmark else None


def _lm_task(part: TaskPart, rows: dict[str, Dataset], fewshot: str, seed: int) -> FewShotTask:
    config = part.to_lm_eval()
    own = {"custom_dataset": lambda **_: rows, "num_fewshot": part.num_fewshot}
    if "process_docs" in config:  # lm-eval processes a whole split each time it looks at it
        own["process_docs"] = cache(config["process_docs"])
    try:
        lm_task = _kind(part)({**config, **own}, fewshot=fewshot, seed=seed)
    except (
        Exception
    ) as error:  # lm-eval tries a document, and rows of another shape can do anything
        raise DataError(
            f"The rows of {part.evaluated} don't suit the task {part.name} ({error!r}); "
            "they need the columns that the data set has on the Hub."
        ) from None
    _require_examples(part, lm_task)
    return lm_task


def _kind(part: TaskPart) -> type[FewShotTask]:
    """What judges the task's answers: evalplus takes seconds to import, and few tasks need it."""
    answers = (part.config.get("metadata") or {}).get("answers")
    if answers == PROGRAMS:
        from ladder_eval.harness.code.task import CodeTask  # noqa: PLC0415

        return CodeTask
    return FewShotTask


def _require_examples(part: TaskPart, lm_task: FewShotTask) -> None:
    """Refuse before anything is scored what lm-eval would only notice at some document."""
    # Where lm-eval tells its sampler the document, it draws one more to do without it.
    one_more = lm_task.is_drawn and lm_task.fewshot_cfg.split == lm_task.config.test_split
    needed = part.num_fewshot + (1 if one_more else 0)
    if part.num_fewshot and len(lm_task.sampler.df) < needed:
        raise DataError(
            f"{part.name} asks with {part.num_fewshot} examples, for which {part.examples} needs "
            f"{needed} rows, but has {len(lm_task.sampler.df)}; give a folder that has them."
        )


def _group(prepared: PreparedTask) -> Group:
    group = Group.from_config(GroupConfig(**(prepared.task.group or {})))
    for task in prepared.lm_tasks.values():
        group.add(task)
    return group


def _common_source(sources: Sequence[str]) -> str:
    different = list(dict.fromkeys(sources))
    return different[0] if len(different) == 1 else f"{different[0]} and {len(different) - 1} more"


def _data_sha256(splits: Sequence[Dataset]) -> str:
    digest = hashlib.sha256()
    for rows in splits:
        for row in rows:
            digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return digest.hexdigest()
