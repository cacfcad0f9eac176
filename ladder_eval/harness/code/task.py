"""Tasks whose answers are programs: lm-eval asks for them, evalplus' tests judge them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final, Protocol, cast

from lm_eval.api.instance import Instance

from ladder_eval.errors import DataError
from ladder_eval.harness.code.checking import verdicts
from ladder_eval.harness.code.extraction import program
from ladder_eval.harness.code.judging import Verdict
from ladder_eval.harness.code.problems import Problems
from ladder_eval.harness.code.samples import Sample
from ladder_eval.harness.code.sandbox import Sandbox
from ladder_eval.harness.fewshot import FewShotTask, Template

__all__ = ["FILTER", "CodeTask", "Programs", "words"]

FILTER: Final = "evalplus"
"""Name of the filter that makes verdicts of answers."""


class Bar(Protocol):
    """Who is told how far the running of programs has come."""

    def advance(self, number: int) -> None:
        """So many more have their verdict, which is on disk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """Where programs run that models write, and where their verdicts are kept.

    A verdict depends on program, tests and sandbox alone, so that models share them.

    Attributes:
        sandbox: The sandbox, tried out.
        problems: Problems and tests, by the Hub id of their data set.
        folder: Where verdicts are kept.
        bar: Shows a bar of so many programs.
        workers: Programs that run at a time: half of the cores, since tests are timed.
    """

    sandbox: Sandbox
    problems: Mapping[str, Problems]
    folder: Path
    bar: Callable[[int], AbstractContextManager[Bar]]
    workers: int = field(default_factory=lambda: max(1, (os.cpu_count() or 2) // 2))

    def judge(self, problems: Problems, samples: Sequence[Sample]) -> list[Verdict]:
        """The verdict on each sample.

        Raises:
            DataError: If a canonical solution doesn't run here.
            RecordError: If the folder can't be written.
        """
        with self.bar(len(samples)) as bar:
            return verdicts(
                samples,
                problems,
                self.sandbox,
                folder=self.folder,
                workers=self.workers,
                advance=bar.advance,
            )


class CodeTask(FewShotTask):
    """An lm-eval task whose filter runs all answers, when all of them are written."""

    _programs: Programs | None = None

    def begin(self, *, template: Template | None, programs: Programs | None = None) -> None:
        """As `FewShotTask.begin`.

        Raises:
            ValueError: If programs run nowhere.
        """
        if programs is None:
            raise ValueError(f"{self.config.task} needs a place where programs run")
        self._programs = programs
        super().begin(template=template)

    def apply_filters(self) -> list[Instance]:
        """Give each answer its verdict.

        Raises:
            DataError: If a problem has no tests, or its canonical solution doesn't run here.
            RecordError: If verdicts can't be written.
        """
        programs = cast("Programs", self._programs)  # set by `begin`
        problems = programs.problems[self.config.dataset_path]
        instances: list[Instance] = self.instances
        samples = [sample for each in instances for sample in self._samples(each, problems)]
        found = iter(zip(samples, programs.judge(problems, samples), strict=True))
        for instance in instances:
            own = [next(found) for _ in instance.resps]
            instance.filtered_resps[FILTER] = [
                {"program": sample.code, **verdict.plain()} for sample, verdict in own
            ]
        return instances

    def _samples(self, instance: Instance, problems: Problems) -> Iterator[Sample]:
        task_id = instance.doc["task_id"]
        problem = problems.by_id.get(task_id)
        if problem is None:
            raise DataError(f"There are no tests of {task_id}; fetch {problems.dataset} again.")
        for place, text in enumerate(instance.resps):
            # In the chat template, prompts ask for a whole program.
            code = program(text, problem, continues=self.template is None)
            yield Sample(task_id, place, code)


def words(sandbox: Sandbox) -> str:
    """How programs are run, in words."""
    where = "with the user's rights, unsafe" if sandbox.kind == "none" else f"in {sandbox.kind}"
    return f"programs run {where}, evalplus {version('evalplus')}, Python {python_version()}"
