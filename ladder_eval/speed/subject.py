"""A model and its residuals, from weights to the record of a measurement."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ladder_eval.distributed.emulated import NAME as EMULATED_LINK
from ladder_eval.distributed.shares import shares
from ladder_eval.distributed.virtual_link import NAME as VIRTUAL
from ladder_eval.engine.driver import Driver
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.speed import BASELINE, BOUND, CANDIDATE, CONTROL, TimedArm, speed_rows
from ladder_eval.results.speed_records import (
    EMULATED,
    MEASURED,
    RANDOM,
    EmulationRecord,
    LinkRecord,
    Round,
    SpeedRecord,
    SpeedRow,
    Work,
    Workload,
)
from ladder_eval.results.trace_records import ArmTrace
from ladder_eval.speed.emulate import Emulation, emulate
from ladder_eval.speed.extrapolation import extrapolated
from ladder_eval.speed.measure import Link, Measurement, measure
from ladder_eval.speed.trace import trace_arms, wire_of, with_gaps
from ladder_eval.speed.work import work_of

NO_COMM = "no-comm"

WARM_UP = 1
"""Short generations of each arm before the first round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A model and the residuals to time on its weights.

    Attributes:
        name: Of the model.
        arms: Baseline and candidates by name, all of one shape.
        baseline: Name of the arm that the others are compared with.
        whole: The model's configuration before layers were left out.
        folder: Its checkpoint; None for random weights.
        weights: Where these come from, in words.
        emulation: What one device stands for; None to time all ranks.
    """

    name: str
    arms: Mapping[str, ModelConfig]
    baseline: str
    whole: ModelConfig
    folder: Path | None = None
    weights: str = RANDOM
    emulation: Emulation | None = None

    @property
    def config(self) -> ModelConfig:
        """The configuration that is timed, with the baseline's residual."""
        return self.arms[self.baseline]

    @property
    def control(self) -> str:
        """Name of the arm that is the baseline once more."""
        return f"{self.baseline} again"

    @property
    def is_extrapolated(self) -> bool:
        """Whether the times of all layers follow from those of fewer."""
        fewer = self.config.num_hidden_layers != self.whole.num_hidden_layers
        return self.emulation is not None and fewer

    def all_arms(self) -> dict[str, ModelConfig]:
        """The arms, the bound without communication, and the control."""
        return self._complete(self.arms)

    def whole_emulation(self) -> Emulation | None:
        """What is emulated, with all layers of each of `all_arms`."""
        if self.emulation is None:
            return None
        return replace(self.emulation, whole=self._complete(self.emulation.whole))

    def _complete(self, arms: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        base = arms[self.baseline]
        bound = replace(base, ladder_layers=(), topology=NO_COMM)
        return {**arms, NO_COMM: bound, self.control: base}

    def roles(self) -> list[TimedArm]:
        """What each of `all_arms` is there for; of what is extrapolated, the whole model's."""
        emulation = self.whole_emulation()
        arms = emulation.whole if emulation and self.is_extrapolated else self.all_arms()
        roles = {self.baseline: BASELINE, NO_COMM: BOUND, self.control: CONTROL}
        return [
            TimedArm(
                name=name,
                role=roles.get(name, CANDIDATE),
                residual=config.residual,
                ladder_layers=config.ladder_layers,
            )
            for name, config in arms.items()
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedSubject:
    """A subject whose weights the driver has loaded, ready to be timed.

    Attributes:
        driver: Rank 0.
        subject: What it has loaded.
        dtype: The weights' dtype.
        weight_bytes: Of each rank.
    """

    driver: Driver
    subject: Subject
    dtype: torch.dtype
    weight_bytes: Sequence[int]

    @classmethod
    def load(cls, driver: Driver, subject: Subject, dtype: torch.dtype) -> "LoadedSubject":
        """Read the subject's weights, or make them up, on all ranks.

        Raises:
            LadderEvalError: if a checkpoint can't be read.
        """
        if subject.folder is None:
            sizes = driver.load_random(subject.config, dtype)
        else:
            sizes = driver.load(subject.folder, subject.config, dtype)
        return cls(driver=driver, subject=subject, dtype=dtype, weight_bytes=sizes)

    def time(
        self,
        workload: Workload,
        link: Link | None,
        rounds: int,
        deadline: float,
        keep: Callable[[Round], None],
        *,
        all_reduce: str | None = None,
    ) -> SpeedRecord:
        """Time all arms.

        Args:
            workload: What each generates.
            link: The virtual link; None for real messages.
            rounds: How many rounds, at most.
            deadline: By `perf_counter`, no round but the first is begun that would end later.
            keep: Called with each round before the next, to write it down.
            all_reduce: Of real messages, the kernel that sums them; None for the group's own.
        """
        what = self.measurement(workload, link, rounds, deadline, all_reduce)
        tokens = workload.batch_size * workload.prompt_len
        message_bytes = tokens * self.subject.config.hidden_size * self.dtype.itemsize
        made = []
        for each in self._rounds(what, message_bytes):
            keep(each)
            made.append(each)
        emulation = self.subject.whole_emulation()
        if emulation is not None and self.subject.is_extrapolated:
            made = [extrapolated(each, what.arms, emulation.whole) for each in made]
        return self._record(what, made)

    def measurement(
        self,
        workload: Workload,
        link: Link | None,
        rounds: int,
        deadline: float,
        all_reduce: str | None = None,
    ) -> Measurement:
        """All arms of the subject, with this work; arguments are those of `time`."""
        return Measurement(
            arms=self.subject.all_arms(),
            baseline=self.subject.baseline,
            bound=NO_COMM,
            workload=workload,
            link=link,
            rounds=rounds,
            all_reduce=all_reduce,
            deadline=deadline,
        )

    def _rounds(self, what: Measurement, message_bytes: int) -> Iterator[Round]:
        emulation = self.subject.whole_emulation()
        if emulation is None:
            return measure(self.driver, what, message_bytes)
        return emulate(self.driver, what, emulation, message_bytes)

    def trace(self, record: SpeedRecord) -> tuple[SpeedRecord, tuple[ArmTrace, ...]]:
        """Trace the arms that were timed last, over the link that they were timed over.

        Returns:
            The record with the gaps of its arms, and the traces.
        """
        arms, work = self.subject.all_arms(), record.workload
        traces = trace_arms(self.driver, arms, work, wire_of(record.link))
        step = work.batch_size * self.subject.config.hidden_size * self.dtype.itemsize
        return with_gaps(record, arms, NO_COMM, traces, (work.prompt_len * step, step)), traces

    def _record(self, what: Measurement, rounds: Sequence[Round]) -> SpeedRecord:
        team, config, whole = self.driver.team, self.subject.config, self.subject.whole
        parts = shares(config.shape, team.tp.size)
        work = self._work(what.workload)
        rows = speed_rows(
            self.subject.roles(),
            rounds,
            what.workload.batch_size,
            communicates=team.tp.size > 1,
            work=work,
        )
        link_name = VIRTUAL if self.subject.emulation is None else EMULATED_LINK
        attention, mlp = (_block_seconds(rounds, block) for block in (0, 1))
        return SpeedRecord(
            model=self.subject.name,
            weights=self.subject.weights,
            workload=what.workload,
            tp_size=team.tp.size,
            link=link_record(
                what.link,
                link_name,
                what.all_reduce or team.backend,
                [each.latency for each in rounds],
            ),
            device=str(team.device),
            dtype=str(self.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            num_hidden_layers=config.num_hidden_layers,
            all_hidden_layers=whole.num_hidden_layers,
            vocab_size=config.vocab_size,
            all_vocab_size=whole.vocab_size,
            heads_per_rank=tuple(len(part.query_heads) for part in parts),
            kv_heads_per_rank=tuple(len(part.kv_heads) for part in parts),
            weight_bytes_per_rank=tuple(self.weight_bytes),
            peak_memory_bytes=tuple(self.driver.peak_device_memory()),
            warm_up=WARM_UP,
            rounds=len(rounds),
            rounds_asked=what.rounds,
            attention_seconds=attention,
            mlp_seconds=mlp,
            copied_bytes_per_second=statistics.median(r.copied_bytes_per_second for r in rounds),
            read_bytes_per_second=_read_bytes_per_second(work, rows),
            driver_share=_driver_share(what.baseline, rounds),
            rows=rows,
            matmul_flops_per_second=_matmul_flops_per_second(rounds),
            kind=MEASURED if self.subject.emulation is None else EMULATED,
            emulation=_emulation_record(self.subject, rounds),
        )

    def _work(self, workload: Workload) -> Work:
        """What a generation asks of the ranks whose times were taken."""
        tp, config = self.driver.team.tp, self.subject.config
        parts = shares(config.shape, tp.size)
        timed = parts if self.subject.emulation is None else parts[tp.rank : tp.rank + 1]
        layers = self.subject.whole.num_hidden_layers if self.subject.is_extrapolated else None
        return work_of(
            config,
            workload,
            timed,
            sum(self.weight_bytes),
            self.dtype.itemsize,
            ranks=tp.size,
            layers=layers,
        )


def _read_bytes_per_second(work: Work, rows: Sequence[SpeedRow]) -> float | None:
    """What no-comm reads of weights and cache in a decode step, by the step's time."""
    bound = next(row for row in rows if row.role == BOUND)
    return None if bound.decode is None else work.step_bytes / bound.decode.seconds.value


def _matmul_flops_per_second(rounds: Sequence[Round]) -> float | None:
    """Median over rounds; None if one of them doesn't know."""
    found = [each.matmul_flops_per_second for each in rounds]
    known = [speed for speed in found if speed is not None]
    return statistics.median(known) if len(known) == len(found) else None


def _emulation_record(subject: Subject, rounds: Sequence[Round]) -> EmulationRecord | None:
    if subject.emulation is None:
        return None
    return EmulationRecord(
        rank=subject.emulation.rank,
        skew=subject.emulation.skew,
        lateness=statistics.median(r.lateness for r in rounds if r.lateness is not None),
        extrapolated=subject.is_extrapolated,
    )


def link_record(
    link: Link | None, name: str, backend: str, latencies: Sequence[float | None]
) -> LinkRecord:
    """What carried the messages of all rounds.

    Args:
        link: The modelled link; None for real messages.
        name: What a modelled link is called.
        backend: What carries real ones.
        latencies: Of a modelled link, the latency of each round.
    """
    if link is None:
        return LinkRecord(name=backend, mode=None, latency=None, latency_ratio=None, bandwidth=None)
    return LinkRecord(
        name=name,
        mode=link.mode,
        latency=statistics.median(each for each in latencies if each is not None),
        latency_ratio=link.ratio,
        bandwidth=link.bandwidth,
    )


def _block_seconds(rounds: Sequence[Round], block: int) -> tuple[float, ...]:
    """Median over rounds of each rank's attention (0) or MLP (1)."""
    found = [each.decode_blocks or each.prefill_blocks for each in rounds]
    ranks = zip(*found, strict=True)  # of each rank, its blocks in all rounds
    return tuple(statistics.median(blocks[block] for blocks in rank) for rank in ranks)


def _driver_share(baseline: str, rounds: Sequence[Round]) -> float:
    """Median over rounds of what the driver adds to a generation of the baseline."""
    trials = [trial for each in rounds for trial in each.trials if trial.arm == baseline]
    return statistics.median(t.driver_seconds / (t.ttft + sum(t.itl)) for t in trials)
