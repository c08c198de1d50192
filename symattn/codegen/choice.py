"""Which of two plans suits the sizes of a call: whole matrices, or strips and blocks.

Whole matrices are faster where all scores fit into a cache: one statement does the work of all
heads, where strips would be many short ones.  Beyond that the blocked plan is faster, skips what a
mask hides, and needs memory that does not grow with n·m.  (This file is copied into saved modules,
which choose as `lambdify` does.)
"""

from __future__ import annotations

FEW_QUERIES = 16
"""Up to so many queries, and …"""
FEW_SCORES = 2**16
"""… up to so many scores for a head, the direct plan is the faster one, …"""
SMALL_MEMORY = 2**24
"""… as long as all scores together take no more bytes."""


def suits_blocks(n: int, m: int, heads: int, itemsize: int) -> bool:
    """Tell whether n queries over m keys, in so many matrices, are faster in blocks.

    >>> suits_blocks(1, 4096, 8, 4), suits_blocks(1024, 1024, 8, 4)
    (False, True)
    """
    if n > FEW_QUERIES and n * m > FEW_SCORES:
        return True
    return heads * n * m * max(itemsize, 4) > SMALL_MEMORY
