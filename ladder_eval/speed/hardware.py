"""Descriptions of machines: what their vendors say, or what was measured on one. Needs no torch."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from ladder_eval.errors import UsageError

LINKS = ("p2p", "host")

# NCCL's latency of a step over NVLink (src/graph/tuning.cc, hwLat, protocol LL, ring), in seconds:
# hops of other links are fitted hops times the ratio of NCCL's latencies.
NVLINK_NCCL_HOP = 0.6e-6

_PACKAGE = "ladder_eval.speed"


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """What is fitted to measurements, eight numbers a machine.

    Attributes:
        memory_efficiency: Share of the memory's bandwidth that kernels reach.
        matmul_efficiency: Share of the peak that matrix products reach.
        kernel_seconds: What a kernel takes beside its work: its start, its first and last bytes.
        p2p_hop: Seconds of a step between ranks over NVLink.
        host_hop: The same through the host's memory.
        p2p_efficiency: Share of the direct link's bandwidth that is reached.
        host_efficiency: Share of the PCIe bandwidth that is reached through the host's memory.
        contention: Share of its speed that computing loses beside an all-reduce that is bound by
            bandwidth, and that an all-reduce loses beside computing.
    """

    memory_efficiency: float
    matmul_efficiency: float
    kernel_seconds: float
    p2p_hop: float
    host_hop: float
    p2p_efficiency: float
    host_efficiency: float
    contention: float


CONSTANTS = tuple(field.name for field in fields(Constants))


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Constants and how they came about.

    Attributes:
        machine: Name of the machine whose measurements they are fitted to.
        source: Which measurements.
        command: What fitted or measured them.
        constants: The constants.
    """

    machine: str
    source: str
    command: str
    constants: Constants


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated:
    """A machine and the constants that predictions take.

    Attributes:
        machine: The machine.
        calibration: Its constants, or those of the machine that stands in.
    """

    machine: Machine
    calibration: Calibration

    @property
    def constants(self) -> Constants:
        """The constants."""
        return self.calibration.constants

    @property
    def status(self) -> str:
        """Whether the constants are the machine's own, in words for a table."""
        made = self.calibration
        if made.machine == self.machine.name:
            return f"constants of this machine: {made.source}"
        return f"datasheet only, not calibrated: constants of {made.machine}"

    def hop(self, link: str) -> float:
        """Seconds of a step over a link.

        Fitted for NVLink and for host memory; others are NVLink's times NCCL's ratio of the two.
        """
        if link == "host":
            return self.constants.host_hop
        return self.constants.p2p_hop * self.machine.link(link).nccl_hop / NVLINK_NCCL_HOP

    def link_bandwidth(self, link: str) -> float:
        """Bytes a second that a rank reaches over a link."""
        share = self.constants.host_efficiency if link == "host" else self.constants.p2p_efficiency
        return share * self.machine.link(link).bandwidth


def machines() -> dict[str, Machine]:
    """The machines that have a name here."""
    text = files(_PACKAGE).joinpath("hardware.toml").read_text(encoding="utf-8")
    return {name: _machine(name, values) for name, values in tomllib.loads(text)["machines"].items()}


def calibrated(name: str, constants_file: Path | None = None) -> Calibrated:
    """A machine by name, or by the file that `predict measure` wrote, with its constants.

    Args:
        name: A name of `machines`, or the path of such a file.
        constants_file: What `predict fit` wrote, in place of the packaged constants.

    Raises:
        UsageError: if there is no such machine, or a file isn't what it has to be.
    """
    known = machines()
    if name not in known:
        return _read_measured(name, known)
    own = constants_file or _packaged(name) or _packaged(STAND_IN)
    if own is None:
        raise RuntimeError("the package has lost its constants")
    values = json.loads(own) if isinstance(own, str) else _read_json(own)
    return Calibrated(machine=known[name], calibration=_calibration(values, constants_file or name))


STAND_IN = "h100_sxm"
"""Whose constants stand in for those of machines that nobody has fitted."""


def to_json(calibration: Calibration, machine: Machine | None = None) -> str:
    """What `calibrated` reads: constants, and the machine where it was measured."""
    values = _plain(calibration)
    if machine is not None:
        values["description"] = _plain(machine) | {
            "links": {name: _plain(link) for name, link in machine.links.items()}
        }
    return json.dumps(values, indent=2) + "\n"


def _plain(record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {
        name: _plain(value) if isinstance(value, Constants) else value
        for name, value in values.items()
    }


def _packaged(name: str) -> str | None:
    file = files(_PACKAGE).joinpath("constants", f"{name}.json")
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _read_measured(name: str, known: Mapping[str, Machine]) -> Calibrated:
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"Unknown machine {name!r}: known are {', '.join(known)}, or a file that "
            "`ladder-eval predict measure` wrote."
        )
    values = _read_json(path)
    try:
        machine = _machine(values["description"]["name"], values["description"])
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path} describes no machine ({error!r}).") from None
    return Calibrated(machine=machine, calibration=_calibration(values, path))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read as JSON: {error}.") from None


def _calibration(values: Any, origin: object) -> Calibration:
    try:
        constants = Constants(**{name: float(values["constants"][name]) for name in CONSTANTS})
        words = {name: str(values[name]) for name in ("machine", "source", "command")}
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{origin} holds no constants of a machine ({error!r}).") from None
    return Calibration(constants=constants, **words)


def _machine(name: str, values: Mapping[str, Any]) -> Machine:
    links = {key: Link(**link) for key, link in values["links"].items()}
    rest = {key: value for key, value in values.items() if key not in ("name", "links", "sources")}
    return Machine(name=name, links=links, sources=tuple(values["sources"]), **rest)
