"""YAML files of tasks: ours, and those of the installed lm-eval that they include.

Functions that a file names (`!function`) stay names until a task is built. So a list of tasks
imports none of lm-eval's task modules, and a function that a task of ours replaces is never
imported at all: some of these modules need packages or downloads of their own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.tasks._yaml_loader import _import_fun_from_str, load_yaml

from ladder_eval.errors import UsageError

_PACKAGE = Path(lm_eval.__file__).parent.resolve()
# How a task file of ours names a stock one.
_STOCK = "lm_eval/"


def read(path: Path) -> dict[str, Any]:
    """One file of ours, without what it includes."""
    values: dict[str, Any] = load_yaml(path, resolve_func=False, recursive=False)
    return values


def read_stock(pattern: str) -> list[dict[str, Any]]:
    """The installed lm-eval's files that match a pattern below `lm_eval/`, includes merged.

    Raises:
        UsageError: if there is none.
    """
    found = sorted(_PACKAGE.glob(pattern.removeprefix(_STOCK)))
    if not found:
        raise UsageError(f"This lm-eval has no {pattern}; install the version in constraints.txt.")
    return [load_yaml(path, resolve_func=False) for path in found]


def with_functions(value: Any, ours: Path) -> Any:
    """A configuration in which names of functions have become functions.

    Args:
        value: The configuration, or a part of it.
        ours: The folder of our own task files.
    """
    if isinstance(value, dict):
        return {name: with_functions(item, ours) for name, item in value.items()}
    if isinstance(value, list):
        return [with_functions(item, ours) for item in value]
    if isinstance(value, str) and value.startswith((f"{_PACKAGE}/", f"{ours.resolve()}/")):
        with _without_downloads():
            return _import_fun_from_str(value)
    return value


@contextmanager
def _without_downloads() -> Iterator[None]:
    """Import as a rank that leaves downloads to another: lm-eval's IFEval fetches on rank 0."""
    before = os.environ.get("LOCAL_RANK")
    os.environ["LOCAL_RANK"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["LOCAL_RANK"]
        else:
            os.environ["LOCAL_RANK"] = before
