"""lm-eval's results of any model as a run.

Where samples were logged, scores are computed from them as a run's are, and prompts and documents
are hashed as a run's are, so that equal ones are found equal. Where only aggregated results exist,
these are the scores, and what was asked isn't known.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

import ladder_eval
from ladder_eval.errors import LadderEvalError, RecordError, UsageError, brief
from ladder_eval.harness.chat import Prompting
from ladder_eval.harness.imported_tasks import ImportedTask, find_task
from ladder_eval.harness.lm_eval_results import LmEvalResults
from ladder_eval.harness.suites import Suite
from ladder_eval.results.records import UNKNOWN, ModelRecord, Provenance, RunResult
from ladder_eval.results.samples import SAMPLE_COLUMNS
from ladder_eval.results.store import slug
from ladder_eval.results.summary import scores

__all__ = ["Imported", "imported"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """Imported results.

    Attributes:
        result: The run that they make.
        samples: A row a document and filter, of the tasks whose samples were logged.
    """

    result: RunResult
    samples: pd.DataFrame


def imported(found: LmEvalResults, suite: Suite, *, name: str | None, residual: str) -> Imported:
    """Make a run of lm-eval's results.

    Args:
        found: The results.
        suite: Its tasks and headline metrics are taken.
        name: What to call the model; None for lm-eval's name.
        residual: The model's residual, which lm-eval doesn't know.

    Raises:
        UsageError: If the results have none of the suite's tasks.
        RecordError: If the samples aren't those of the results, or aren't as lm-eval writes them.
    """
    try:
        return _imported(found, suite, name, residual)
    except LadderEvalError:
        raise
    except Exception as error:  # results are tables of anything, and whoever wrote them chose
        raise RecordError(
            f"{found.file}, or the samples beside it, aren't as lm-eval writes them "
            f"({brief(repr(error))}); restore them."
        ) from None


def _imported(found: LmEvalResults, suite: Suite, name: str | None, residual: str) -> Imported:
    model = _model(found, name or str(found.values.get("model_name") or UNKNOWN), residual)
    looked = [find_task(found, task, model.name) for task in suite.tasks]
    tasks = [task for task in looked if task is not None]
    if not tasks:
        known = brief(", ".join(found.values["results"]))
        raise UsageError(f"{found.file} has results of {known}, and none of {suite.name}'s.")
    rows = [row for task in tasks for row in task.rows]
    samples = pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS))
    limit = found.config.get("limit")
    result = RunResult(
        run_id=_run_id(found, suite, model),
        suite=suite.name,
        limit=int(limit) if isinstance(limit, int | float) and limit >= 1 else None,
        seed=int(found.config.get("random_seed") or 0),
        baseline=None,
        provenance=_provenance(found),
        models=(model,),
        tasks=tuple(task.record() for task in tasks),
        scores=(*scores(samples), *(task.score(model.name) for task in tasks if not task.rows)),
        comparisons=(),
        warnings=tuple(_warnings(suite, tasks)),
        average_tasks=suite.average,
    )
    return Imported(result=result, samples=samples)


def _model(found: LmEvalResults, name: str, residual: str) -> ModelRecord:
    """What lm-eval says of a model; its dtype and number of weights only of some kinds."""
    values, config = found.values, found.config
    parameters, rows = config.get("model_num_parameters"), config.get("batch_size")
    version, source = values.get("lm_eval_version", "of unknown version"), config.get("model")
    return ModelRecord(
        name=name,
        residual=residual,
        ladder_layers=(),
        num_hidden_layers=None,
        parameters=parameters if isinstance(parameters, int) and parameters > 0 else None,
        weights=str(values.get("model_name") or UNKNOWN),
        weights_sha256=UNKNOWN,
        tokenizer_sha256=UNKNOWN,
        fingerprint=_fingerprint(found),
        adaptation=UNKNOWN,
        dtype=str(config.get("model_dtype") or UNKNOWN).removeprefix("torch."),
        device=str(config.get("device") or UNKNOWN),
        tp_size=None,
        tp_backend=UNKNOWN,
        heads_per_rank=(),
        kv_heads_per_rank=(),
        weight_bytes_per_rank=(),
        tp_check=None,
        batch_size=int(str(rows)) if str(rows).isdecimal() else None,
        prompts=_prompts(found),
        bos=UNKNOWN,
        cut_texts=0,
        truncated_requests=0,
        scored_requests=0,
        reused_requests=0,
        scored_tokens=0,
        scoring_seconds=0.0,
        origin=f"{found.file.name} of lm-eval {version} ({_in_words(source, config)})",
    )


def _in_words(source: object, config: object) -> str:
    arguments = config.get("model_args") if isinstance(config, dict) else None
    if isinstance(arguments, dict):
        arguments = ",".join(f"{key}={value}" for key, value in arguments.items())
    return f"{source or 'unknown model'}: {arguments}" if arguments else f"{source or UNKNOWN}"


def _fingerprint(found: LmEvalResults) -> str:
    """A hash of what lm-eval says of the model, so that the same one is found again.

    It isn't a hash of weights: those of a folder may have changed meanwhile.
    """
    said = ("model", "model_args", "model_dtype", "model_revision", "model_sha")
    text = json.dumps([found.config.get(name) for name in said], default=str)
    return hashlib.sha256(f"lm-eval {text}".encode()).hexdigest()


def _prompts(found: LmEvalResults) -> str:
    """In which form questions were asked, in the words of a run."""
    values = found.values
    in_chat = bool(values.get("chat_template"))
    form = Prompting(
        apply_chat_template=in_chat,
        # Without a template lm-eval records its default, which then means nothing.
        fewshot_as_multiturn=in_chat and bool(values.get("fewshot_as_multiturn")),
        system_instruction=values.get("system_instruction") or None,
    )
    digest = values.get("chat_template_sha")
    return f"{form} (SHA-256 {digest[:12]})" if digest else str(form)


def _provenance(found: LmEvalResults) -> Provenance:
    values = found.values
    said = {"lm-eval": "lm_eval_version", "transformers": "transformers_version"}
    versions = {name: str(values[key]) for name, key in said.items() if values.get(key)}
    return Provenance(
        versions={"ladder-eval": ladder_eval.__version__, **versions},
        commit=None,
        hardware={},
        command=tuple(sys.argv),
        started_at=found.started_at,
        seconds=float(values.get("total_evaluation_time_seconds") or 0),
        peak_memory_bytes=(),
    )


def _run_id(found: LmEvalResults, suite: Suite, model: ModelRecord) -> str:
    """A name that the same results of the same tasks have again."""
    text = json.dumps(
        [found.values, [task.name for task in suite.tasks], model.name, model.residual]
    )
    return f"{slug(f'{suite.name}-{model.name}')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _warnings(suite: Suite, tasks: Sequence[ImportedTask]) -> Iterator[str]:
    found = {each.task.name for each in tasks}
    if missing := [task.name for task in suite.tasks if task.name not in found]:
        yield f"The imported results have nothing on {', '.join(missing)} of {suite.name}."
    if bare := [each.task.name for each in tasks if not each.rows]:
        yield (
            f"Of {', '.join(bare)} only aggregated results were imported, so that what was asked "
            "isn't known and nothing can be compared in pairs."
        )
