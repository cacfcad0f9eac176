"""One program against the tests of its problem."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ladder_eval.harness.code.comparison import Comparison
from ladder_eval.harness.code.ground_truth import Truth
from ladder_eval.harness.code.limits import Limits, time_limits, total_limit
from ladder_eval.harness.code.problems import Level, Problem
from ladder_eval.harness.code.running import Failure, Job, NoValueError, run
from ladder_eval.harness.code.sandbox import Sandbox

__all__ = ["Status", "Verdict", "judge"]

Status = Literal["pass", "wrong answer"] | Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How a program did.

    Attributes:
        base: The outcome of the base tests.
        plus: That of base and added tests together: the latter run only after a pass.
        detail: What the program failed at; empty for a pass.
        retried: Whether it ran again with nothing beside it, since it had taken too long.
    """

    base: Status
    plus: Status
    detail: str = ""
    retried: bool = False

    @property
    def timed_out(self) -> bool:
        """Whether a limit of time decided."""
        return "timeout" in {self.base, self.plus}

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def once_more(self) -> "Verdict":
        """The same, of a second attempt."""
        return replace(self, retried=True)


def judge(problem: Problem, code: str, truth: Truth, sandbox: Sandbox) -> Verdict:
    """Run the base tests and, after a pass, the added ones, each level in a fresh process."""
    base, detail = _level(problem, code, truth, "base", sandbox)
    if base != "pass":
        return Verdict(base=base, plus=base, detail=detail)
    plus, detail = _level(problem, code, truth, "plus", sandbox)
    return Verdict(base=base, plus=plus, detail=detail)


def _level(
    problem: Problem, code: str, truth: Truth, level: Level, sandbox: Sandbox
) -> tuple[Status, str]:
    """The outcome, and what the first failure was."""
    place = 0
    try:
        for agrees in _agreements(problem, code, truth, level, sandbox):
            if not agrees:
                return "wrong answer", f"{level} test {place}"
            place += 1
    except NoValueError as error:
        return error.kind, f"{level} test {place}: {error}"
    return "pass", ""


def _agreements(
    problem: Problem, code: str, truth: Truth, level: Level, sandbox: Sandbox
) -> Iterator[bool]:
    comparison, inputs = Comparison(problem), problem.inputs[level]
    job = _job(problem, code, truth, level, sandbox.limits)
    with closing(run(job, sandbox)) as outputs:
        tests = zip(inputs, truth.values[level], job.seconds, outputs, strict=True)
        for given, expected, limit, output in tests:
            if output.seconds > limit:
                raise NoValueError("timeout", f"{output.seconds:.1f} seconds")
            yield comparison.agrees(given, output.value, expected)


def _job(problem: Problem, code: str, truth: Truth, level: Level, limits: Limits) -> Job:
    seconds = truth.seconds[level]
    return Job(
        code=code,
        entry_point=problem.entry_point,
        inputs=problem.inputs[level],
        seconds=time_limits(seconds),
        total=total_limit(seconds, limits),
    )
