"""The data catalogue: every data set that a task needs, and the places that have it.

The table is in `data/benchmarks.py`; `data/finding.py` has the order of the sources. Only Arrow,
Parquet and JSON are read: none of them can carry code, and no data set's own code is ever run.
"""

from collections.abc import Iterable, Mapping

from ladder_eval.errors import DataError
from ladder_eval.harness.data.benchmarks import BENCHMARKS, Benchmark
from ladder_eval.harness.data.finding import Finder, Missing
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split

__all__ = ["BENCHMARKS", "Benchmark", "DataSources", "LoadedSplit", "Split", "load"]


def load(splits: Iterable[Split], sources: DataSources) -> dict[Split, LoadedSplit]:
    """Load splits, fetching what isn't at hand.

    Raises:
        DataError: if any can't be had, in one message that lists all of them.
    """
    finder = Finder(sources)
    missing = finder.anywhere(splits)
    if missing:
        raise DataError(_sentence(missing))
    return finder.found


def _sentence(missing: Mapping[Split, Missing]) -> str:
    reasons = dict.fromkeys(reason for why in missing.values() for reason in why.reasons)
    unpacked = [split for split, why in missing.items() if not why.packed]
    nowhere = f"No wheel holds {_names(unpacked)}. " if unpacked else ""
    return (
        f"Missing data: {_names(missing)}. {' '.join(reasons)} {nowhere}Where there is a network, "
        "`ladder-eval data fetch` gets it; a folder that has it is given by --data-dir."
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
