"""Importing as a job: what lm-eval wrote about any model, into a run's folder."""

from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import UsageError
from ladder_eval.harness.imported import imported
from ladder_eval.harness.lm_eval_results import read_lm_eval
from ladder_eval.harness.suites import load_suite, suite_of
from ladder_eval.pages import write_pages
from ladder_eval.results.records import UNKNOWN, RunResult, from_json, to_json
from ladder_eval.results.store import RunFolder

__all__ = ["Import", "import_results"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """What to import.

    Attributes:
        results: lm-eval's results_*.json, or a folder that holds one.
        suite: The suite whose tasks and headline metrics are taken.
        tasks: Tasks to take instead of a suite's.
        name: What to call the model; None for lm-eval's name.
        residual: The model's residual.
        output_dir: Where the run's folder is made.
    """

    results: Path
    suite: str | None = None
    tasks: tuple[str, ...] = ()
    name: str | None = None
    residual: str = UNKNOWN
    output_dir: Path = Path("runs")


def import_results(wanted: Import) -> tuple[RunResult, Path]:
    """Write the run that lm-eval's results make, and return its result and its folder.

    Raises:
        LadderEvalError: With one sentence that says what to do.
    """
    if bool(wanted.suite) == bool(wanted.tasks):
        raise UsageError("give --suite or --tasks, to say which metrics count.")
    suite = load_suite(wanted.suite) if wanted.suite else suite_of(wanted.tasks)
    found = read_lm_eval(wanted.results)
    made = imported(found, suite, name=wanted.name, residual=wanted.residual)
    from_json(to_json(made.result))  # a number of theirs may be too large for a record
    with RunFolder.open(wanted.output_dir / made.result.run_id) as folder:
        if not made.samples.empty:
            folder.write_samples(made.samples)
        write_pages(folder, made.result)
        return made.result, folder.path
