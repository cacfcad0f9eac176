"""How often intervals hold the truth, and how often the gate says GO wrongly, by simulation.

    nice python benchmarks/coverage.py > coverage.md     # some ten minutes on one core

Draws made-up answers whose true difference is known, many times, computes the product's own
intervals and verdicts, and counts. Prints Markdown. All is seeded.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ladder_eval.results.claims import LEVEL
from ladder_eval.results.differences import difference_interval, differences
from ladder_eval.results.endpoint import stratified, verdict_of
from ladder_eval.results.looks import SHARE
from ladder_eval.results.means import paired_mean_interval
from ladder_eval.results.pairing import Pair
from ladder_eval.results.resampling import bca_interval, bootstrap_ratio, bootstrap_speedup
from ladder_eval.results.statistics import Interval, paired_difference_interval

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

MARGIN = 0.01
LEAST_SPEEDUP = 1.2
FIRST_LEVEL = SHARE * LEVEL


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A line of a table: what was drawn, how often, and shares in percent."""

    cells: tuple[str, ...]
    shares: tuple[float, ...]


interval_of = cache(paired_difference_interval)  # the same counts are drawn again and again


def share(hits: Sequence[bool]) -> float:
    """How many of a hundred."""
    return 100 * sum(hits) / len(hits)


def covers(interval: Interval, truth: float) -> bool:
    """Whether the interval holds the truth."""
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def counts(rng: Rng, n: int, rate: float, difference: float) -> tuple[int, int]:
    """Gains and losses among n documents that disagree at a rate and differ by a difference."""
    disagreements = int(rng.binomial(n, rate))
    losses = int(rng.binomial(disagreements, (rate - difference) / (2 * rate)))
    return disagreements - losses, losses


BINARY = (
    *((40, 0.02), (40, 0.1), (40, 0.3), (300, 0.01), (300, 0.05), (300, 0.1)),
    *((2000, 0.002), (2000, 0.05), (10000, 0.01), (10000, 0.1)),
)


def binary_rows(draws: int) -> Iterator[Row]:
    """Differences of right and wrong answers."""
    rng = np.random.default_rng(1)
    for n, rate in BINARY:
        for part in (0.0, -0.5, -1.0) if rate < 0.05 else (0.0, -0.5):
            truth = part * rate
            drawn = [counts(rng, n, rate, truth) for _ in range(draws)]
            hits = [covers(interval_of(*each, n), truth) for each in drawn]
            text = (f"{n:,}", f"{100 * rate:g} %", f"{100 * truth:+.2g}")
            yield Row(cells=text, shares=(share(hits),))


def dense(rng: Rng, n: int) -> Floats:
    """Every document changes a little, skewed; the mean is 0."""
    return np.clip(rng.exponential(0.05, n) - 0.05, -1, 1)


def heavy(rng: Rng, n: int) -> Floats:
    """Every document changes a little, and some much; the mean is 0."""
    return np.clip(0.05 * rng.standard_t(3, n), -1, 1)


def rare(rng: Rng, n: int) -> Floats:
    """One document in twenty changes, by a quarter, a half or all; the mean is -0.0125."""
    sizes = rng.choice([-1.0, -0.5, -0.25, 0.25, 0.5], n, p=[0.1, 0.3, 0.3, 0.2, 0.1])
    return np.where(rng.uniform(size=n) < 0.05, sizes, 0.0)


def lopsided(rng: Rng, n: int) -> Floats:
    """Few large losses among many small gains, which most methods miss; the mean is -0.001."""
    sizes = rng.choice([-1.0, 0.1], n, p=[0.1, 0.9])
    return np.where(rng.uniform(size=n) < 0.1, sizes, 0.0)


CONTINUOUS: dict[str, tuple[Callable[[Rng, int], Floats], float]] = {
    "dense, skewed": (dense, 0.0),
    "dense, heavy tails": (heavy, 0.0),
    "5 % change": (rare, 0.05 * (-0.1 - 0.15 - 0.075 + 0.05 + 0.05)),
    "10 % change, lopsided": (lopsided, 0.1 * (-0.1 + 0.09)),
}


def pairs_of(values: Floats, sources: Sequence[str] | None = None) -> list[Pair]:
    """Pairs with these differences."""
    named = sources or [""] * len(values)
    return [
        Pair(task="t", metric="f1", baseline=max(0.0, -v), candidate=max(0.0, v), source=name)
        for v, name in zip(values.tolist(), named, strict=True)
    ]


