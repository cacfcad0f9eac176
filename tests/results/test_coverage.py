"""A small, seeded version of `benchmarks/coverage.py`: intervals and verdicts on known truths."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_differences_of_few_documents_are_covered(simulation):
    rng = np.random.default_rng(1)
    for rate, truth in ((0.02, -0.02), (0.1, 0.0), (0.3, -0.15)):
        drawn = [simulation.counts(rng, 40, rate, truth) for _ in range(500)]
        hits = [simulation.covers(simulation.interval_of(*each, 40), truth) for each in drawn]
        assert simulation.share(hits) >= 94


@pytest.mark.parametrize("name", ["dense, skewed", "5 % change", "10 % change, lopsided"])
def test_differences_of_fractions_are_covered_where_t_is_not(simulation, monkeypatch, name):
    monkeypatch.setattr(simulation, "CONTINUOUS", {name: simulation.CONTINUOUS[name]})
    row = next(simulation.continuous_rows(200))
    deciding, plain, _ = row.shares
    assert row.cells == (name, "40")
    assert deciding >= 94
    assert plain < deciding


def test_sources_that_are_shared_are_covered(simulation):
    widened, exact = next(simulation.clustered_rows(50)).shares
    assert widened >= 92  # 46 of 50 draws
    assert exact < widened - 5


def test_the_endpoint_rarely_passes_at_the_margin(simulation):
    rng = np.random.default_rng(5)
    level, margin = simulation.LEVEL, simulation.MARGIN
    drawn = [simulation.accuracy(rng, [40] * 8, 0.05, -margin, level)[1] for _ in range(500)]
    passed = [simulation.verdict_of(each, -margin) == "PASS" for each in drawn]
    assert simulation.share(passed) <= 5


def test_speed_rarely_passes_at_what_is_wanted(simulation):
    rng = np.random.default_rng(6)
    found = [simulation.speed(rng, simulation.normal, 9, 1.2) for _ in range(400)]
    passed = [simulation.verdict_of(each, 1.2) == "PASS" for each in found]
    assert simulation.share(passed) <= 6.5  # 5 % with 400 draws
    fast = [simulation.speed(rng, simulation.normal, 9, 1.3) for _ in range(100)]
    assert simulation.share([simulation.verdict_of(each, 1.2) == "PASS" for each in fast]) > 90
