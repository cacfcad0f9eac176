"""Descriptions of machines: what their vendors say, or what was measured on one. Needs no torch."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ladder_eval.errors import UsageError

LINKS = ("p2p", "host")
"""Links within a node; `network` is the one between nodes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What ranks send over.

    Attributes:
        title: Its name.
        bandwidth: Bytes a second that a rank sends, by the datasheet.
        nccl_hop: Seconds that NCCL's own model takes for a step of this kind.
        reduces: Whether switches sum messages on their way.
    """

    title: str
    bandwidth: float
    nccl_hop: float
    reduces: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A node of ranks that are alike.

    Attributes:
        name: What the user types.
        title: Its name in full.
        flops: Operations a second of dense matrix products by dtype.
        memory_bandwidth: Bytes a second.
        memory_bytes: Size of a rank's memory.
        ranks_per_node: Ranks that `links["p2p"]` or `links["host"]` join.
        links: `p2p`, rank to rank; `host`, through the host's memory; `network`, between nodes.
        sources: Where these figures stand.
    """

    name: str
    title: str
    flops: Mapping[str, float]
    memory_bandwidth: float
    memory_bytes: float
    ranks_per_node: int
    links: Mapping[str, Link]
    sources: tuple[str, ...]

    def link(self, name: str) -> Link:
        """The link of this name.

        Raises:
            UsageError: if the machine has none.
        """
        if name not in self.links:
            known = ", ".join(self.links)
            raise UsageError(f"{self.title} has no link {name!r}; it has {known}.")
        return self.links[name]

    def peak(self, dtype: str) -> float:
        """Operations a second with this dtype.

        Raises:
            UsageError: if they aren't known.
        """
        if dtype not in self.flops:
            known = ", ".join(self.flops)
            raise UsageError(f"The speed of {self.title} with {dtype} isn't known; take {known}.")
        return self.flops[dtype]


def machines() -> dict[str, Machine]:
    """The machines that have a name here, from `hardware.toml`."""
    text = files("ladder_eval.speed").joinpath("hardware.toml").read_text(encoding="utf-8")
    described = tomllib.loads(text)["machines"]
    return {name: machine_from({"name": name} | values) for name, values in described.items()}


def machine_from(values: Mapping[str, Any]) -> Machine:
    """A machine from its fields as plain values.

    Raises:
        KeyError: if a field is missing; TypeError: if one is too many, or is no table.
        ValueError: if one is no number; OverflowError: if it is too large.
    """
    links = {name: _link(link) for name, link in values["links"].items()}
    flops = {name: float(speed) for name, speed in values["flops"].items()}
    numbers = {name: float(values[name]) for name in ("memory_bandwidth", "memory_bytes")}
    exact = {"links": links, "flops": flops, "sources": tuple(values["sources"])}
    return Machine(**{**values, **numbers, **exact})


def _link(values: Mapping[str, Any]) -> Link:
    numbers = {name: float(values[name]) for name in ("bandwidth", "nccl_hop")}
    return Link(**{**values, **numbers})