def continuous_rows(draws: int) -> Iterator[Row]:
    """Differences of other fractions: the deciding interval, plain t, and BCa."""
    rng = np.random.default_rng(2)
    for name, (draw, truth) in CONTINUOUS.items():
        for n in (40, 300, 1000):
            drawn = [draw(rng, n) for _ in range(draws)]
            guarded = [covers(difference_interval(differences(pairs_of(x))), truth) for x in drawn]
            plain = [covers(paired_mean_interval(x.tolist()), truth) for x in drawn]
            few = drawn[: max(1, draws // 8)]
            found = [bca_interval(x, np.ones(n)) for x in few]
            bca = [each is not None and covers(each, truth) for each in found]
            yield Row(cells=(name, str(n)), shares=(share(guarded), share(plain), share(bca)))


def clustered_rows(draws: int) -> Iterator[Row]:
    """Right and wrong answers whose sources share what changes: losses follow the source."""
    rng = np.random.default_rng(3)
    for sources, each in ((10, 120), (57, 25), (200, 10)):
        names = [f"s{i}" for i in range(sources) for _ in range(each)]
        exact, wide = [], []
        for _ in range(draws):
            losing = np.repeat(rng.beta(2, 2, sources), each)
            size = sources * each
            signs = np.where(rng.uniform(size=size) < losing, -1.0, 1.0)
            values = np.where(rng.uniform(size=size) < 0.2, signs, 0.0)
            found = differences(pairs_of(values, names))
            exact.append(covers(interval_of(found.gains, found.losses, size), 0.0))
            wide.append(covers(difference_interval(found), 0.0))
        yield Row(cells=(str(sources), str(each)), shares=(share(wide), share(exact)))


def perplexity_rows(draws: int) -> Iterator[Row]:
    """Ratios of perplexities over documents as unequal in length as WikiText's pages."""
    rng = np.random.default_rng(4)
    for n in (8, 20, 62, 300):
        hits = []
        for _ in range(draws):
            weights = np.round(rng.lognormal(8, 0.6, n))
            base = 3 + 0.4 * rng.normal(size=n)
            other = base + 0.01 + 0.03 * rng.normal(size=n)
            found = bootstrap_ratio("word_perplexity", other, base, weights)
            hits.append(found is not None and covers(found, math.exp(0.01)))
        yield Row(cells=(str(n),), shares=(share(hits),))


SUITES = {
    "8 of 40": [40] * 8,
    "3 of 300": [300] * 3,
    "1 of 300": [300],
    "5 of 1,200 to 10,000": [1200, 1300, 1800, 2500, 10000],
}


def accuracy(
    rng: Rng, sizes: Sequence[int], rate: float, truth: float, level: float
) -> tuple[float, Interval]:
    """The endpoint of one draw, as `claims.endpoint` computes it."""
    drawn = [counts(rng, n, rate, truth) for n in sizes]
    means = [(gains - losses) / n for (gains, losses), n in zip(drawn, sizes, strict=True)]
    intervals = [interval_of(*each, n, 1 - 2 * level) for each, n in zip(drawn, sizes, strict=True)]
    return stratified(means, intervals, [1.0] * len(sizes))


def endpoint_rows(draws: int) -> Iterator[Row]:
    """The endpoint at a true drop of just the margin: 95 % interval, and wrong PASS."""
    rng = np.random.default_rng(5)
    for name, sizes in SUITES.items():
        for rate in (0.01, 0.05, 0.1):
            hits = [
                covers(accuracy(rng, sizes, rate, -MARGIN, 0.025)[1], -MARGIN) for _ in range(draws)
            ]
            passed = [
                verdict_of(accuracy(rng, sizes, rate, -MARGIN, LEVEL)[1], -MARGIN) == "PASS"
                for _ in range(draws)
            ]
            yield Row(cells=(name, f"{100 * rate:g} %"), shares=(share(hits), share(passed)))


def normal(rng: Rng, n: int) -> Floats:
    """Rounds that vary by 3 %."""
    return 0.03 * rng.normal(size=n)


def delayed(rng: Rng, n: int) -> Floats:
    """Rounds that vary by 1 %, one in ten of which takes a fifth more."""
    return 0.01 * rng.normal(size=n) + 0.2 * (rng.uniform(size=n) < 0.1)


NOISES = {"3 %, normal": normal, "1 %, and delays": delayed}


def speed(rng: Rng, noise: Callable[[Rng, int], Floats], n: int, truth: float) -> Interval | None:
    """The 90 % interval of a speed-up in n rounds, each of which is slow or fast for both."""
    common = np.exp(0.1 * rng.normal(size=n))
    baseline, candidate = (common * np.exp(noise(rng, n)) for _ in range(2))
    found = bootstrap_speedup(baseline * truth, candidate, 1 - 2 * LEVEL)
    return found[1] if found else None


def speed_rows(draws: int) -> Iterator[Row]:
    """The speed-up at just what is wanted."""
    rng = np.random.default_rng(6)
    for name, noise in NOISES.items():
        for n in (5, 9, 15, 30):
            found = [speed(rng, noise, n, LEAST_SPEEDUP) for _ in range(draws)]
            known = [each for each in found if each is not None]
            hits = [covers(each, LEAST_SPEEDUP) for each in known]
            passed = [verdict_of(each, LEAST_SPEEDUP) == "PASS" for each in known]
            yield Row(cells=(name, str(n)), shares=(share(hits), share(passed)))


def gate_rows(draws: int) -> Iterator[Row]:
    """The gate where one axis, or both, are at the margin, which GO must not say."""
    rng = np.random.default_rng(7)
    cases = {
        "drop at the margin, 1.5 times as fast": (-MARGIN, 1.5),
        "no drop, speed-up as wanted": (0.0, LEAST_SPEEDUP),
        "both at the margin": (-MARGIN, LEAST_SPEEDUP),
    }
    sizes = SUITES["5 of 1,200 to 10,000"]
    for name, (drop, faster) in cases.items():
        go = []
        for _ in range(draws):
            fast = speed(rng, normal, 9, faster)
            small = accuracy(rng, sizes, 0.05, drop, LEVEL)[1]
            passed = fast is not None and verdict_of(fast, LEAST_SPEEDUP) == "PASS"
            go.append(passed and verdict_of(small, -MARGIN) == "PASS")
        yield Row(cells=(name,), shares=(share(go),))


def look_rows(draws: int) -> Iterator[Row]:
    """Two looks at one claim, the second at three times the documents, the first ones among them.

    `corrected` shares the level; `naive` gives each look all of it.
    """
    rng = np.random.default_rng(8)
    levels = {"corrected": (FIRST_LEVEL, SHARE * (LEVEL - FIRST_LEVEL)), "naive": (LEVEL, LEVEL)}
    for rate in (0.05, 0.1):
        wrong: dict[str, list[bool]] = {name: [] for name in levels}
        for _ in range(draws):
            first = counts(rng, 1200, rate, -MARGIN)
            more = counts(rng, 2400, rate, -MARGIN)
            both = (first[0] + more[0], first[1] + more[1])
            for name, (one, two) in levels.items():
                passed = interval_of(*first, 1200, 1 - 2 * one).low > -MARGIN
                wrong[name].append(passed or interval_of(*both, 3600, 1 - 2 * two).low > -MARGIN)
        shares = tuple(share(each) for each in wrong.values())
        yield Row(cells=(f"{100 * rate:g} %",), shares=shares)


TABLES: tuple[tuple[str, tuple[str, ...], Callable[[int], Iterator[Row]], int], ...] = (
    (
        "Right and wrong answers: coverage of the 95 % interval",
        ("documents", "disagreeing", "true difference, points", "coverage %"),
        binary_rows,
        2000,
    ),
    (
        "Other fractions: coverage of 95 % intervals",
        ("differences", "documents", "deciding %", "paired t %", "BCa %, an eighth of the draws"),
        continuous_rows,
        2000,
    ),
    (
        "Documents that share sources: coverage of the 95 % interval",
        ("sources", "documents each", "widened to sources %", "without that %"),
        clustered_rows,
        4000,
    ),
    (
        "Ratio of perplexities: coverage of the 95 % interval",
        ("documents", "coverage %"),
        perplexity_rows,
        2000,
    ),
    (
        "Primary endpoint at a true drop of 1 point, the margin",
        ("tasks, documents each", "disagreeing", "coverage of 95 % %", "wrong PASS %"),
        endpoint_rows,
        2000,
    ),
    (
        "Speed-up of 1.2, just what is wanted",
        ("noise", "rounds", "coverage of 90 % %", "wrong PASS %"),
        speed_rows,
        4000,
    ),
    (
        "The gate: GO that must not be",
        ("truth", "wrong GO %"),
        gate_rows,
        4000,
    ),
    (
        "Two looks at 1,200 and 3,600 documents, true drop 1 point, the margin",
        ("disagreeing", "wrong PASS, corrected %", "wrong PASS, uncorrected %"),
        look_rows,
        4000,
    ),
)


def main() -> None:
    """Print all tables, or those whose numbers, from 1, are given."""
    chosen = [int(each) - 1 for each in sys.argv[1:]] or range(len(TABLES))
    for title, columns, rows, draws in (TABLES[i] for i in chosen):
        heading = [f"### {title}", "", f"{draws:,} draws a row.", ""]
        heading += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        say("\n".join(heading))
        for row in rows(draws):
            say(f"| {' | '.join((*row.cells, *(f'{each:.1f}' for each in row.shares)))} |")
        say("")


def say(line: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
