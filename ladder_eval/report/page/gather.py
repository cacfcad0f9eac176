"""From finished runs to what the page says of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ladder_eval.report.block import Block
from ladder_eval.report.comparisons import comparison_blocks
from ladder_eval.report.gaps import gap_blocks
from ladder_eval.report.judged import judged_blocks
from ladder_eval.report.load import brief_load_block, load_block, replay_block
from ladder_eval.report.page.cautions import cautions
from ladder_eval.report.page.content import Explorer, Facts, Figure, Page, Run, Section, Verdict
from ladder_eval.report.page.controls import BaselineControl, controls
from ladder_eval.report.page.glance import glance
from ladder_eval.report.page.headline import choices, headline
from ladder_eval.report.page.verdicts import verdicts
from ladder_eval.report.scores import all_scores, average_blocks, score_blocks
from ladder_eval.report.speed import brief_speed_block, published_block, speed_block
from ladder_eval.report.tables import conditions
from ladder_eval.report.tradeoffs import equal_blocks, equal_sentences, tradeoff_block
from ladder_eval.report.utilisation import utilisation_blocks
from ladder_eval.results.equal_terms import equal_terms
from ladder_eval.results.records import RunResult
from ladder_eval.results.tradeoff import tradeoffs

__all__ = ["MOST_PLOTTED", "SHOWN_SCORES", "gather"]

MOST_PLOTTED: Final = 8
"""Runs that plots are drawn of, at most: the first ones. Tables have all."""

SHOWN_SCORES: Final = 500
"""Rows of all scores that a page has at most; beyond that they are only in scores.csv."""


def gather(
    runs: Sequence[Run],
    figures: Mapping[str, Sequence[Figure]] | None = None,
    explorer: Explorer | None = None,
) -> Page:
    """What the page says of the runs.

    Args:
        runs: The runs, at least one.
        figures: Plots of the first MOST_PLOTTED of them, by the anchor of their section.
        explorer: Documents of them.
    """
    found, checked = verdicts(runs), controls(runs)
    return Page(
        title=_title(runs),
        subtitle=_subtitle(runs),
        headline=headline(found),
        verdicts=found,
        glance=glance(found),
        choices=choices(runs),
        conditions=_shared(found),
        warnings=(*_warnings(runs), *_out_of_bounds(checked)),
        sections=tuple(
            _plotted(each, len(runs))
            for each in _sections(runs, figures or {}, checked)
            if not _is_empty(each)
        ),
        explorer=explorer,
    )


def _title(runs: Sequence[Run]) -> str:
    suites = " and ".join(dict.fromkeys(run.result.suite for run in runs))
    return f"{suites}: {runs[0].result.run_id if len(runs) == 1 else f'{len(runs)} runs'}"


def _subtitle(runs: Sequence[Run]) -> str:
    times = sorted(run.result.provenance.started_at for run in runs)
    versions = dict.fromkeys(run.result.provenance.versions.get("ladder-eval") for run in runs)
    made = " and ".join(f"ladder-eval {version}" for version in versions if version)
    days = " to ".join(dict.fromkeys(time[:10] for time in (times[0], times[-1])))
    return ", ".join(filter(None, (f"measured {days}", made)))


def _shared(found: Sequence[Verdict]) -> tuple[str, ...]:
    """The conditions of all verdicts, each once, with whose they are where they differ."""
    names: dict[str, list[str]] = {}
    for each in found:
        if each.conditions:
            names.setdefault(each.conditions, []).append(each.candidate)
    if len(names) == 1:
        return tuple(names)
    return tuple(f"{', '.join(own)}: {text}" for text, own in names.items())


def _warnings(runs: Sequence[Run]) -> tuple[str, ...]:
    """All warnings, with the run that they are of where there are several."""
    several = len(runs) > 1
    return tuple(
        f"{run.result.run_id}: {text}" if several else text
        for run in runs
        for text in cautions(run)
    )


def _out_of_bounds(checked: Sequence[BaselineControl]) -> Iterator[str]:
    for each in checked:
        if each.is_out_of_bounds:
            yield (
                f"A/A out of bounds: {each.sentence} Something beside the residual changes answers "
                f"of {each.run_id}."
            )


def _is_empty(section: Section) -> bool:
    parts = (section.sentences, section.figures, section.blocks, section.facts, section.folded)
    return not any(parts)


def _plotted(section: Section, runs: int) -> Section:
    """The section, which says if its plots are only of some of the runs."""
    if runs <= MOST_PLOTTED or not section.figures:
        return section
    text = f"Plots are of the first {MOST_PLOTTED} of {runs} runs; tables have all."
    return replace(section, sentences=(*section.sentences, text))


def _sections(
    runs: Sequence[Run],
    figures: Mapping[str, Sequence[Figure]],
    checked: Sequence[BaselineControl],
) -> Iterator[Section]:
    yield _tradeoff(runs, figures.get("tradeoff", ()))
    yield Section(
        anchor="accuracy",
        title="Accuracy",
        sentences=tuple(each.sentence for each in checked),
        figures=tuple(figures.get("accuracy", ())),
        blocks=_of(runs, _accuracy),
    )
    yield Section(
        anchor="speed",
        title="Speed",
        figures=tuple(figures.get("speed", ())),
        blocks=_of(runs, _speed),
        folded=_of(runs, _all_speed),
    )
    yield Section(
        anchor="timeline", title="One layer in time", figures=tuple(figures.get("timeline", ()))
    )
    yield Section(
        anchor="conditions",
        title="Conditions and provenance",
        facts=tuple(
            Facts(title=run.result.run_id, pairs=_unwarned(conditions(run.result))) for run in runs
        ),
    )
    yield _scores(runs)


def _tradeoff(runs: Sequence[Run], figures: Sequence[Figure]) -> Section:
    """Accuracy against speed, and both at equal terms; empty where nothing has both."""
    found = [equal_terms(each, run.folder) for run in runs for each in tradeoffs(run.result)]
    points = (tradeoff_block(each.tradeoff) for each in found)
    return Section(
        anchor="tradeoff",
        title="Accuracy against speed",
        sentences=tuple(sentence for each in found for sentence in equal_sentences(each)),
        figures=tuple(figures),
        blocks=(*points, *(block for each in found for block in equal_blocks(each))),
    )


def _of(runs: Sequence[Run], make: Callable[[RunResult], Iterable[Block]]) -> tuple[Block, ...]:
    """The blocks of all runs, each under its run's name where there are several."""
    several = len(runs) > 1
    return tuple(
        replace(block, title=f"{run.result.run_id}: {block.title}") if several else block
        for run in runs
        for block in make(run.result)
    )


