"""The leaderboard's CSV in pandas and in a spreadsheet: numbers are numbers, text is text."""

import io
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace

import pandas as pd
import pytest

from ladder_eval.report.board_columns import LEADERBOARD_COLUMNS
from ladder_eval.report.leaderboard import leaderboard, to_csv
from ladder_eval.results.cells import as_data

FORMULAS = ("=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1+1", "＝1+1")
VALUES = ("00123", "1e5", "2025-01-31", "12:30", "1,234", "TRUE", "NA", "nan", "None")
PLAIN = ("smollm2_135m", "v1.0", "2.13.0", "none", "a,b", 'say "x"', "'quoted", " =1+1", "3 of 4")

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"

# Comma, double quotes, UTF-8: what the dialog that a spreadsheet shows proposes.
_AS_CSV = "--infilter=CSV:44,34,76"


def board_of(result, names):
    """A leaderboard with a row a name."""
    first, _ = result.models
    models = tuple(replace(first, name=name, fingerprint=name) for name in names)
    scores = tuple(replace(each, model=name) for name in names for each in result.scores[::2])
    return leaderboard([replace(result, models=models, scores=scores, comparisons=())])


@pytest.mark.parametrize("text", [*FORMULAS, *VALUES])
def test_text_that_would_be_mistaken_gets_an_apostrophe(text):
    assert as_data(text) == f"'{text}"


@pytest.mark.parametrize("cell", [*PLAIN, "2025-01-31T12:00:00+00:00", 1, -2.5, None, True])
def test_anything_else_stays_as_it_is(cell):
    assert as_data(cell) is cell


@pytest.mark.parametrize("name", [*VALUES, "=1+1", "plain"])
def test_pandas_reads_names_as_text(undecided, name):
    again = pd.read_csv(io.StringIO(to_csv(board_of(undecided, [name]))))
    assert again["model"].tolist() == [as_data(name)]
    assert again["mean_headline"].dtype == "float64"


@pytest.fixture(scope="module")
def spreadsheet():
    """Opens CSV files in LibreOffice and gives each one's rows of (type, value, formula)."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice (soffice) isn't installed")

    def opened(folder):
        profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
        files = sorted(map(str, folder.glob("*.csv")))
        command = [program, profile, "--headless", _AS_CSV, "--convert-to", "fods"]
        subprocess.run(
            [*command, "--outdir", str(folder), *files],
            check=True,
            capture_output=True,
            timeout=120,
        )
        return {path.stem: cells_of(path) for path in folder.glob("*.fods")}

    return opened


def cells_of(path):
    rows = []
    for row in ET.parse(path).iter(f"{_TABLE}table-row"):
        cells = []
        for cell in row.iter(f"{_TABLE}table-cell"):
            again = min(int(cell.get(f"{_TABLE}number-columns-repeated", "1")), 100)
            text = "\n".join("".join(each.itertext()) for each in cell.iter(f"{_TEXT}p"))
            kind, value = cell.get(f"{_OFFICE}value-type"), cell.get(f"{_OFFICE}value", text)
            cells += [(kind, value, cell.get(f"{_TABLE}formula"))] * again
        rows.append(cells)
    return rows


def test_a_spreadsheet_keeps_types_and_runs_nothing(undecided, spreadsheet, tmp_path):
    names = [*FORMULAS, *VALUES, *PLAIN]
    frame = board_of(undecided, names)
    (tmp_path / "board.csv").write_text(to_csv(frame), encoding="utf-8")
    # What it does with an export that isn't careful, so that the test would see it.
    frame[["model"]].to_csv(tmp_path / "careless.csv", index=False)
    found = spreadsheet(tmp_path)
    careless = {cell[0] for (cell, *_) in found["careless"][1:]}
    assert any(formula for ((_, _, formula), *_) in found["careless"])
    assert {"float", "date", "boolean", "time"} & careless
    headings, *rows = found["board"]
    assert [value for _, value, _ in headings][: len(LEADERBOARD_COLUMNS)] == list(frame.columns)
    for row, wanted in zip(rows[: len(frame)], frame.to_dict("records"), strict=True):
        assert not any(formula for _, _, formula in row)
        for (kind, value, _), (column, cell) in zip(row, wanted.items(), strict=False):
            if pd.isna(cell):
                assert kind is None, column
            elif LEADERBOARD_COLUMNS[column] == "string":
                assert kind == "string", column
                assert "".join(value.split()) == "".join(str(as_data(cell)).split()), column
            else:
                assert kind == "float", column
                assert float(value) == pytest.approx(float(cell), rel=1e-12), column
