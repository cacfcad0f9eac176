"""All plots of a report, by what they are about.

Each is a `Figure`: an SVG for light and dark pages, a PNG of twice its size, and where there's
something to point at, a Vega-Lite specification that `vega_runtime` makes interactive.
"""

from collections.abc import Sequence
from dataclasses import replace

from ladder_eval.report.page.chart_style import dark_style, vega_runtime
from ladder_eval.report.page.content import Figure, Run
from ladder_eval.report.page.forest_chart import forest_figure
from ladder_eval.report.page.speed_charts import speed_figures
from ladder_eval.report.page.timeline_figure import timeline_figures
from ladder_eval.report.page.tradeoff_chart import tradeoff_figure
from ladder_eval.results.tradeoff import tradeoffs

__all__ = [
    "dark_style",
    "difference_figures",
    "figures",
    "speed_plots",
    "timeline_plots",
    "tradeoff_figures",
    "vega_runtime",
]


def figures(runs: Sequence[Run]) -> dict[str, tuple[Figure, ...]]:
    """All plots of some runs, by the anchor of their section.

    Raises:
        RecordError: If a run's picture can't be read.
    """
    return {
        "tradeoff": tradeoff_figures(runs),
        "accuracy": difference_figures(runs),
        "speed": speed_plots(runs),
        "timeline": timeline_plots(runs),
    }


def tradeoff_figures(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """Accuracy against speed: a figure for each measurement that timed compared models."""
    found = [(run.result, each) for run in runs for each in tradeoffs(run.result)]
    return tuple(
        tradeoff_figure(result, each, _numbered("tradeoff", number))
        for number, (result, each) in enumerate(found, 1)
    )


def difference_figures(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """Differences by task: a figure for each run that compares."""
    found = (
        forest_figure(run.result, _numbered("differences", n)) for n, run in enumerate(runs, 1)
    )
    return tuple(each for each in found if each is not None)


def speed_plots(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """Speed-ups over what was varied, of all runs together; else tokens/s of each setting."""
    return speed_figures([record for run in runs for record in run.result.speed])


def timeline_plots(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """Layers of traced runs, moment by moment.

    Raises:
        RecordError: If a picture can't be read.
    """
    found = [each for run in runs for each in timeline_figures(run.folder)]
    return tuple(replace(each, name=_numbered("timeline", n)) for n, each in enumerate(found, 1))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
