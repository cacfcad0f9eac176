"""pass@k of base and added tests, with how many problems it's of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from evalplus.eval import estimate_pass_at_k

from ladder_eval.harness.code.judging import Verdict
from ladder_eval.harness.code.problems import Level
from ladder_eval.results.means import mean_interval, mean_stderr

__all__ = ["Score", "Scores", "score"]

_KS: Final = (1, 10, 100)
_LEVELS: Final[tuple[Level, Level]] = ("base", "plus")


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A pass@k.

    Attributes:
        level: base, or plus for base and added tests together.
        k: Samples of which one has to pass.
        value: The mean over problems of 1 - C(n - c, k) / C(n, k), with c of n samples passing
            (Chen et al., arXiv 2107.03374, section 2.1).
        stderr: Its standard error over problems; None where it can't be estimated.
        low: Lower end of the 95 % interval over problems.
        high: Upper end.
        method: How the interval is computed.
    """

    level: Level
    k: int
    value: float
    stderr: float | None
    low: float
    high: float
    method: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """All scores of a file of samples.

    Attributes:
        problems: Problems with a sample.
        of: Problems of the data set.
        samples: All samples.
        scores: pass@k for every k that each of these problems has samples for.
        statuses: Samples by their outcome, a level each.
    """

    problems: int
    of: int
    samples: int
    scores: tuple[Score, ...]
    statuses: Mapping[str, Mapping[str, int]]

    @property
    def subset(self) -> bool:
        """Whether problems are missing, so that the scores aren't those of the data set."""
        return self.problems < self.of

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"subset": self.subset}


def score(verdicts: Mapping[str, Sequence[Verdict]], of: int) -> Scores:
    """Scores of the verdicts on each problem's samples, of a data set with `of` problems.

    Raises:
        ValueError: Without verdicts.
    """
    counts = [len(found) for found in verdicts.values()]
    fewest = min(counts)
    return Scores(
        problems=len(verdicts),
        of=of,
        samples=sum(counts),
        scores=tuple(
            _score(verdicts, counts, level, k) for level in _LEVELS for k in _KS if k <= fewest
        ),
        statuses={
            level: dict(Counter(getattr(v, level) for found in verdicts.values() for v in found))
            for level in _LEVELS
        },
    )


def _score(
    verdicts: Mapping[str, Sequence[Verdict]], counts: Sequence[int], level: Level, k: int
) -> Score:
    right = [sum(getattr(v, level) == "pass" for v in found) for found in verdicts.values()]
    values = [min(1.0, max(0.0, float(v))) for v in estimate_pass_at_k(list(counts), right, k)]
    interval = mean_interval(values)
    return Score(
        level=level,
        k=k,
        value=sum(values) / len(values),
        stderr=mean_stderr(values),
        low=interval.low,
        high=interval.high,
        method=interval.method,
    )
