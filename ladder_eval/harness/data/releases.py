"""evalplus' release files, which hold the problems and the tests of HumanEval+ and MBPP+.

The Hub's data sets of these names are made from other files: their prompts of MBPP+ are the bare
descriptions, without the test that evalplus shows a model. So nothing but the release files counts.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import build_opener

from datasets import Dataset
from evalplus.data.utils import CACHE_DIR, get_dataset_metadata

from ladder_eval.errors import DataError, FetchError, RecordError, brief
from ladder_eval.fetch import UnreachableError, cache_folder
from ladder_eval.harness.data.files import read_json
from ladder_eval.harness.data.splits import DataSources
from ladder_eval.results.files import atomic_write
from ladder_eval.unpacking import unzipped

_COLUMNS = ("task_id", "prompt", "entry_point")
_TIMEOUT = 10.0  # seconds without a byte
_BY_HAND = "or get the file elsewhere and put it into the folder that --data-dir names"


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A release file of evalplus.

    Attributes:
        name: What evalplus calls the data set.
        title: What its files are called.
        version: The release's tag.
        url: Where the file is.
        sha256: Hash of the unpacked file.
        licence: The licence its authors state.
    """

    name: str
    title: str
    version: str
    url: str
    sha256: str
    licence: str = "Apache-2.0"

    def __str__(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def file_name(self) -> str:
        """Name of the file, as it is published."""
        return f"{self.title}.jsonl.gz"

    @property
    def source(self) -> str:
        """Where an unaltered copy is from, in words."""
        return f"evalplus' release {self}"


def _evalplus(name: str, title: str, version: str, sha256: str) -> Release:
    url, _ = get_dataset_metadata(title, version, False)
    return Release(name=name, title=title, version=version, url=str(url), sha256=sha256)


# The hashes are of GitHub's files; the MD5 of the same bytes, which evalplus writes into its
# results, stands in many published ones: fe585eb4df8c88d844eeb463ea4d0302 and
# ee43ecabebf20deef4bb776a405ac5b1.
RELEASES: Final[Mapping[str, Release]] = {
    "humaneval": _evalplus(
        "humaneval",
        "HumanEvalPlus",
        "v0.1.10",
        "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f",
    ),
    "mbpp": _evalplus(
        "mbpp",
        "MbppPlus",
        "v0.2.0",
        "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad",
    ),
}
"""The releases that the installed evalplus takes, by evalplus' names of the data sets."""


def release_file(release: Release, sources: DataSources) -> Path:
    """The file of a release: the user's, that of a cache, or else a fresh copy from GitHub.

    The user's may be any; `is_official` tells. Elsewhere only the very release counts.

    Raises:
        UnreachableError: if it is nowhere at hand, and GitHub can't be reached.
        FetchError: if GitHub has another file, or it can't be kept.
    """
    return release_at_hand(release, sources) or _fetch(release, sources)


def release_at_hand(release: Release, sources: DataSources) -> Path | None:
    """The file of a release that needs no network, if there is one."""
    given = sources.data_dir and next(_given(release, sources.data_dir), None)
    return given or next((p for p in _cached(release) if is_official(release, p)), None)


def is_official(release: Release, place: Path) -> bool:
    """Whether a file, packed or not, is a release to the last byte."""
    try:
        return hashlib.sha256(read_release(place)).hexdigest() == release.sha256
    except DataError:
        return False


def read_release(place: Path) -> bytes:
    """The unpacked content of a file, gzipped or not.

    Raises:
        DataError: if it can't be read.
    """
    try:
        content = place.read_bytes()
        return unzipped(place) if _is_packed(content) else content
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{place} can't be read as data ({brief(error)}); get it again.") from error


def release_rows(place: Path) -> Dataset:
    """What a model is told of each problem, one a row; the tests, megabytes, stay in the file.

    Raises:
        DataError: if a row lacks one of task_id, prompt and entry_point, or has it as no text that
            could be written again.
    """
    problems = read_json(place)
    if not all(isinstance(row.get(column), str) for row in problems for column in _COLUMNS):
        raise DataError(
            f"{place} can't be read as data (a row lacks one of {', '.join(_COLUMNS)}); "
            "get it again."
        )
    try:
        return Dataset.from_dict({c: [row[c] for row in problems] for c in _COLUMNS})
    except UnicodeError as error:  # half a character
        raise DataError(f"{place} can't be read as data ({brief(error)}); get it again.") from None


def write_release(release: Release, source: Path, folder: Path) -> str:
    """Copy a release file into a folder of data.

    Returns:
        Its place there.
    """
    place = f"evalplus/{release.file_name}"
    content = source.read_bytes()
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_bytes(
        content if _is_packed(content) else gzip.compress(content, mtime=0)
    )
    return place


def _given(release: Release, data_dir: Path) -> Iterator[Path]:
    """The files of a folder of data that are called as a release."""
    stems = (release.title, f"{release.title}-{release.version}")
    for folder in (data_dir, data_dir / "evalplus", data_dir / "evalplus_native"):
        for name in (f"{stem}.jsonl{end}" for stem in stems for end in ("", ".gz")):
            if (folder / name).is_file():
                yield folder / name


def _cached(release: Release) -> Iterator[Path]:
    """The copies, altered or not, that evalplus and we have fetched."""
    own = _own(release)
    for place in (Path(CACHE_DIR) / own.stem, own):
        if place.is_file():
            yield place


def _own(release: Release) -> Path:
    return cache_folder() / "evalplus" / f"{release.title}-{release.version}.jsonl.gz"


def _fetch(release: Release, sources: DataSources) -> Path:
    altered = " and ".join(map(str, _cached(release)))
    again = f" again, since {altered} is something else" if altered else ""
    sources.notify(f"fetching {release} from {release.url}{again}")
    content = _download(release)
    try:
        found = hashlib.sha256(_unpacked(content)).hexdigest()
    except (OSError, EOFError, zlib.error):
        found = "that of a damaged file"
    if found != release.sha256:
        raise FetchError(
            f"{release.url} isn't {release}: its SHA-256 is {found} instead of {release.sha256}; "
            f"try again, {_BY_HAND}."
        )
    return _kept(release, content)


def _download(release: Release) -> bytes:
    """The file as GitHub, or the proxy that the environment names, sends it: about a megabyte."""
    try:
        with build_opener().open(release.url, timeout=_TIMEOUT) as answer:
            return bytes(answer.read())  # all of it: read(n) would not tell a broken connection
    except HTTPError as error:
        error.close()
        raise FetchError(
            f"{release.url} can't be had (HTTP {error.code}: {error.reason}); try again later, "
            f"{_BY_HAND}."
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)  # what is inside urllib's own
        raise UnreachableError(
            f"{release.url} can't be fetched ({str(reason) or type(reason).__name__}); connect to "
            f"the network, {_BY_HAND}."
        ) from error


def _kept(release: Release, content: bytes) -> Path:
    place = _own(release)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(place, content)
    except (OSError, RecordError) as error:
        raise FetchError(
            f"{release} can't be kept in the cache folder {cache_folder()} "
            f"({error.__cause__ or error}); make room there, or set LADDER_EVAL_CACHE to a folder "
            "that can be written."
        ) from error
    return place


def _is_packed(content: bytes) -> bool:
    return content[:2] == b"\x1f\x8b"


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if _is_packed(content) else content
