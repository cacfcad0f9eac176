"""What `bench` is asked to do. Needs no torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.bench_grids import grid_lists
from ladder_eval.distributed.wire import Wire
from ladder_eval.errors import UsageError, flag
from ladder_eval.options import DTYPES

LINKS = ("virtual", "real")

GROUP = "group"
ALL_REDUCES = (GROUP, "one-shot", "two-shot")

# An all-reduce between eight H100s with NVLink costs a 70B model at batch size 1 about 0.43 of
# what a block computes, and 1.1 without NVLink (the timing logs of arXiv 2501.06589's authors).
DEFAULT_RATIO = 0.5
DEFAULT_BANDWIDTH = 100e9
DEFAULT_ROUNDS = 9
# A load takes as long as its requests take to come.
DEFAULT_LOAD_ROUNDS = 2
DEFAULT_REQUESTS = 100

_DEFAULT_BATCH_SIZE, _DEFAULT_PROMPT_LEN, _DEFAULT_OUTPUT_LEN = (1,), (128,), (16,)


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchOptions:
    """The options of `bench`; every combination of the tuples is timed.

    Attributes:
        model: The shape: a named model, a folder with a config.json, or a Hub id.
        residual: What to time beside standard: ladder, ladder-N (the last N layers), parallel,
            desync-2x, desync-4x; by default the model's own, or ladder, parallel and desync-2x.
        layers: Time so many layers of the model; by default all that fit in memory.
        emulate: Time one rank of each group on one device, and extrapolate to all layers.
        skew_us: Of emulated ranks, the standard deviation of a block's time in microseconds; by
            default it is drawn from the times of the rank's blocks.
        tp: tp_sizes; by default 2, or the number of processes that torchrun started, or 8 where
            one rank is emulated.
        batch_size: Rows.
        prompt_len: Tokens in.
        output_len: Tokens out.
        arrivals: Rates of open loads in requests a second, in place of single generations.
        replay: Folder of an accuracy run whose requests are timed, or give a load its lengths.
        requests: How many arrive, 100 by default, or are replayed, by default all.
        seed: Of the arrivals, and of what is drawn from a run.
        link: virtual or real; by default virtual on CPUs, real on GPUs; emulated ranks have none.
        all_reduce: What sums real messages: the own backend of the group (NCCL, Gloo), or
            kernels on symmetric memory, one-shot or two-shot; by default group.
        link_mode: Of the modelled link: serial or pipelined.
        latency_us: Its latencies in microseconds.
        latency_ratio: Or latencies as multiples of the mean block time of each round.
        bandwidth_gbs: Its bandwidth in 10^9 bytes a second.
        rounds: Rounds of each combination.
        max_minutes: Begin no further round that would end later; each combination gets one.
        grid: Name of a grid whose tp_sizes are skipped where they can't be timed.
        trace: Trace one more generation of each arm.
        dtype: By default bfloat16 on CUDA, float32 elsewhere.
        device: By default cuda where there is one, else cpu.
        output_dir: Where run folders are made.

    Raises:
        UsageError: if a value makes no sense, alone or beside another.
    """

    model: str = "smollm2_135m"
    residual: tuple[str, ...] = ()
    layers: int | None = None
    emulate: bool = False
    skew_us: float | None = None
    tp: tuple[int, ...] = ()
    batch_size: tuple[int, ...] = _DEFAULT_BATCH_SIZE
    prompt_len: tuple[int, ...] = _DEFAULT_PROMPT_LEN
    output_len: tuple[int, ...] = _DEFAULT_OUTPUT_LEN
    arrivals: tuple[float, ...] = ()
    replay: Path | None = None
    requests: int | None = None
    seed: int = 0
    link: str | None = None
    all_reduce: tuple[str, ...] = ()
    link_mode: str = "serial"
    latency_us: tuple[float, ...] = ()
    latency_ratio: tuple[float, ...] = ()
    bandwidth_gbs: float = DEFAULT_BANDWIDTH / 1e9
    rounds: int = DEFAULT_ROUNDS
    max_minutes: float | None = None
    grid: str | None = None
    trace: bool = False
    dtype: str | None = None
    device: str | None = None
    output_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        for name in ("tp", "batch_size", "prompt_len", "output_len"):
            if min(getattr(self, name), default=1) < 1:
                raise UsageError(f"{flag(name)} takes whole numbers from 1, such as 1,8.")
        for name in ("layers", "rounds", "requests"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} {getattr(self, name)} must be 1 or more.")
        if self.max_minutes is not None and not 0 < self.max_minutes < math.inf:
            raise UsageError(f"--max-minutes {self.max_minutes} must be more than 0.")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"Unknown dtype {self.dtype!r}; known are {', '.join(DTYPES)}.")
        self._require_link()
        self._require_emulation()
        self._require_load()

    def _require_link(self) -> None:
        if self.link not in (None, *LINKS):
            raise UsageError(f"Unknown link {self.link!r}; known are {', '.join(LINKS)}.")
        if unknown := set(self.all_reduce).difference(ALL_REDUCES):
            raise UsageError(
                f"Unknown all-reduce {min(unknown)!r}; known are {', '.join(ALL_REDUCES)}."
            )
        if self.all_reduce and (self.link == "virtual" or self.emulate):
            raise UsageError("--all-reduce is of real messages; give --link real.")
        if self.latency_us and self.latency_ratio:
            raise UsageError("--latency-us and --latency-ratio exclude each other; drop one.")
        if self.link == "real" and (self.latency_us or self.latency_ratio):
            raise UsageError("A real link has the latency that it has; drop --latency-….")
        if not all(0 <= latency < math.inf for latency in (*self.latency_us, *self.latency_ratio)):
            raise UsageError("A latency is a number from 0; correct --latency-….")
        if not 0 < self.bandwidth_gbs < math.inf:
            raise UsageError(f"--bandwidth-gbs {self.bandwidth_gbs} must be a number above 0.")
        Wire(latency=0.0, bandwidth=self.bandwidth_gbs * 1e9, mode=self.link_mode)

    def _require_emulation(self) -> None:
        if self.skew_us is not None and not self.emulate:
            raise UsageError("--skew-us is of emulated ranks; add --emulate, or drop it.")
        if self.skew_us is not None and not 0 <= self.skew_us < math.inf:
            raise UsageError(f"--skew-us {self.skew_us} must be a number from 0.")
        if self.emulate and self.link is not None:
            raise UsageError("An emulated rank's messages are delays; drop --link.")
        if self.emulate and self.trace:
            raise UsageError("An emulated rank has no others to trace; drop --trace or --emulate.")
        if self.emulate and 1 in self.tp:
            raise UsageError("A rank alone sends nothing; give --emulate a --tp of 2 or more.")

    def _require_load(self) -> None:
        if not all(0 < rate < math.inf for rate in self.arrivals):
            raise UsageError("--arrivals takes numbers above 0, requests a second, such as 0.5,2.")
        if not self.arrivals and self.replay is None:
            if self.requests is not None:
                raise UsageError("--requests arrive or are replayed; add --arrivals or --replay.")
            return
        if self.emulate:
            raise UsageError("Loads and replays are timed on all ranks; drop --emulate.")
        if self.replay is None:
            return
        if (self.prompt_len, self.output_len) != (_DEFAULT_PROMPT_LEN, _DEFAULT_OUTPUT_LEN):
            raise UsageError("A run's requests have lengths; drop --prompt-len and --output-len.")
        if not self.arrivals and self.batch_size != _DEFAULT_BATCH_SIZE:
            raise UsageError("A replay has the batches of its run; drop --batch-size.")


def bench_options(given: Mapping[str, Any]) -> BenchOptions:
    """Options from the command line, where lists are texts such as `1,8`.

    A grid gives the lists that aren't given.

    Raises:
        UsageError: if a value makes no sense.
    """
    values = {name: value for name, value in given.items() if value is not None}
    for name, (convert, wanted) in _LISTS.items():
        if name in values:
            values[name] = _list(name, values[name], convert, wanted)
    if "arrivals" in values:
        values.setdefault("rounds", DEFAULT_LOAD_ROUNDS)
    return BenchOptions(**(grid_lists(values.get("grid")) | values))


_LISTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "residual": (str, "names"),
    "all_reduce": (str, "names"),
    "tp": (int, "whole numbers"),
    "batch_size": (int, "whole numbers"),
    "prompt_len": (int, "whole numbers"),
    "output_len": (int, "whole numbers"),
    "arrivals": (float, "numbers"),
    "latency_us": (float, "numbers"),
    "latency_ratio": (float, "numbers"),
}


def _list(name: str, text: str, convert: Callable[[str], Any], wanted: str) -> tuple[Any, ...]:
    try:
        return tuple(dict.fromkeys(convert(part.strip()) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{flag(name)} takes {wanted} with commas, not {text!r}.") from None
