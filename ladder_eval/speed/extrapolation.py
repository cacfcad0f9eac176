"""The time of all layers from that of a few, timed at two depths in the same round.

A layer more takes the same time wherever it stands among layers of its kind:

    T(L) = T(k) + (L - k) (T(k) - T(j)) / (k - j),  L > k > j layers

What a stack has once, its embedding, its head and the last message, is in T(k). Of a hybrid the
layers that are left out for T(j) are ladder layers; what a standard layer takes is known from the
baseline, which is timed at two depths as well. That is exact for the simulated dependencies
wherever the ladder layers of a hybrid are its last.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Round, Trial
from ladder_eval.speed.fitting import with_layers

_PERIODS = {"desync-4x": 2}  # layers after which a residual repeats itself


@dataclass(frozen=True, kw_only=True, slots=True)
class Depths:
    """An arm that is timed at two depths, and what the whole model has more.

    Attributes:
        shallow: Name of the arm with fewer layers.
        removed: How many it has fewer, all of them ladder layers if there are any.
        missing: How many of the same kind the whole model has more.
        standard: How many standard layers a whole hybrid has more.
    """

    shallow: str
    removed: int
    missing: int
    standard: int


def depths_of(name: str, config: ModelConfig, whole: ModelConfig) -> Depths:
    """The two depths of an arm.

    Args:
        name: Its name.
        config: As it is timed.
        whole: With all layers.
    """
    own, all_own = (len(each.ladder_layers) or each.num_hidden_layers for each in (config, whole))
    more = whole.num_hidden_layers - config.num_hidden_layers
    shallow = shallower(config)
    return Depths(
        shallow=f"{name} ({shallow.num_hidden_layers} layers)",
        removed=config.num_hidden_layers - shallow.num_hidden_layers,
        missing=all_own - own,
        standard=more - (all_own - own),
    )


def few_layers(config: ModelConfig, count: int) -> ModelConfig:
    """The model with so many layers, for all to be extrapolated; of a hybrid half are ladder ones.

    Its share of ladder layers needn't be kept, as layers of either kind are added by their own
    time. But the first of either has another neighbour than those that follow.
    """
    if 0 < len(config.ladder_layers) < config.num_hidden_layers:
        return with_layers(config.as_standard(), count).with_ladder(max(1, count // 2))
    return with_layers(config, count)


def shallower(config: ModelConfig) -> ModelConfig:
    """The model without the last half of its layers; of a hybrid, of its ladder layers."""
    own = config.ladder_layers or tuple(range(config.num_hidden_layers))
    removed = own[len(own) // 2 :]
    kept = [index for index in range(config.num_hidden_layers) if index not in removed]
    ladder = tuple(new for new, old in enumerate(kept) if old in config.ladder_layers)
    return replace(config, num_hidden_layers=len(kept), ladder_layers=ladder)


def require_extrapolable(layers: int, arms: Mapping[str, ModelConfig]) -> None:
    """Check that all arms can be extrapolated from so many layers.

    Raises:
        UsageError: if not.
    """
    if layers != extrapolable(layers, arms):
        raise UsageError(
            f"These residuals are extrapolated from a multiple of {_step(arms)} layers, of which "
            f"half are left out; give --layers {layers - layers % _step(arms)}."
        )


def extrapolable(layers: int, arms: Mapping[str, ModelConfig]) -> int:
    """The largest number of layers, up to this one, from which all arms can be extrapolated.

    Raises:
        UsageError: if there is none.
    """
    step = _step(arms)
    if layers < step:
        raise UsageError(
            f"These residuals are extrapolated from {step} layers or more, not from {layers}."
        )
    return layers - layers % step


def _step(arms: Mapping[str, ModelConfig]) -> int:
    """Half of the layers are left out, and either half has to repeat itself as the whole does."""
    return 2 * max(_PERIODS.get(config.topology, 1) for config in arms.values())


def extrapolated(each: Round, depths: Mapping[str, Depths], baseline: str) -> Round:
    """The round with the times of all layers; the shallow arms are left out.

    No layer is taken to save time, however noisy the times are.

    Args:
        each: The round as it was timed.
        depths: The depths of each arm.
        baseline: Name of the arm that knows what a standard layer takes.
    """
    trials = {trial.arm: trial for trial in each.trials}
    layer = depths[baseline]

    def longer(arm: str, seconds: Callable[[Trial], float]) -> float:
        own = depths[arm]
        return own.missing * _layer(trials, arm, own, seconds) + own.standard * _layer(
            trials, baseline, layer, seconds
        )

    return replace(
        each,
        trials=tuple(
            _longer(trial, longer(trial.arm, _ttft), longer(trial.arm, _gap))
            for trial in each.trials
            if trial.arm in depths
        ),
    )


def _layer(
    trials: Mapping[str, Trial], arm: str, depths: Depths, seconds: Callable[[Trial], float]
) -> float:
    """What a layer more takes an arm."""
    more = seconds(trials[arm]) - seconds(trials[depths.shallow])
    return max(0.0, more / depths.removed)


def _longer(trial: Trial, prefill: float, step: float) -> Trial:
    return replace(trial, ttft=trial.ttft + prefill, itl=tuple(gap + step for gap in trial.itl))


def _ttft(trial: Trial) -> float:
    return trial.ttft


def _gap(trial: Trial) -> float:
    return statistics.fmean(trial.itl) if trial.itl else 0.0
