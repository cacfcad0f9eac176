"""AlpacaEval 2's length-controlled win rate: what a judge would prefer were both as long.

The model is that of Dubois et al. (arXiv 2404.04475), in the form in which the leaderboard's
`length_controlled_v1` fits it. With d the reference's length minus the model's, in characters, over
its standard deviation, and g a document's difficulty:

    P(the model is preferred) = sigmoid(a tanh(d) + b g + c)

It is fitted to the judge's probabilities by logistic regression with an L1 penalty and no
intercept. Beside the model's documents stand those of two *gamed* baselines, the reference told to
be verbose and to be concise, for which c is left out: they hold a and b to what length alone does.
The rate is 100 times the mean of the probabilities with d = 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ladder_eval.results.win_rates import Rate, probabilities

__all__ = ["GamedBaselines", "LengthControlled", "length_controlled"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

GAMED_WEIGHT: Final = 0.1
"""What a gamed row counts: a regularisation of 0.2, halved since there are two gamed baselines."""

PENALTIES: Final = tuple(np.logspace(-4, 4, 10).tolist())
"""Inverse strengths of the penalty (scikit-learn's C) that cross-validation chooses from."""

FOLDS: Final = 5
RESAMPLES: Final = 1000
_SEED: Final = 123


@dataclass(frozen=True, kw_only=True, slots=True)
class GamedBaselines:
    """The annotations that hold the length and difficulty terms; all arrays are [row].

    Attributes:
        documents: Each row's document, by its place in the reference.
        probabilities: What the judge gave the gamed output, from 0 to 1.
        lengths: Its d, already divided by its standard deviation.
        difficulties: Its document's g.
    """

    documents: Integers
    probabilities: Floats
    lengths: Floats
    difficulties: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthControlled:
    """The rate, and the fit that gave it.

    Attributes:
        rate: The length-controlled win rate. The standard error is over documents drawn anew, each
            with its gamed rows, and every draw is fitted again; the leaderboard's own, which takes
            the fit for certain, is several times smaller.
        length: The coefficient a.
        difficulty: The coefficient b.
        model: The coefficient c.
        penalty: The C that cross-validation chose; draws are fitted with it.
        resamples: Draws of documents.
        draws: The rate in each draw. Draws are the same for all models with the same documents, so
            that those of two are pairs.
    """

    rate: Rate
    length: float
    difficulty: float
    model: float
    penalty: float | None
    resamples: int
    draws: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Samples:
    """What is fitted: gamed rows, and after them the model's own; all arrays are [row].

    Attributes:
        deltas: Differences of length; only those of gamed rows are scaled already, since the
            model's scale depends on which documents are drawn.
        difficulties: Difficulties.
        own: Whether a row is the model's.
        targets: Probabilities.
        documents: Documents; a draw takes all rows of one.
    """

    deltas: Floats
    difficulties: Floats
    own: npt.NDArray[np.bool_]
    targets: Floats
    documents: Integers

    @property
    def weights(self) -> Floats:
        return np.where(self.own, 1.0, GAMED_WEIGHT)


def length_controlled(
    preferences: Sequence[float],
    deltas: Sequence[float],
    documents: Sequence[int],
    gamed: GamedBaselines,
    difficulties: Floats,
    resamples: int = RESAMPLES,
) -> LengthControlled:
    """Fit the model and give its length-controlled win rate.

    Args:
        preferences: The judge's, from 1 to 2.
        deltas: Length of the reference's output minus that of the model's, in characters.
        documents: The place of each in the reference, which is also its place in `difficulties`.
        gamed: The gamed baselines.
        difficulties: g of every document of the reference.
        resamples: Draws for the standard error.

    Raises:
        ValueError: As for `win_rates.probabilities`.
    """
    samples = _samples(preferences, deltas, documents, gamed, difficulties)
    once = np.ones(len(samples.targets))
    penalty = _chosen_penalty(samples)
    fitted = _fit(samples, once, penalty)
    draws = _draws(samples, resamples)
    drawn = [_rate(_fit(samples, counts, penalty), samples, counts) for counts in draws]
    stderr = float(np.std(drawn, ddof=1)) if len(drawn) > 1 and np.ptp(drawn) else None
    return LengthControlled(
        rate=Rate(percent=_rate(fitted, samples, once), stderr=stderr),
        length=float(fitted[0]),
        difficulty=float(fitted[1]),
        model=float(fitted[2]),
        penalty=penalty,
        resamples=resamples,
        draws=tuple(drawn),
    )


def _samples(
    preferences: Sequence[float],
    deltas: Sequence[float],
    documents: Sequence[int],
    gamed: GamedBaselines,
    difficulties: Floats,
) -> _Samples:
    places = np.asarray(documents, dtype=np.int64)
    own = np.repeat([False, True], [len(gamed.documents), len(places)])
    return _Samples(
        deltas=np.concatenate([gamed.lengths, np.asarray(deltas, dtype=np.float64)]),
        difficulties=np.concatenate([gamed.difficulties, difficulties[places]]),
        own=own,
        targets=np.concatenate([gamed.probabilities, probabilities(preferences)]),
        documents=np.concatenate([gamed.documents, places]),
    )


def _features(samples: _Samples, counts: Floats) -> Floats:
    """tanh(d), g and whether c applies, [row, 3], where each row stands `counts` times."""
    own = samples.own
    scaled = samples.deltas.copy()
    scaled[own] /= _spread(scaled[own], counts[own])
    return np.column_stack([np.tanh(scaled), samples.difficulties, own])


def _spread(values: Floats, counts: Floats) -> float:
    """Standard deviation with n - 1; 1 where there is none, as of a model against itself."""
    n = counts.sum()
    squares = counts @ (values - counts @ values / n) ** 2
    return float(np.sqrt(squares / (n - 1))) if n > 1 and squares > 0 else 1.0


def _fit(samples: _Samples, counts: Floats, penalty: float) -> Floats:
    """The coefficients a, b and c, where each row stands `counts` times."""
    weights = counts * samples.weights
    return _regression(_features(samples, counts), samples.targets, weights, penalty, _SEED)


def _regression(
    features: Floats,
    targets: Floats,
    weights: Floats,
    penalty: float,
    seed: int | np.random.RandomState,
) -> Floats:
    """Coefficients for targets that are probabilities.

    scikit-learn wants classes: each row stands once as class 1 with the weight of its probability,
    and once as class 0 with that of the rest.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow, for this alone

    kept = weights > 0
    x, p, w = features[kept], targets[kept], weights[kept]
    model = LogisticRegression(
        C=penalty, l1_ratio=1, solver="liblinear", fit_intercept=False, random_state=seed
    )
    classes = np.repeat([1, 0], len(p))
    model.fit(np.vstack([x, x]), classes, sample_weight=np.concatenate([w * p, w * (1 - p)]))
    return np.asarray(model.coef_[0], dtype=np.float64)


def _chosen_penalty(samples: _Samples) -> float:
    """The C with the least mean log loss over folds of rows; lengths keep the scale of all rows.

    The loss is flat beyond some C, so that the choice depends on how the solver is seeded: as
    scikit-learn's LogisticRegressionCV does it, once a fold.
    """
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415 - as in _regression

    x = _features(samples, np.ones(len(samples.targets)))
    p, w = samples.targets, samples.weights
    rows = np.arange(len(p))
    # Both classes of a row are in one fold, and the leaderboard's folds are of such pairs.
    pairs = np.concatenate([rows, rows])
    losses = np.zeros(len(PENALTIES))
    for train, test in GroupKFold(FOLDS).split(pairs, groups=pairs):
        inside, held = np.isin(rows, pairs[train]), np.unique(pairs[test])
        seed = np.random.RandomState(_SEED)
        fits = [_regression(x, p, w * inside, penalty, seed) for penalty in PENALTIES]
        losses += [_log_loss(x[held] @ fit, p[held], w[held]) for fit in fits]
    return float(PENALTIES[int(np.argmin(losses))])


def _log_loss(logits: Floats, targets: Floats, weights: Floats) -> float:
    q = np.clip(_sigmoid(logits), 1e-15, 1 - 1e-15)
    return float(-np.mean(weights * (targets * np.log(q) + (1 - targets) * np.log(1 - q))))


def _sigmoid(x: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -x))


def _rate(fitted: Floats, samples: _Samples, counts: Floats) -> float:
    """100 times the mean probability of the model's documents with d = 0."""
    own = samples.own
    even = _sigmoid(fitted[1] * samples.difficulties[own] + fitted[2])
    return float(100 * (counts[own] @ even) / counts[own].sum())


def _draws(samples: _Samples, resamples: int) -> list[Floats]:
    """How often each row stands in each draw of the model's documents, with their gamed rows.

    Gamed rows of documents that the model has no verdict for stay as they are.
    """
    drawn = np.unique(samples.documents[samples.own])
    n = len(drawn)
    counts = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), size=resamples)
    place = np.minimum(np.searchsorted(drawn, samples.documents), n - 1)
    known = drawn[place] == samples.documents
    return [np.where(known, row[place], 1.0) for row in counts]
