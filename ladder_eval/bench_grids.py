"""Grids of `bench` that have a name: the lists that a publication timed. Needs no torch."""

from collections.abc import Mapping
from typing import Any

from ladder_eval.errors import UsageError

GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    # Ladder Residual, arXiv 2501.06589, section on inference speed.
    "paper": {
        "residual": ("ladder", "parallel", "desync-2x"),
        "tp": (1, 2, 4, 8),
        "batch_size": (1, 4, 16, 64),
        "prompt_len": (1024,),
        "output_len": (512,),
    },
}
"""Options of `bench` by the name of a grid."""


def grid_lists(name: str | None) -> dict[str, tuple[Any, ...]]:
    """The lists of a grid; none without a name.

    Raises:
        UsageError: if no grid is called so.
    """
    if name is None:
        return {}
    if name not in GRIDS:
        raise UsageError(f"Unknown grid {name!r}; known are {', '.join(GRIDS)}.")
    return dict(GRIDS[name])
