"""Which of two plans suits the sizes of a call on a device: whole matrices, or strips of queries.

A strip takes four kernels whatever it holds, whole matrices take ten or more: so strips win as soon
as a device has more to do than to start kernels, and they alone read numbers of two bytes as they
are, skip what a mask hides, and need memory that does not grow with n·m.
"""

from __future__ import annotations

import sys

FEW_SCORES = 2**20
"""Up to so many scores of all heads, starting kernels is most of the work, and whole matrices,
which take less of Python's time for a call, are computed."""

REASON = f"blocks for more than {FEW_SCORES:,} scores"
"""When blocks are computed, in words."""


def suits_blocks(n: int, m: int, heads: int, _itemsize: int) -> bool:
    """Tell whether n queries over m keys, in so many matrices, are faster in strips.

    >>> suits_blocks(512, 512, 1, 2), suits_blocks(512, 512, 8, 2)
    (False, True)
    """
    return heads * n * m > FEW_SCORES


def at_once(_scores: int, _itemsize: int) -> int:
    """Return how many matrices of so many scores whole matrices are computed of at once: all.

    >>> at_once(64, 4) > 10**15
    True
    """
    return sys.maxsize
