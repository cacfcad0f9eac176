"""AlpacaEval 2's files for length control: df_gamed.csv and instruction_difficulty.csv."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ladder_eval.errors import DataError, brief
from ladder_eval.results.length_controlled import GamedBaselines

__all__ = ["LengthFiles", "read_length_files"]

Floats = npt.NDArray[np.float64]

GAMED_COLUMNS = ("index", "preference", "std_delta_len", "instruction_difficulty")


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthFiles:
    """What length control needs beside the verdicts.

    Attributes:
        gamed: The gamed baselines.
        difficulties: The difficulty of each of the reference's instructions, in its order.
    """

    gamed: GamedBaselines
    difficulties: Floats


def read_length_files(gamed: Path, difficulty: Path | None, documents: int) -> LengthFiles:
    """Read both files; without the second, the difficulties stand in the first, too.

    Args:
        gamed: df_gamed.csv.
        difficulty: instruction_difficulty.csv: a document's place, and its difficulty.
        documents: Instructions of the reference, each of which must have a difficulty.

    Raises:
        DataError: If a file can't be read, lacks a column, or isn't of that many documents.
    """
    frame = _numbers(_csv(gamed), GAMED_COLUMNS, gamed)
    if difficulty is None:
        values = frame.drop_duplicates("index").set_index("index")["instruction_difficulty"]
        source = gamed
    else:
        table = _csv(difficulty)
        table.columns = pd.Index(["index", "instruction_difficulty"][: table.shape[1]])
        values = _numbers(table, ("index", "instruction_difficulty"), difficulty).set_index(
            "index"
        )["instruction_difficulty"]
        source = difficulty
    values = values.sort_index()
    if values.index.tolist() != list(range(documents)):
        raise DataError(
            f"{source} has difficulties of {len(values)} documents, not of the {documents} "
            "that are judged; give the files of this very set of instructions."
        )
    return LengthFiles(gamed=_baselines(frame), difficulties=values.to_numpy(dtype=np.float64))


def _baselines(frame: pd.DataFrame) -> GamedBaselines:
    return GamedBaselines(
        documents=frame["index"].to_numpy(dtype=np.int64),
        probabilities=frame["preference"].to_numpy(dtype=np.float64),
        lengths=frame["std_delta_len"].to_numpy(dtype=np.float64),
        difficulties=frame["instruction_difficulty"].to_numpy(dtype=np.float64),
    )


def _csv(path: Path) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} can't be read ({brief(error)}); give AlpacaEval's own file."
        ) from error
    return frame


def _numbers(frame: pd.DataFrame, columns: tuple[str, ...], path: Path) -> pd.DataFrame:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; give AlpacaEval's own file.")
    values: pd.DataFrame = frame[list(columns)].apply(pd.to_numeric, errors="coerce")
    if values.isna().to_numpy().any():
        raise DataError(f"{path} has cells that are no numbers; give AlpacaEval's own file.")
    if "preference" in columns and not values["preference"].between(0, 1).all():
        raise DataError(f"{path} has preferences outside of 0 to 1; give AlpacaEval's own file.")
    return values
