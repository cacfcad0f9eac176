"""How far predictions are from what was logged of models that weren't fitted."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ladder_eval.errors import DataError
from ladder_eval.speed.calibrate import fit, judged, predictions
from ladder_eval.speed.constants import CONSTANTS, Calibrated, Constants
from ladder_eval.speed.timing_logs import LogRow, speedups


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Sizes of relative errors.

    Attributes:
        count: How many there are.
        median: Their median.
        ninth: Their 90th percentile.
        largest: The largest.
    """

    count: int
    median: float
    ninth: float
    largest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Fitted on some models' rows, judged on others'.

    Speed-ups are of rows on several ranks over standard in the same setting (model, tp_size,
    batch size, link, mode); an error is |predicted / logged - 1|. The medians are a predictor
    without physics: the median speed-up of the fitted rows of the same residual, tp_size and link.

    Attributes:
        fitted: Models whose rows were fitted.
        tested: The others.
        constants: What was fitted.
        speedup: Errors of the model's speed-ups.
        medians: Errors of the medians, on the same rows.
        tokens_per_s: Errors of the model's tokens/s, of rows on several ranks.
    """

    fitted: tuple[str, ...]
    tested: tuple[str, ...]
    constants: Constants
    speedup: Errors
    medians: Errors
    tokens_per_s: Errors


def splits(rows: Sequence[LogRow], machine: Calibrated) -> Iterator[Split]:
    """For each model of the logs: fitted on its rows alone, judged on all others'.

    Nothing for logs of one model.

    Raises:
        DataError: if a model has too few rows to fit, or none to be judged by.
    """
    models = list(dict.fromkeys(row.model for row in rows))
    for model in models if len(models) > 1 else ():
        own = [row for row in judged(rows) if row.model == model]
        others = [row for row in judged(rows) if row.model != model]
        fitted = fit(own, machine, source="", command="")
        speedup, medians = _speedup_errors(own, others, fitted)
        yield Split(
            fitted=(model,),
            tested=tuple(other for other in models if other != model),
            constants=fitted.constants,
            speedup=speedup,
            medians=medians,
            tokens_per_s=_token_errors(others, fitted),
        )


def _speedup_errors(
    own: Sequence[LogRow], others: Sequence[LogRow], machine: Calibrated
) -> tuple[Errors, Errors]:
    table = medians(own)
    logged = speedups(others, (row.seconds for row in others))
    made = speedups(others, (each.seconds for each in predictions(others, machine)))
    # Both are judged where both have an answer.
    common = [index for index in logged if _group(others[index]) in table]
    return (
        _errors([made[index] / logged[index] - 1 for index in common]),
        _errors([table[_group(others[index])] / logged[index] - 1 for index in common]),
    )


def _token_errors(rows: Sequence[LogRow], machine: Calibrated) -> Errors:
    several = [row for row in rows if row.setting.tp_size > 1]
    made = predictions(several, machine)
    # Tokens a second are inverse to seconds.
    pairs = zip(several, made, strict=True)
    return _errors([row.seconds / own.seconds - 1 for row, own in pairs])


def medians(rows: Sequence[LogRow]) -> Mapping[tuple[str, int, str], float]:
    """The median logged speed-up by residual, tp_size and link."""
    groups: dict[tuple[str, int, str], list[float]] = {}
    for index, value in speedups(rows, (row.seconds for row in rows)).items():
        groups.setdefault(_group(rows[index]), []).append(value)
    return {group: statistics.median(values) for group, values in groups.items()}


def _group(row: LogRow) -> tuple[str, int, str]:
    return row.residual, row.setting.tp_size, row.setting.link


def _errors(values: Sequence[float]) -> Errors:
    if not values:
        raise DataError(
            "A model of the logs has nothing to be judged by: no row of standard beside one of "
            "another residual, on several ranks and with a residual, tp_size and link that another "
            "model's rows have."
        )
    sizes = np.abs(values)
    return Errors(
        count=len(sizes),
        median=float(np.median(sizes)),
        ninth=float(np.quantile(sizes, 0.9)),
        largest=float(sizes.max()),
    )


SPLIT_HEADINGS = (
    "fitted on",
    "tested on",
    "predictor",
    "of",
    "rows",
    "median %",
    "90th percentile %",
    "largest %",
)


def split_rows(found: Sequence[Split]) -> Iterator[tuple[object, ...]]:
    """Three rows a split, in the columns of SPLIT_HEADINGS."""
    for each in found:
        for predictor, what, errors in (
            ("model", "speed-up", each.speedup),
            ("medians", "speed-up", each.medians),
            ("model", "tokens/s", each.tokens_per_s),
        ):
            sizes = (errors.median, errors.ninth, errors.largest)
            yield (
                ", ".join(each.fitted),
                ", ".join(each.tested),
                predictor,
                what,
                errors.count,
                *(f"{size:.1%}".removesuffix("%") for size in sizes),
            )


CONSTANT_HEADINGS = ("constant", "all rows")


def constant_rows(constants: Constants, found: Sequence[Split]) -> Iterator[tuple[str, ...]]:
    """A row a constant: fitted to all rows, and to each split's, in SI units."""
    every = [asdict(constants), *(asdict(split.constants) for split in found)]
    for name in CONSTANTS:
        yield (name, *(f"{values[name]:.3g}" for values in every))
