"""Made-up release files of HumanEval+ and MBPP+, in evalplus' format, as a folder of data."""

import gzip
import json
from pathlib import Path

_FUNCTIONS = (
    ("double", "Twice x.", "    return 2 * x\n", [[1], [2]], [[-3], [10**30]]),
    (
        "last_word",
        "The last word of x.",
        "    return x.split()[-1]\n",
        [["a b"]],
        [["c"], ["d  e"]],
    ),
    ("halves", "Half of each number of x.", "    return [y / 2 for y in x]\n", [[[1, 4]]], [[[]]]),
)

HUMANEVAL = [
    {
        "task_id": f"HumanEval/{number}",
        "prompt": f'\n\ndef {name}(x):\n    """{about}"""\n',
        "contract": "",
        "canonical_solution": body,
        "entry_point": name,
        "base_input": base,
        "plus_input": plus,
        "atol": 0,
    }
    for number, (name, about, body, base, plus) in enumerate(_FUNCTIONS)
]

# Numbers that MBPP hasn't got: evalplus restores the types of some problems' arguments by number.
MBPP = [
    row
    | {
        "task_id": f"Mbpp/{9000 + number}",
        "prompt": f'"""\nWrite a function {row["entry_point"]}.\n"""\n',
        "canonical_solution": f"\ndef {row['entry_point']}(x):\n{row['canonical_solution']}",
    }
    for number, row in enumerate(HUMANEVAL)
]

RIGHT = {
    row["task_id"]: f"def {name}(x):\n{body}"
    for rows in (HUMANEVAL, MBPP)
    for row, (name, _, body, _, _) in zip(rows, _FUNCTIONS, strict=True)
}
"""A program that passes, for each problem."""


def lines(rows: list[dict[str, object]]) -> bytes:
    """Rows as an unpacked release file has them."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_releases(data_dir: Path) -> Path:
    """Put both files where `--data-dir` has them."""
    folder = data_dir / "evalplus"
    folder.mkdir(parents=True)
    for title, rows in (("HumanEvalPlus", HUMANEVAL), ("MbppPlus", MBPP)):
        (folder / f"{title}.jsonl.gz").write_bytes(gzip.compress(lines(rows)))
    return data_dir
