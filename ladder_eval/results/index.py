"""A folder of runs as tables in SQLite, which can always be made anew from the runs.

A run whose `results.json` has the bytes that it had is not read again. Nothing is only in the
index: where it is missing, damaged or of another version it is made anew, and where it can't be
written the same tables are made in memory.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

import ladder_eval
from ladder_eval.errors import RecordError
from ladder_eval.results.records import SCHEMA_VERSION, RunResult
from ladder_eval.results.store import RESULT_NAME, find_runs, read_result

__all__ = ["INDEX_NAME", "Indexed", "Table", "read_runs"]

INDEX_NAME: Final = "leaderboard.sqlite"
"""Name of the index in the folder of runs."""

# Rises when rows are made otherwise from the same records.
_INDEX_VERSION: Final = 1
_SQL_TYPES: Final = {"string": "TEXT", "Int64": "INTEGER", "float64": "REAL"}
_IN_USE: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PATIENCE: Final = 5.0  # seconds that another process may take to write its index


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table of the index.

    Attributes:
        name: Its name.
        columns: The pandas type of each column: string, Int64 or float64.
        rows: Makes a run's rows; a column that a row lacks is missing there.
    """

    name: str
    columns: Mapping[str, str]
    rows: Callable[[RunResult], Iterable[Mapping[str, object]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """All runs of a folder.

    Attributes:
        tables: Each table by its name, its rows in the order of the runs' paths.
        runs: Runs found.
        skipped: Why each run that can't be read can't, in a sentence.
    """

    tables: Mapping[str, pd.DataFrame]
    runs: int
    skipped: tuple[str, ...]


def read_runs(folder: Path, tables: Sequence[Table]) -> Indexed:
    """The tables of all runs at or below a folder, from its index as far as that is current.

    A run that can't be read is left out, and named.

    Raises:
        RecordError: If `folder` isn't a folder.
    """
    runs, file = find_runs(folder), folder / INDEX_NAME
    if not runs:
        return _through(":memory:", folder, runs, tables)
    try:
        return _through(file, folder, runs, tables)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _IN_USE:
            with suppress(OSError, sqlite3.Error):
                file.unlink()
                return _through(file, folder, runs, tables)
    return _through(":memory:", folder, runs, tables)


def _through(
    database: str | Path, folder: Path, runs: Sequence[Path], tables: Sequence[Table]
) -> Indexed:
    with closing(sqlite3.connect(database, timeout=_PATIENCE)) as connection:
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # two processes don't both add a run
            _prepare(connection, tables)
            _update(connection, folder, runs, tables)
        problems = connection.execute("SELECT problem FROM runs WHERE problem != '' ORDER BY path")
        return Indexed(
            tables={table.name: _frame(connection, table) for table in tables},
            runs=len(runs),
            skipped=tuple(str(problem) for (problem,) in problems),
        )


def _prepare(connection: sqlite3.Connection, tables: Sequence[Table]) -> None:
    """Make the tables, in place of those of another version."""
    version = _version(tables)
    if connection.execute("PRAGMA user_version").fetchone() == (version,):
        return
    for name in ("runs", *(table.name for table in tables)):
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
    connection.execute("CREATE TABLE runs (path TEXT PRIMARY KEY, sha256 TEXT, problem TEXT)")
    for table in tables:
        columns = ", ".join(f'"{name}" {_SQL_TYPES[kind]}' for name, kind in table.columns.items())
        connection.execute(f'CREATE TABLE "{table.name}" (path TEXT, {columns})')
    connection.execute(f"PRAGMA user_version = {version}")


def _version(tables: Sequence[Table]) -> int:
    """A number of 31 bits that changes with whatever determines the tables."""
    made = [ladder_eval.__version__, SCHEMA_VERSION, _INDEX_VERSION]
    columns = [(table.name, list(table.columns.items())) for table in tables]
    digest = hashlib.sha256(repr([made, columns]).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _update(
    connection: sqlite3.Connection, folder: Path, runs: Sequence[Path], tables: Sequence[Table]
) -> None:
    """Take out runs that are gone or have changed, and put in what is there now."""
    found = {str(run.relative_to(folder)): _sha256(run / RESULT_NAME) for run in runs}
    known = dict(connection.execute("SELECT path, sha256 FROM runs"))
    current = {path for path, digest in known.items() if digest and digest == found.get(path)}
    for path in known.keys() - current:
        for name in ("runs", *(table.name for table in tables)):
            connection.execute(f'DELETE FROM "{name}" WHERE path = ?', [path])
    for path, digest in found.items():
        if path not in current:
            _add(connection, folder, path, digest, tables)


def _add(
    connection: sqlite3.Connection,
    folder: Path,
    path: str,
    digest: str | None,
    tables: Sequence[Table],
) -> None:
    problem = ""
    try:
        result = read_result(folder / path)
    except RecordError as error:
        digest, problem = None, str(error)  # it is tried again each time
    else:
        for table in tables:
            marks = ", ".join("?" * (len(table.columns) + 1))
            rows = ((path, *map(row.get, table.columns)) for row in table.rows(result))
            connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', rows)
    connection.execute("INSERT INTO runs VALUES (?, ?, ?)", [path, digest, problem])


def _sha256(file: Path) -> str | None:
    """Hash of a file's bytes; None if they can't be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _frame(connection: sqlite3.Connection, table: Table) -> pd.DataFrame:
    names = ", ".join(f'"{name}"' for name in table.columns)
    rows = connection.execute(f'SELECT {names} FROM "{table.name}" ORDER BY path, rowid').fetchall()
    return pd.DataFrame(rows, columns=list(table.columns)).astype(dict(table.columns))
