"""Which predictions are asked for: every combination of lists of conditions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ladder_eval.distributed.shares import shares
from ladder_eval.errors import UsageError, flag
from ladder_eval.models.choice import with_residual
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.all_reduce import ALGORITHMS, measured_seconds
from ladder_eval.speed.hardware import LINKS, Machine
from ladder_eval.speed.predict import Setting
from ladder_eval.speed.roofline import EXECUTIONS

STANDARD, BOUND = "standard", "no-comm"
DEFAULT_RESIDUALS = ("ladder", "parallel", "desync-2x")


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The options that predictions share; the tuples are combined with each other.

    Attributes:
        residual: What stands beside standard and no-comm.
        tp: tp_sizes.
        nodes: Nodes that the ranks are spread over.
        batch_size: Rows.
        prompt_len: Tokens in.
        output_len: Tokens out.
        link: p2p, host.
        all_reduce: Names of ALGORITHMS, or measured times such as 5us.
        mode: Who runs it, a name of EXECUTIONS.
        dtype: Number format.

    Raises:
        UsageError: if a value makes no sense.
    """

    residual: tuple[str, ...] = DEFAULT_RESIDUALS
    tp: tuple[int, ...] = (8,)
    nodes: int = 1
    batch_size: tuple[int, ...] = (1, 4, 16, 64)
    prompt_len: tuple[int, ...] = (1024,)
    output_len: tuple[int, ...] = (512,)
    link: tuple[str, ...] = ("p2p",)
    all_reduce: tuple[str, ...] = ("nccl",)
    mode: str = "compile"
    dtype: str = "float16"

    def __post_init__(self) -> None:
        for name in ("tp", "batch_size", "prompt_len", "output_len"):
            if min(getattr(self, name)) < 1:
                raise UsageError(f"{flag(name)} takes whole numbers from 1.")
        for one in self.link:
            if one not in LINKS:
                raise UsageError(f"Unknown link {one!r}; known are {', '.join(LINKS)}.")
        for one in self.all_reduce:
            if one not in ALGORITHMS:
                measured_seconds(one)
        if self.mode not in EXECUTIONS:
            raise UsageError(f"Unknown mode {self.mode!r}; known are {', '.join(EXECUTIONS)}.")
        if self.nodes < 1 or any(size % self.nodes for size in self.tp):
            raise UsageError(f"--tp can't be spread over --nodes {self.nodes}; give multiples.")

    def settings(self) -> Iterator[Setting]:
        """Every combination."""
        shapes = product(self.tp, self.prompt_len, self.output_len, self.batch_size)
        for (tp_size, prompt, output, batch), link, algorithm in product(
            shapes, self.link, self.all_reduce
        ):
            yield Setting(
                workload=Workload(batch_size=batch, prompt_len=prompt, output_len=output),
                tp_size=tp_size,
                nodes=self.nodes,
                link=link,
                all_reduce=algorithm,
                execution=self.mode,
                dtype=self.dtype,
            )

    def require_nodes(self, machine: Machine) -> None:
        """Refuse more ranks a node than the machine has.

        Raises:
            UsageError: if there are more.
        """
        most = max(self.tp) // self.nodes
        if most > machine.ranks_per_node:
            raise UsageError(
                f"{most} ranks a node are more than the {machine.ranks_per_node} of "
                f"{machine.title}; give more --nodes."
            )

    def arms(self, dense: ModelConfig) -> dict[str, ModelConfig]:
        """Standard, what was asked for, and the bound, by name.

        Raises:
            UsageError: if a residual is unknown, or a tp_size doesn't divide the model.
        """
        for size in self.tp:
            shares(dense.shape, size)
        names = dict.fromkeys((STANDARD, *self.residual, BOUND))
        return {name: with_residual(dense, name) for name in names}


def grid(given: dict[str, Any]) -> Grid:
    """A grid from the command line, where lists are texts such as `1,8`.

    Raises:
        UsageError: if a value makes no sense.
    """
    values = dict(given)
    for name, convert in _LISTS.items():
        if isinstance(values.get(name), str):
            values[name] = _list(name, values[name], convert)
    return Grid(**values)


_LISTS: dict[str, Callable[[str], Any]] = {
    "residual": str,
    "tp": int,
    "batch_size": int,
    "prompt_len": int,
    "output_len": int,
    "link": str,
    "all_reduce": str,
}


def _list(name: str, text: str, convert: Callable[[str], Any]) -> Sequence[Any]:
    try:
        return tuple(dict.fromkeys(convert(part.strip()) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{flag(name)} takes whole numbers with commas, not {text!r}.") from None
