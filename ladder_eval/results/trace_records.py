"""What the ranks of a group did in one generation, moment by moment. Seconds inside.

Moments are those of `time.perf_counter`. On Linux it is CLOCK_MONOTONIC, which all processes of a
machine share, so that the moments of its ranks can be compared; those of several machines can't.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["ATTENTION", "MLP", "ArmTrace", "ComputeSpan", "Message", "RankTrace", "WaitParts"]

ATTENTION: Final = "attention"
MLP: Final = "mlp"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeSpan:
    """A block computing on one rank; of a parallel layer its norm, too, as part of attention.

    Attributes:
        kind: ATTENTION or MLP.
        layer: From 0.
        forward: 0 reads the prompt, each other one token of every row.
        begin: When it began.
        end: When it ended.
    """

    kind: str
    layer: int
    forward: int
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitParts:
    """What a rank waits for; the parts sum to the whole wait.

    Attributes:
        skew: Until the last rank has sent.
        link: Then until the arrival.
        wake_up: From the arrival on: the last look at the clock, and the sum.
    """

    skew: float
    link: float
    wake_up: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A collective as one rank sees it.

    Attributes:
        of: What is sent, such as `attention`, `attention + mlp`, `embedding` or `token`.
        layer: The layer whose output is the newest in it; None outside of layers.
        forward: As of `ComputeSpan`.
        start: When this rank began to send.
        started: When it went on.
        wait: When it began to wait.
        waited: When it had the sum.
        sent: When the last rank sent; None where nobody knows.
        arrival: When the sum arrived; None where nobody knows.
    """

    of: str
    layer: int | None
    forward: int
    start: float
    started: float
    wait: float
    waited: float
    sent: float | None = None
    arrival: float | None = None

    @property
    def name(self) -> str:
        """What is sent, with its layer."""
        return self.of if self.layer is None else f"{self.of} {self.layer}"

    def parts(self) -> WaitParts | None:
        """What the wait was for; None where it isn't known when the sum arrived."""
        if self.sent is None or self.arrival is None:
            return None
        last = min(max(self.sent, self.wait), self.waited)
        arrived = min(max(self.arrival, last), self.waited)
        return WaitParts(skew=last - self.wait, link=arrived - last, wake_up=self.waited - arrived)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTrace:
    """One rank's part of a traced generation.

    Attributes:
        rank: tp_rank.
        spans: Its blocks, in order.
        messages: Its collectives, in the order in which they were started.
    """

    rank: int
    spans: tuple[ComputeSpan, ...]
    messages: tuple[Message, ...]

    def forwards(self) -> int:
        """How many forwards there are."""
        return 1 + max((span.forward for span in self.spans), default=-1)

    def order(self) -> Iterator[str]:
        """What this rank does, one after the other, such as `mlp 3` or `wait attention 3`."""
        moments = [(span.begin, f"{span.kind} {span.layer}") for span in self.spans]
        moments += [(message.start, f"start {message.name}") for message in self.messages]
        moments += [(message.wait, f"wait {message.name}") for message in self.messages]
        return (what for _, what in sorted(moments, key=lambda moment: moment[0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmTrace:
    """A traced generation of one arm.

    Attributes:
        arm: Its name.
        ranks: In order.
    """

    arm: str
    ranks: tuple[RankTrace, ...]
