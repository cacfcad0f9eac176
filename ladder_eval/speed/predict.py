"""How long a generation takes by the model: rooflines, all-reduces, and what hides behind what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ladder_eval.distributed.shares import shares
from ladder_eval.errors import UsageError
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.all_reduce import Cost, Fabric, all_reduce, two_level
from ladder_eval.speed.constants import Calibrated
from ladder_eval.speed.overlap import LayerTimes, Seconds, stack_seconds
from ladder_eval.speed.roofline import (
    EXECUTIONS,
    ForwardTimes,
    Number,
    Tokens,
    forward_times,
    rates,
)

# Decode steps that are computed, evenly spaced. Times are piecewise linear in what is cached.
_STEPS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Under which conditions a model generates.

    Attributes:
        workload: What is generated.
        tp_size: Ranks.
        nodes: Nodes that they are spread over.
        link: Of the ranks of a node: `p2p` or `host`.
        all_reduce: A name of `all_reduce.ALGORITHMS`, or a measured time such as `5us`.
        execution: Who runs it, a name of `roofline.EXECUTIONS`.
        dtype: Number format.
    """

    workload: Workload
    tp_size: int
    nodes: int = 1
    link: str = "p2p"
    all_reduce: str = "nccl"
    execution: str = "compile"
    dtype: str = "float16"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a generation takes.

    Attributes:
        prefill: Seconds to the first token.
        decode: Seconds of the others.
    """

    prefill: float
    decode: float

    @property
    def seconds(self) -> float:
        """Of the whole generation."""
        return self.prefill + self.decode


@dataclass(frozen=True, kw_only=True, slots=True)
class _Phase:
    """A forward in one setting: block times, the all-reduce, and what it costs to take up."""

    times: ForwardTimes
    cost: Cost
    join: float


def predict(
    config: ModelConfig, settings: Sequence[Setting], machine: Calibrated
) -> list[Prediction]:
    """Prefill and decode of one model, with its residual, in each setting.

    Raises:
        UsageError: if a setting can't be: a model that tp_size doesn't divide, an unknown link.
    """
    prefill = _seconds(config, [_prompt(config, each, machine) for each in settings], 1, machine)
    decode = _seconds(config, [_steps(config, each, machine) for each in settings], _STEPS, machine)
    return [
        Prediction(
            prefill=float(first[0]), decode=float(rest.mean()) * (each.workload.output_len - 1)
        )
        for each, first, rest in zip(settings, prefill, decode, strict=True)
    ]


def _seconds(
    config: ModelConfig, phases: Sequence[_Phase], forwards: int, machine: Calibrated
) -> Seconds:
    """Of all settings at once, [settings, forwards]."""

    def stacked(values: Iterable[Number]) -> Seconds:
        return np.array([np.full(forwards, value) for value in values])

    times = [phase.times for phase in phases]
    contention = machine.constants.contention
    layers = LayerTimes(
        attention=stacked(each.attention for each in times),
        mlp=stacked(each.mlp for each in times),
        all_reduce=stacked(phase.cost.seconds for phase in phases),
        join=stacked(phase.join for phase in phases),
        saved=stacked(each.addition_and_norm for each in times),
        division=stacked(each.division for each in times),
        contention=stacked(contention * phase.cost.crowds for phase in phases),
        slowing=contention,
    )
    return stack_seconds(config, layers) + stacked(each.head for each in times)


def _prompt(config: ModelConfig, setting: Setting, machine: Calibrated) -> _Phase:
    load = setting.workload
    capacity = load.prompt_len + load.output_len
    tokens = Tokens(rows=load.batch_size, seq=load.prompt_len, cached=0.0, capacity=capacity)
    return _phase(config, setting, tokens, machine)


def _steps(config: ModelConfig, setting: Setting, machine: Calibrated) -> _Phase:
    load = setting.workload
    made = (np.arange(_STEPS) + 0.5) * (load.output_len - 1) / _STEPS
    capacity = load.prompt_len + load.output_len
    tokens = Tokens(rows=load.batch_size, seq=1, cached=load.prompt_len + made, capacity=capacity)
    return _phase(config, setting, tokens, machine)


def _phase(config: ModelConfig, setting: Setting, tokens: Tokens, machine: Calibrated) -> _Phase:
    rate = rates(machine, setting.dtype)
    size = tokens.rows * tokens.seq * config.hidden_size * rate.dtype_bytes
    alone = setting.tp_size == 1
    return _Phase(
        times=forward_times(config, setting.tp_size, tokens, rate, EXECUTIONS[setting.execution]),
        cost=Cost(seconds=0.0, crowds=False) if alone else _cost(size, setting, machine),
        join=0.0 if alone else rate.kernel,
    )


def _cost(size: float, setting: Setting, machine: Calibrated) -> Cost:
    fabric = _fabric(machine, setting.link)
    if setting.nodes == 1:
        return all_reduce(setting.all_reduce, size, setting.tp_size, fabric)
    if setting.tp_size % setting.nodes:
        raise UsageError(f"tp_size={setting.tp_size} can't be spread over {setting.nodes} nodes.")
    network = _fabric(machine, "network")
    return two_level(
        size, setting.tp_size, setting.nodes, fabric, network, within=setting.all_reduce
    )


def _fabric(machine: Calibrated, link: str) -> Fabric:
    """The link as reached; where switches sum, they do so over the direct link whatever is set.

    NCCL_P2P_DISABLE turns off sends from rank to rank, not sums in NVSwitches.
    """
    sums = machine.machine.link(link).reduces and "p2p" in machine.machine.links
    return Fabric(
        hop=machine.hop(link),
        bandwidth=machine.link_bandwidth(link),
        switch_bandwidth=machine.link_bandwidth("p2p") if sums else None,
    )


def fits(config: ModelConfig, setting: Setting, machine: Calibrated) -> bool:
    """Whether weights and cache of a rank fit into its memory; activations are left out."""
    load, size = setting.workload, rates(machine, setting.dtype).dtype_bytes
    kv_heads = max(len(share.kv_heads) for share in shares(config.shape, setting.tp_size))
    cached = load.batch_size * (load.prompt_len + load.output_len)
    cache = 2 * config.num_hidden_layers * cached * kv_heads * config.head_dim
    weights = config.parameters / setting.tp_size
    return (weights + cache) * size <= machine.machine.memory_bytes
