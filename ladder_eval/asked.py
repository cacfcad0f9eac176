"""What models are asked: a suite's documents in their form, and what judging the answers takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ladder_eval.errors import UsageError
from ladder_eval.harness.catalogue import BENCHMARKS, DataSources
from ladder_eval.harness.chat import Prompting, prompting_of
from ladder_eval.harness.data.releases import release_file
from ladder_eval.harness.evaluation import PreparedTask, prepare
from ladder_eval.harness.fewshot import STOCK
from ladder_eval.harness.judging.options import Judge, judge_at
from ladder_eval.harness.suites import OUTPUTS, PROGRAMS, Suite, load_suite, suite_of
from ladder_eval.options import RunOptions
from ladder_eval.terminal import Terminal

if TYPE_CHECKING:
    from ladder_eval.harness.code.problems import Problems
    from ladder_eval.harness.code.sandbox import Sandbox
    from ladder_eval.harness.code.task import Programs
    from ladder_eval.results.store import RunFolder

__all__ = ["Asked", "Wanted", "ask", "sources_of", "want"]

_DEFAULT_SUITE = "quick"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A suite, and what the user agreed to or gave for judging its answers.

    Attributes:
        suite: The suite.
        sandbox: Where programs run; None where none are written.
        judge: Who judges outputs; None where none are written, or they are to wait.
    """

    suite: Suite
    sandbox: "Sandbox | None"
    judge: Judge | None


def want(options: RunOptions) -> Wanted:
    """The suite that the user wants; nothing is fetched or loaded yet.

    Raises:
        UsageError: if it is unknown, runs programs without the user's consent or a sandbox, or has
            nothing for the judge that was given.
    """
    named = options.suite or _DEFAULT_SUITE
    suite = suite_of(options.tasks) if options.tasks else load_suite(named)
    return Wanted(suite=suite, sandbox=_sandbox(suite, options), judge=_judge(suite, options))


def _sandbox(suite: Suite, options: RunOptions) -> "Sandbox | None":
    writing = suite.answering(PROGRAMS)
    if not writing:
        return None
    if not options.execute_code:
        raise UsageError(
            f"{' and '.join(writing)} of {suite.name} runs programs that the models write on this "
            "machine; pass --execute-code to agree to that, or choose other --tasks."
        )
    from ladder_eval.harness.code.sandbox import find_sandbox  # noqa: PLC0415 - imports evalplus

    return find_sandbox(unsafe=options.unsafe_execution)


def _judge(suite: Suite, options: RunOptions) -> Judge | None:
    if options.judge_url is None or options.judge_model is None:
        return None
    if not suite.answering(OUTPUTS):
        raise UsageError(
            f"{suite.name} has no task for a judge, such as alpaca_eval; leave --judge-url and "
            "--judge-model out."
        )
    return judge_at(options.judge_url, options.judge_model)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the models are asked.

    Attributes:
        suite: The suite, in the form in which it is asked.
        limit: Documents a task; None for all.
        fewshot: How examples are drawn.
        tasks: The tasks with their documents.
        prompting: The form of the questions.
        think_end_token: What closes a reasoning model's thoughts; empty where there are none.
        sandbox: Where programs run.
        problems: Problems and tests of these, by the Hub id of their data set.
    """

    suite: Suite
    limit: int | None
    fewshot: str
    tasks: Sequence[PreparedTask]
    prompting: Prompting
    think_end_token: str
    sandbox: "Sandbox | None"
    problems: "Mapping[str, Problems]"

    @property
    def notes(self) -> list[str]:
        """What a reader has to know about the questions and how answers are judged."""
        found = []
        if self.fewshot == STOCK:
            first = f"; the documents are the first {self.limit} of each of its tasks"
            found.append(
                "Few-shot examples were drawn in lm-eval's own sequence (--fewshot stock)"
                f"{first if self.limit else ''}."
            )
        if self.sandbox is not None and self.sandbox.kind == "none":
            found.append("Programs ran with the user's rights (--unsafe-execution).")
        return found

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of the tasks whose answers wait for a judge."""
        return self.suite.answering(OUTPUTS)

    @property
    def execution(self) -> str:
        """How programs are run, in words; "" where there are none."""
        if self.sandbox is None:
            return ""
        from ladder_eval.harness.code.task import words  # noqa: PLC0415 - imports evalplus

        return words(self.sandbox)

    def programs(self, folder: "RunFolder", terminal: Terminal) -> "Programs | None":
        """Where programs run, and keep their verdicts in a run's folder."""
        if self.sandbox is None:
            return None
        from ladder_eval.harness.code.task import Programs  # noqa: PLC0415 - imports evalplus

        return Programs(
            sandbox=self.sandbox,
            problems=self.problems,
            folder=folder.path / "code",
            bar=terminal.programs,
        )


def sources_of(options: RunOptions, terminal: Terminal) -> DataSources:
    """Where a run takes its data from."""
    return DataSources(
        data_dir=options.data_dir, prefer_hub=options.prefer_hub, notify=terminal.say
    )


def ask(wanted: Wanted, options: RunOptions, terminal: Terminal) -> Asked:
    """Read the suite's data and choose its documents.

    Raises:
        LadderEvalError: if data is missing, or the form of the questions makes no sense.
    """
    suite, sources = wanted.suite, sources_of(options, terminal)
    prompting = prompting_of(
        suite,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.fewshot_as_multiturn,
        system_instruction=options.system_instruction,
    )
    asked = suite.for_chat() if prompting.apply_chat_template else suite
    limit = options.limit or suite.limit
    with terminal.working("reading data"):
        tasks = prepare(
            asked, limit=limit, seed=options.seed, sources=sources, fewshot=options.fewshot
        )
        problems = _problems(asked, sources)
    return Asked(
        suite=asked,
        limit=limit,
        fewshot=options.fewshot,
        tasks=tasks,
        prompting=prompting,
        think_end_token=options.think_end_token or "",
        sandbox=wanted.sandbox,
        problems=problems,
    )


def _problems(suite: Suite, sources: DataSources) -> "dict[str, Problems]":
    """The tests of all programs, by the Hub id of their data set."""
    hub_ids = {
        part.evaluated.hub_id
        for task in suite.tasks
        if task.answers == PROGRAMS
        for part in task.parts
    }
    releases = {hub_id: BENCHMARKS[hub_id].release for hub_id in sorted(hub_ids)}
    if not releases:
        return {}
    from ladder_eval.harness.code.problems import read_problems  # noqa: PLC0415 - as above

    return {
        hub_id: read_problems(release.name, release_file(release, sources))
        for hub_id, release in releases.items()
        if release is not None
    }
