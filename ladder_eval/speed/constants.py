"""The constants that predictions take beside a datasheet, and how they came about.

They are data: `fitted/` has one file a machine that `predict fit` wrote. Needs no torch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from ladder_eval.errors import UsageError, brief
from ladder_eval.plain_json import parse_json
from ladder_eval.speed.hardware import Machine, machine_from, machines

# NCCL's latency of a step over NVLink (src/graph/tuning.cc, hwLat, protocol LL, ring), in seconds.
NVLINK_NCCL_HOP = 0.6e-6

STAND_IN = "h100_sxm"
"""Whose constants stand in for those of machines that nobody has fitted."""


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
            bandwidth, and that any all-reduce loses beside computing.
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
            return f"constants of this machine, from {made.source}"
        return f"datasheet only, uncalibrated, with the constants of {made.machine}"

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


def calibrated(name: str, constants_file: Path | None = None) -> Calibrated:
    """A machine by name, or by the file that `predict measure` wrote, with its constants.

    Args:
        name: A name of `machines`, or the path of such a file.
        constants_file: What `predict fit` wrote, in place of the packaged constants.

    Raises:
        UsageError: if there is no such machine, or a file isn't what it has to be.
    """
    known = machines()
    if name in known:
        file = constants_file or _packaged(name)
        return Calibrated(machine=known[name], calibration=_calibration(_read(file), file))
    file = Path(name)
    if not file.is_file():
        raise UsageError(
            f"Unknown machine {name!r}: known are {', '.join(known)}, or a file that "
            "`ladder-eval predict measure` wrote."
        )
    values = _read(file)
    try:
        machine = machine_from(values["description"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{file} describes no machine ({brief(repr(error))}).") from None
    return Calibrated(machine=machine, calibration=_calibration(values, file))


def to_json(calibration: Calibration, machine: Machine | None = None) -> str:
    """What `calibrated` reads: constants, and the machine where it was measured."""
    values = asdict(calibration)
    if machine is not None:
        values["description"] = asdict(machine)
    return json.dumps(values, indent=2) + "\n"


def _packaged(name: str) -> Path:
    fitted = Path(str(files("ladder_eval.speed").joinpath("fitted")))
    own = fitted / f"{name}.json"
    return own if own.is_file() else fitted / f"{STAND_IN}.json"


def _read(file: Path) -> Any:
    try:
        return parse_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} can't be read as JSON: {brief(error)}.") from None


def _calibration(values: Mapping[str, Any], file: Path) -> Calibration:
    try:
        constants = Constants(**{name: float(values["constants"][name]) for name in CONSTANTS})
        words = {name: str(values[name]) for name in ("machine", "source", "command")}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = brief(repr(error))
        raise UsageError(f"{file} holds no constants of a machine ({reason}).") from None
    return Calibration(constants=constants, **words)
