"""How texts begin alike.

In lexicographic order those that do stand together, and what a stretch of texts has in common is
the least that any two neighbours in it have.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def in_order(texts: Sequence[Sequence[int]]) -> tuple[list[int], NDArray[np.int64]]:
    """The lexicographic order of texts, and with how many tokens neighbours begin alike.

    Args:
        texts: Token ids of each.

    Returns:
        Indices of the texts in order, equal ones as they came; and how many tokens each begins
        with as the one before it does, [texts], 0 for the first.
    """
    # Bytes in this order are compared as the numbers are, and much faster.
    keys = [np.array(text, dtype=">u4").tobytes() for text in texts]
    order = sorted(range(len(texts)), key=keys.__getitem__)
    arrays = [np.frombuffer(keys[index], dtype=">u4") for index in order]
    before_all = np.empty(0, dtype=">u4")
    common = [_common_length(one, other) for one, other in pairwise([before_all, *arrays])]
    return order, np.array(common, dtype=np.int64)


def _common_length(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> int:
    shorter = min(len(one), len(other))
    differing = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differing[0]) if len(differing) else shorter