def _accuracy(result: RunResult) -> Iterator[Block]:
    yield from average_blocks(result)
    yield from comparison_blocks(result) or score_blocks(result)
    yield from judged_blocks(result)
    if result.published:
        yield published_block(result.published)


def _speed(result: RunResult) -> Iterator[Block]:
    yield from map(brief_speed_block, result.speed)
    yield from map(brief_load_block, result.load)
    yield from map(replay_block, result.replay)


def _all_speed(result: RunResult) -> Iterator[Block]:
    for record in result.speed:
        yield replace(speed_block(record), notes=())  # the brief block has said them
    yield from utilisation_blocks(result.speed)
    yield from gap_blocks(result.speed)
    yield from map(load_block, result.load)


def _unwarned(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Conditions without the warnings, which have a place of their own."""
    return tuple(pair for pair in pairs if pair[0] != "warning")


def _scores(runs: Sequence[Run]) -> Section:
    """All scores, if they aren't too many to be shown."""
    blocks = _of([run for run in runs if run.result.scores], lambda result: [all_scores(result)])
    rows = sum(len(block.rows) for block in blocks)
    if rows <= SHOWN_SCORES:
        return Section(anchor="scores", title="All scores", folded=blocks)
    text = f"All {rows} scores are in tables/scores.csv."
    return Section(anchor="scores", title="All scores", sentences=(text,))
