"""The length-controlled win rate, against scipy's optimiser and by what it must not depend on."""

import numpy as np
import pytest
from scipy import optimize

from ladder_eval.results import length_controlled as lc
from ladder_eval.results.win_rates import win_rate

DOCUMENTS = 120


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gamed_baselines(rng, difficulties):
    """Two baselines that differ from the reference by length alone, which the judge likes."""
    lengths = np.concatenate([rng.normal(-1, 0.7, DOCUMENTS), rng.normal(1, 0.7, DOCUMENTS)])
    g = np.tile(difficulties, 2)
    return lc.GamedBaselines(
        documents=np.tile(np.arange(DOCUMENTS), 2),
        probabilities=sigmoid(-1.2 * np.tanh(lengths)),
        lengths=lengths,
        difficulties=g,
    )


@pytest.fixture
def setting():
    rng = np.random.default_rng(7)
    difficulties = rng.normal(0, 0.6, DOCUMENTS)
    return rng, difficulties, gamed_baselines(rng, difficulties)


def verdicts(rng, difficulties, deltas, own, length=-1.2):
    scaled = np.tanh(deltas / deltas.std(ddof=1))
    p = sigmoid(length * scaled + 0.9 * difficulties + own + rng.normal(0, 0.5, len(deltas)))
    return (1 + p).tolist()


def independent_rate(preferences, deltas, gamed, difficulties, penalty):
    """Weighted cross-entropy with |w|₁ / C in split variables, minimised by L-BFGS-B."""
    own = np.r_[np.zeros(len(gamed.lengths)), np.ones(len(deltas))]
    x = np.column_stack(
        [
            np.tanh(np.r_[gamed.lengths, deltas / np.std(deltas, ddof=1)]),
            np.r_[gamed.difficulties, difficulties],
            own,
        ]
    )
    p = np.r_[gamed.probabilities, np.asarray(preferences) - 1]
    weights = np.where(own == 1, 1, 0.1)

    def loss(split):
        logits = x @ (split[:3] - split[3:])
        cross = np.logaddexp(0, logits) - p * logits
        slope = x.T @ (weights * (sigmoid(logits) - p))
        return split.sum() + penalty * weights @ cross, np.r_[
            1 + penalty * slope, 1 - penalty * slope
        ]

    found = optimize.minimize(
        loss,
        np.zeros(6),
        jac=True,
        bounds=[(0, None)] * 6,
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000},
    )
    w = found.x[:3] - found.x[3:]
    return 100 * sigmoid(w[1] * difficulties + w[2]).mean(), w


def test_agrees_with_an_independent_optimiser(setting):
    rng, difficulties, gamed = setting
    deltas = rng.normal(-200, 400, DOCUMENTS).round()
    preferences = verdicts(rng, difficulties, deltas, own=-0.4)
    found = lc.length_controlled(
        preferences, deltas, range(DOCUMENTS), gamed, difficulties, resamples=0
    )
    expected, weights = independent_rate(preferences, deltas, gamed, difficulties, found.penalty)
    assert found.rate.percent == pytest.approx(expected, abs=0.02)
    assert [found.length, found.difficulty, found.model] == pytest.approx(weights, abs=0.01)


def test_a_strong_penalty_agrees_too(setting, monkeypatch):
    rng, difficulties, gamed = setting
    monkeypatch.setattr(lc, "PENALTIES", (0.05,))
    deltas = rng.normal(-200, 400, DOCUMENTS).round()
    preferences = verdicts(rng, difficulties, deltas, own=1)
    found = lc.length_controlled(
        preferences, deltas, range(DOCUMENTS), gamed, difficulties, resamples=0
    )
    expected, _ = independent_rate(preferences, deltas, gamed, difficulties, 0.05)
    assert found.penalty == 0.05
    assert found.rate.percent == pytest.approx(expected, abs=0.02)


def test_longer_outputs_lose_what_length_won(setting):
    rng, difficulties, gamed = setting
    # A reference that is as good; where the model writes more, the judge prefers it.
    deltas = -np.abs(rng.normal(600, 300, DOCUMENTS)).round()
    preferences = verdicts(rng, difficulties, deltas, own=0)
    found = lc.length_controlled(
        preferences, deltas, range(DOCUMENTS), gamed, difficulties, resamples=0
    )
    assert win_rate(preferences).percent > 65
    assert found.length < 0
    assert found.rate.percent == pytest.approx(50, abs=6)


def test_equal_outputs_are_even(setting):
    _, difficulties, gamed = setting
    even = lc.length_controlled(
        [1.5] * DOCUMENTS, [0] * DOCUMENTS, range(DOCUMENTS), gamed, difficulties, resamples=0
    )
    assert even.rate.percent == pytest.approx(50, abs=0.5)


def test_the_unit_of_length_and_the_order_of_rows_mean_nothing(setting, monkeypatch):
    monkeypatch.setattr(lc, "PENALTIES", (20.0,))  # folds, which choose it, are of rows in order
    rng, difficulties, gamed = setting
    deltas = rng.normal(-200, 400, DOCUMENTS).round()
    preferences = np.asarray(verdicts(rng, difficulties, deltas, own=-0.4))
    order = rng.permutation(DOCUMENTS)
    arguments = (gamed, difficulties, 0)
    one = lc.length_controlled(preferences, deltas, range(DOCUMENTS), *arguments)
    other = lc.length_controlled(preferences[order], 7 * deltas[order], order, *arguments)
    assert one.rate.percent == pytest.approx(other.rate.percent, abs=0.01)


def test_the_standard_error_is_that_of_drawn_and_refitted_documents(setting):
    rng, difficulties, gamed = setting
    deltas = rng.normal(-200, 400, DOCUMENTS).round()
    preferences = np.asarray(verdicts(rng, difficulties, deltas, own=-0.4))
    found = lc.length_controlled(
        preferences, deltas, range(DOCUMENTS), gamed, difficulties, resamples=200
    )
    again = lc.length_controlled(
        preferences, deltas, range(DOCUMENTS), gamed, difficulties, resamples=200
    )
    rates = []
    for _ in range(100):  # whole rows drawn and copied, rather than counted
        drawn = rng.integers(0, DOCUMENTS, DOCUMENTS)
        both = np.r_[drawn, drawn + DOCUMENTS]
        copied = lc.GamedBaselines(
            documents=gamed.documents[both],
            probabilities=gamed.probabilities[both],
            lengths=gamed.lengths[both],
            difficulties=gamed.difficulties[both],
        )
        rate, _ = independent_rate(
            preferences[drawn], deltas[drawn], copied, difficulties[drawn], found.penalty
        )
        rates.append(rate)
    assert again == found
    assert found.rate.stderr == pytest.approx(np.std(rates, ddof=1), rel=0.25)


def test_documents_without_verdict_are_left_out_and_keep_their_gamed_rows(setting):
    rng, difficulties, gamed = setting
    deltas = rng.normal(-200, 400, DOCUMENTS).round()
    preferences = np.asarray(verdicts(rng, difficulties, deltas, own=-0.4))
    kept = np.arange(5, DOCUMENTS)
    found = lc.length_controlled(
        preferences[kept], deltas[kept], kept, gamed, difficulties, resamples=3
    )
    expected, _ = independent_rate(
        preferences[kept], deltas[kept], gamed, difficulties[kept], found.penalty
    )
    assert found.rate.percent == pytest.approx(expected, abs=0.02)
    assert found.rate.stderr is not None
