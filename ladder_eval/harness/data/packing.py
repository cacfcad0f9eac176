"""Writes the data of suites into one folder, for a machine without network."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import ladder_eval
from ladder_eval.errors import DataError, UsageError
from ladder_eval.fetch import sha256_file
from ladder_eval.harness.data.benchmarks import benchmark_of
from ladder_eval.harness.data.checking import resource_names
from ladder_eval.harness.data.contents import loaded_sha256, official_content
from ladder_eval.harness.data.files import read_rows
from ladder_eval.harness.data.length_files import (
    SHA256,
    LengthFolder,
    alpaca_eval,
    length_files_if_any,
    need_length_files,
)
from ladder_eval.harness.data.releases import write_release
from ladder_eval.harness.data.resources import RESOURCES, Resource, copy_resource, provide
from ladder_eval.harness.data.splits import DataSources, LoadedSplit, Split
from ladder_eval.models.new_folder import new_folder

MANIFEST = "MANIFEST.json"


def require_empty(out: Path) -> None:
    """Refuse a folder that has something in it.

    Raises:
        UsageError: if there is one, or it can't be looked at.
    """
    try:
        taken = out.exists() and not (out.is_dir() and next(out.iterdir(), None) is None)
    except OSError as error:
        raise _not_writable(out, error) from None
    if taken:
        raise UsageError(f"{out} exists and is no empty folder; name another one.")


def write_pack(out: Path, loaded: Mapping[Split, LoadedSplit], sources: DataSources) -> Path:
    """Write splits, and the resources that they need, as `--data-dir` takes them.

    AlpacaEval's files for length control come along if they can be had.

    The folder appears complete, with every file read back, or not at all.

    Returns:
        The manifest: rows, hashes, source, licence and revision of all that is in the folder.

    Raises:
        UsageError: if the folder isn't empty or can't be written.
        FetchError: if a resource can't be had.
    """
    require_empty(out)
    length = length_files_if_any(sources) if need_length_files(loaded) else None
    roots = {name: provide(RESOURCES[name], sources) for name in resource_names(loaded)}
    try:
        with new_folder(out.resolve()) as folder:
            manifest: dict[str, Any] = {
                "made_by": f"ladder-eval {ladder_eval.__version__}",
                "splits": [_write_split(folder, *item) for item in sorted_items(loaded)],
                "resources": [_write_resource(folder, RESOURCES[n], r) for n, r in roots.items()],
            }
            if length:
                manifest["length_control"] = _write_length_files(folder, length)
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise _not_writable(out, error) from None
    return out / MANIFEST


def sorted_items(loaded: Mapping[Split, LoadedSplit]) -> Iterable[tuple[Split, LoadedSplit]]:
    """Splits with their rows, in a fixed order."""
    return ((split, loaded[split]) for split in sorted(loaded))


def _write_split(folder: Path, split: Split, loaded: LoadedSplit) -> dict[str, Any]:
    benchmark = benchmark_of(split.hub_id)
    digest = loaded_sha256(loaded)
    place, written = _write_loaded(folder, split, loaded)
    if loaded_sha256(written) != digest:
        raise DataError(f"{split} was not read back as it was written; report this.")
    official = official_content(split)
    return {
        "file": place,
        "data_set": split.hub_id,
        "configuration": split.config,
        "split": split.name,
        "rows": len(loaded.rows),
        "official_rows": official.rows if official else None,
        "content_sha256": digest,
        "sha256": sha256_file(folder / place),
        "source": loaded.source,
        "licence": benchmark.licence,
        "revision": benchmark.revision,
    }


def _write_loaded(folder: Path, split: Split, loaded: LoadedSplit) -> tuple[str, LoadedSplit]:
    """Write a split as a file of its rows, or the release that it is from, and read it back."""
    benchmark = benchmark_of(split.hub_id)
    if benchmark.release and loaded.file:
        place = write_release(benchmark.release, loaded.file, folder)
        return place, replace(loaded, file=folder / place)
    place = f"{benchmark.name}/{split.config or 'default'}/{split.name}.parquet"
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(loaded.rows.data.table, folder / place, compression="zstd")
    return place, replace(loaded, rows=read_rows([folder / place]))


def _write_resource(folder: Path, resource: Resource, root: Path) -> dict[str, Any]:
    copy_resource(resource, root, folder / "nltk_data")
    return {
        "name": resource.name,
        "folder": f"nltk_data/{resource.place}",
        "sha256": resource.files,
        "source": str(root),
        "licence": resource.licence,
    }


def _write_length_files(folder: Path, files: LengthFolder) -> dict[str, Any]:
    benchmark = alpaca_eval()
    for name in SHA256:
        shutil.copyfile(files.folder / name, folder / benchmark.name / name)
    return {
        "folder": benchmark.name,
        "sha256": {name: sha256_file(folder / benchmark.name / name) for name in SHA256},
        "source": files.source,
        "licence": benchmark.licence,
        "revision": benchmark.revision,
    }


def _not_writable(out: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{out} can't be written ({error.strerror or error}); name another folder or make room."
    )
