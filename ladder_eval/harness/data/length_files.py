"""The files of AlpacaEval 2's length control, without which there are raw win rates alone.

They are taken at the commit that is pinned for the data set. The hashes are those that a public
runner of AlpacaEval holds its downloads of that very commit against. They tell whether files of the
user's are the official ones; the Hub's own are pinned by the commit alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ladder_eval.errors import FetchError
from ladder_eval.fetch import cached_hub, fetch_hub, sha256_file
from ladder_eval.harness.data.benchmarks import BENCHMARKS, Benchmark
from ladder_eval.harness.data.splits import DataSources, Split

GAMED: Final = "df_gamed.csv"
DIFFICULTY: Final = "instruction_difficulty.csv"
SHA256: Final = {
    GAMED: "97aeec3f1c7de6dee6fd31fe66f1702623f4614c3efe1c6fc5f4927cd5fd674d",
    DIFFICULTY: "e28d875bb334f75e17acd1e4ed659b261860e3db379cf5de29060301bed0a18b",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthFolder:
    """A folder that has both files.

    Attributes:
        folder: The folder.
        source: Where they are from, in words.
    """

    folder: Path
    source: str

    @property
    def gamed(self) -> Path:
        """The gamed baselines."""
        return self.folder / GAMED

    @property
    def difficulty(self) -> Path:
        """The difficulty of each instruction."""
        return self.folder / DIFFICULTY

    @property
    def are_official(self) -> bool:
        """Whether both have the known hashes."""
        try:
            return all(sha256_file(self.folder / name) == known for name, known in SHA256.items())
        except OSError:
            return False


def alpaca_eval() -> Benchmark:
    """The data set whose repository has the files."""
    return BENCHMARKS["tatsu-lab/alpaca_eval"]


def need_length_files(splits: Iterable[Split]) -> bool:
    """Whether any split is of AlpacaEval."""
    return any(split.hub_id == alpaca_eval().hub_id for split in splits)


def length_files(sources: DataSources) -> LengthFolder:
    """Both files: from the user's folder, the Hub's cache or the Hub.

    Raises:
        FetchError: if they can't be had, with the reason and what to do. Nothing but the
            length-controlled rate is lost then.
    """
    found = length_files_at_hand(sources)
    if found:
        return found
    benchmark = alpaca_eval()
    folder = fetch_hub(
        benchmark.hub_id,
        revision=benchmark.revision,
        repo_type="dataset",
        patterns=list(SHA256),
        notify=sources.notify,
    )
    fetched = _both(folder, _hub_source(folder))
    if fetched is None:
        raise FetchError(
            f"The Hub's {benchmark.hub_id} at {folder.name} lacks {GAMED} or {DIFFICULTY}; put "
            f"both into {benchmark.name} of the folder that --data-dir names."
        )
    return fetched


def length_files_if_any(sources: DataSources) -> LengthFolder | None:
    """Both files, or a note of why they can't be had."""
    try:
        return length_files(sources)
    except FetchError as error:
        sources.notify(f"AlpacaEval's files for length control are left out: {error}")
        return None


def length_files_at_hand(sources: DataSources) -> LengthFolder | None:
    """Both files, if no network is needed; a folder that has only one of them has none."""
    benchmark = alpaca_eval()
    own = sources.data_dir and sources.data_dir / benchmark.name
    given = own and _both(own, str(own.resolve()))
    if given:
        return given
    cached = cached_hub(benchmark.hub_id, revision=benchmark.revision, repo_type="dataset")
    return _both(cached, _hub_source(cached)) if cached else None


def _both(folder: Path, source: str) -> LengthFolder | None:
    there = all((folder / name).is_file() for name in SHA256)
    return LengthFolder(folder=folder, source=source) if there else None


def _hub_source(folder: Path) -> str:
    return f"{alpaca_eval().hub_id} at {folder.name} from the Hugging Face Hub"
