"""A made-up release file in evalplus' format, and the programs that answer it."""

import json
from pathlib import Path

import pytest

from ladder_eval.errors import UsageError
from ladder_eval.harness.code.limits import Limits
from ladder_eval.harness.code.problems import Problem
from ladder_eval.harness.code.sandbox import Sandbox, find_sandbox

SMALL = Limits(memory=600 * 2**20, output=2**16, disk=2**20, load_seconds=1, total_seconds=3)


def row(number, entry_point="double", **changed):
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": f'import math\n\n\ndef {entry_point}(x):\n    """Twice x."""\n',
        "contract": "",
        "canonical_solution": "    return 2 * x\n",
        "entry_point": entry_point,
        "base_input": [[1], [2]],
        "plus_input": [[-3], [10**30]],
        "atol": 0,
    } | changed


def problem(**changed):
    found = row(0, **changed)
    return Problem(
        task_id=found["task_id"],
        dataset=changed.get("dataset", "humaneval"),
        prompt=found["prompt"],
        entry_point=found["entry_point"],
        canonical_solution=found["canonical_solution"],
        inputs={"base": found["base_input"], "plus": found["plus_input"]},
        atol=found["atol"],
    )


def write_lines(path, rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def sandbox_or_skip(kind, limits=SMALL):
    if kind == "none":
        return Sandbox("none", limits)
    try:
        return find_sandbox(unsafe=False, limits=limits)
    except UsageError as error:
        pytest.skip(str(error))


def marked(mark):
    """The processes, of this user's, that have a mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:  # it's another user's, or has just ended
            continue
    return found
