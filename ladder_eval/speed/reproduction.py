"""The paper's speed-ups beside those of its authors' logs and those that are predicted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ladder_eval.models.choice import with_residual
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.registry import MODELS
from ladder_eval.results.published_speed import PUBLISHED_SPEEDUPS, PublishedSpeedup
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.constants import Calibrated
from ladder_eval.speed.predict import Setting, predict
from ladder_eval.speed.timing_logs import LogRow, speedups

MACHINE = "h100_sxm"
"""Where the paper was timed."""

PROMPT_LEN, OUTPUT_LEN = 1024, 512
MODES = ("compile", "cuda_graph+flash")

# Days of the same logs differ by up to 3 %; what differs by more is named.
_TOLERANCE = 0.03


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduced:
    """A published speed-up and what stands beside it.

    Attributes:
        published: What the paper prints.
        logged: Speed-ups in the logs, by mode, where they have the setting.
        predicted: Predicted ones, by mode.
    """

    published: PublishedSpeedup
    logged: dict[str, float]
    predicted: dict[str, float]


def reproduce(rows: Sequence[LogRow], machine: Calibrated) -> list[Reproduced]:
    """Every published speed-up, in the order of the paper's sizes."""
    logged = {
        (rows[index].config, rows[index].setting): value
        for index, value in speedups(rows, (row.seconds for row in rows)).items()
    }
    return [_reproduced(each, logged, machine) for each in PUBLISHED_SPEEDUPS]


def _reproduced(
    published: PublishedSpeedup,
    logged: dict[tuple[ModelConfig, Setting], float],
    machine: Calibrated,
) -> Reproduced:
    dense = _timed_shape(published)
    config = with_residual(dense, published.residual)
    settings = {mode: _setting(published, mode) for mode in MODES}
    base = predict(dense, list(settings.values()), machine)
    own = predict(config, list(settings.values()), machine)
    return Reproduced(
        published=published,
        logged={
            mode: logged[config, setting]
            for mode, setting in settings.items()
            if (config, setting) in logged
        },
        predicted={
            mode: slow.seconds / fast.seconds
            for mode, slow, fast in zip(settings, base, own, strict=True)
        },
    )


def _timed_shape(published: PublishedSpeedup) -> ModelConfig:
    """The named shape, with the heads that were timed."""
    dense = MODELS[published.model].config
    heads = published.heads or dense.num_attention_heads
    return replace(
        dense,
        num_attention_heads=heads,
        num_key_value_heads=published.kv_heads or dense.num_key_value_heads,
        head_dim=dense.hidden_size // heads,
    )


def _setting(published: PublishedSpeedup, mode: str) -> Setting:
    return Setting(
        workload=Workload(
            batch_size=published.batch_size, prompt_len=PROMPT_LEN, output_len=OUTPUT_LEN
        ),
        tp_size=published.tp_size,
        nodes=published.nodes,
        link=published.link,
        execution=mode,
    )


REPRODUCTION_HEADINGS = (
    "model",
    "residual",
    "link",
    "tp_size",
    "batch",
    "published",
    *(f"logged, {mode}" for mode in MODES),
    *(f"predicted, {mode}" for mode in MODES),
)


def reproduction_rows(found: Sequence[Reproduced]) -> Iterator[tuple[object, ...]]:
    """A row a published speed-up, in the columns of REPRODUCTION_HEADINGS."""
    for each in found:
        row = each.published
        yield (
            row.size,
            row.residual,
            row.link,
            row.tp_size,
            row.batch_size,
            f"{row.speedup:.2f}",
            *(f"{each.logged[mode]:.3f}" if mode in each.logged else "—" for mode in MODES),
            *(f"{each.predicted[mode]:.3f}" for mode in MODES),
        )


def discrepancies(found: Sequence[Reproduced]) -> Iterator[str]:
    """A sentence for each published speed-up that isn't the logs' in compile mode, or predicted.

    The paper doesn't say in which mode its numbers were taken; most are those of compile mode.
    """
    for each in found:
        row = each.published
        name = f"{row.size} {row.residual} over {row.link} at batch size {row.batch_size}"
        said = f"{name}: published {row.speedup:.2f}"
        near = [mode for mode, value in each.logged.items() if _near(value, row.speedup)]
        if each.logged and MODES[0] not in near:
            words = f"only {', '.join(near)} has it" if near else "no mode has it"
            yield f"{said}, logged {_by_mode(each.logged)}: {words}."
        if not any(_near(value, row.speedup) for value in each.predicted.values()):
            yield f"{said}, predicted {_by_mode(each.predicted)}."


def _near(value: float, published: float) -> bool:
    return abs(value / published - 1) <= _TOLERANCE


def _by_mode(values: Mapping[str, float]) -> str:
    return ", ".join(f"{value:.3f} ({mode})" for mode, value in values.items())
