"""The time of all layers from that of a few.

A layer more takes as long as another of its kind in the same generation does, from its start to
that of the next, with what it waits for:

    T(L) = T(k) + (S - s) t_standard + (N - n) t_ladder

for a stack of L layers, S standard and N ladder ones, that was timed on k layers, s and n of them.
Other residuals have layers of one kind. What a stack has once, its embedding, its head and the wait
for the last message, is in T(k). The first layers of a kind have other neighbours than those that
follow, and don't count for t. For the simulated dependencies all this is exact wherever the ladder
layers of a hybrid are its last.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Round
from ladder_eval.speed.fitting import with_layers

# Layers after which a residual repeats itself, where that isn't one.
_PERIODS = {"desync-4x": 2}


def few_layers(config: ModelConfig, count: int) -> ModelConfig:
    """The model with so many layers, for all to be extrapolated; of a hybrid half are ladder ones.

    Its share of ladder layers needn't be kept, as layers of either kind are added by their own
    time.
    """
    if _is_hybrid(config):
        return with_layers(config.as_standard(), count).with_ladder(count // 2)
    return with_layers(config, count)


def require_extrapolable(layers: int, arms: Mapping[str, ModelConfig]) -> None:
    """Check that all arms can be extrapolated from so many layers.

    Raises:
        UsageError: if not.
    """
    if layers != extrapolable(layers, arms):
        raise UsageError(
            f"These residuals are extrapolated from a multiple of {_period(arms)} layers; give "
            f"--layers {extrapolable(layers, arms)}."
        )


def extrapolable(layers: int, arms: Mapping[str, ModelConfig]) -> int:
    """The largest number of layers, up to this one, from which all arms can be extrapolated.

    Raises:
        UsageError: if there is none: of each kind of layer there have to be two.
    """
    least = 2 * max(1 + _is_hybrid(config) for config in arms.values())
    if layers < least:
        raise UsageError(
            f"These residuals are extrapolated from {least} layers or more, not from {layers}."
        )
    return layers - layers % _period(arms)


def extrapolated(
    each: Round, timed: Mapping[str, ModelConfig], whole: Mapping[str, ModelConfig]
) -> Round:
    """The round with the times of all layers.

    Args:
        each: The round as it was timed.
        timed: Of each arm, the configuration that was.
        whole: The same with all layers.
    """

    def more(arm: str, layers: Sequence[float]) -> float:
        return missing_seconds(timed[arm], whole[arm], layers)

    return replace(
        each,
        trials=tuple(
            replace(
                trial,
                ttft=trial.ttft + more(trial.arm, trial.prefill_layers),
                itl=tuple(gap + more(trial.arm, trial.decode_layers) for gap in trial.itl),
            )
            for trial in each.trials
        ),
    )


def missing_seconds(timed: ModelConfig, whole: ModelConfig, layers: Sequence[float]) -> float:
    """Seconds that a forward through all layers takes more.

    Args:
        timed: The model that was timed.
        whole: The same with all layers.
        layers: Seconds of each layer that was.
    """
    period = _PERIODS.get(timed.topology, 1)
    every = range(timed.num_hidden_layers)
    kinds = [timed.ladder_layers, [index for index in every if index not in timed.ladder_layers]]
    ladder = len(whole.ladder_layers)
    seconds = 0.0
    for own, wanted in zip(kinds, (ladder, whole.num_hidden_layers - ladder), strict=True):
        if own:
            later = own[period:] or own  # of desync-4x, one period may be all there is
            seconds += (wanted - len(own)) * statistics.fmean(layers[index] for index in later)
    return seconds


def _is_hybrid(config: ModelConfig) -> bool:
    return 0 < len(config.ladder_layers) < config.num_hidden_layers


def _period(arms: Mapping[str, ModelConfig]) -> int:
    return max(_PERIODS.get(config.topology, 1) for config in arms.values())
