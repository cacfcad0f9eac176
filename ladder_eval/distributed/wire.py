"""A modelled wire: when a message arrives that was sent at a known moment."""

from dataclasses import dataclass

from ladder_eval.errors import UsageError

MODES = ("serial", "pipelined")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """What a message costs on its way.

    Attributes:
        latency: Seconds from the last rank's sending to the arrival of an empty message.
        bandwidth: Bytes a second.
        mode: `serial`: the wire is busy until a message has arrived, as one NCCL stream is.
            `pipelined`: it is busy only for bytes / bandwidth, and messages follow each other.

    Raises:
        UsageError: if a value makes no sense.
    """

    latency: float
    bandwidth: float
    mode: str = "serial"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"Unknown link mode {self.mode!r}; known are {', '.join(MODES)}.")
        if not 0 <= self.latency < float("inf"):
            raise UsageError(f"A latency of {self.latency} s is no time; give 0 or more.")
        if not self.bandwidth > 0:
            raise UsageError(f"A bandwidth of {self.bandwidth} bytes/s must be more than 0.")


class Timetable:
    """The arrivals of messages that share a wire, in the order in which they are sent."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._free = float("-inf")

    def arrival(self, sent: float, size: int) -> float:
        """When the next message arrives, in seconds on the clock of `sent`.

        Args:
            sent: When the last rank sent it.
            size: Its bytes: those of one rank's tensor, whatever the number of ranks.
        """
        start = max(sent, self._free)
        transferred = start + size / self._wire.bandwidth
        arrived = transferred + self._wire.latency
        self._free = arrived if self._wire.mode == "serial" else transferred
        return arrived
