"""Which of two plans suits the sizes of a call: whole matrices, or strips and blocks.

Whole matrices are faster where those of a few heads fit into a cache: one statement does the work
of all of them, where strips would be many short ones.  What does not fit is taken a slice of the
leading axes at a time, so that memory does not grow with the number of matrices.  Beyond that the
blocked plan is faster, skips what a mask hides, and needs memory that does not grow with n·m.
(This file is copied into saved modules, which choose as `lambdify` does.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

FEW_QUERIES = 16
"""Queries up to which a strip would do no more than whole matrices."""

FEW_SCORES = 2**16
"""Scores of a head up to which they fit into a cache as a whole, however many heads there are."""

SMALL_MEMORY = 2**24
"""Bytes of all scores beyond which blocks save memory, and are taken for fewer scores too."""

SMALL_MATRIX = 2**14
"""Scores of a head up to which a strip would have too little to do, whatever all together take."""

SLICE = 2**19
"""Bytes of scores that the direct plan makes at once, of several matrices: half of a cache."""

REASON = (
    f"blocks where a head has more than {FEW_QUERIES} queries and {FEW_SCORES:,} scores, or many "
    "heads have nearly so many; else whole matrices, a few at a time"
)
"""When blocks are computed, in words."""


def suits_blocks(n: int, m: int, heads: int, itemsize: int) -> bool:
    """Tell whether n queries over m keys, in so many matrices, are better computed in blocks.

    >>> suits_blocks(1, 4096, 8, 4), suits_blocks(1024, 1024, 8, 4), suits_blocks(8, 8, 10**6, 4)
    (False, True, False)
    """
    if n > FEW_QUERIES and n * m > FEW_SCORES:
        return True
    return n * m >= SMALL_MATRIX and heads * n * m * max(itemsize, 4) > SMALL_MEMORY


def at_once(scores: int, itemsize: int) -> int:
    """Return how many matrices of the leading axes the direct plan takes at once, one or more.

    ``scores`` are those of each of them, with all heads of a formula.

    >>> at_once(8 * 8, 4), at_once(256 * 512, 4)
    (2048, 1)
    """
    return max(1, SLICE // max(1, scores * max(itemsize, 4)))


def in_slices(
    compute: Callable[..., Any],
    given: Mapping[str, Any],
    ranks: Mapping[str, int],
    most: int,
    outs: Sequence[Any] = (None,),
) -> Any:
    """Return what a function of arrays computes, from at most so many matrices at once.

    ``ranks`` tells for each array how many axes are behind its leading ones, and ``outs`` holds for
    each result an array that it is written to, or None.

    >>> in_slices(lambda x, y: x @ y, {"x": np.ones((7, 1, 3)), "y": np.ones((3, 2))},
    ...           {"x": 2, "y": 2}, 4).shape
    (7, 1, 2)
    """
    leading = {name: given[name].shape[:-rank] for name, rank in ranks.items()}
    batch = np.broadcast_shapes(*leading.values())
    if prod(batch) <= most and all(out is None for out in outs):
        return compute(**given)
    results = list(outs)
    alone = True
    for at in slices(batch, most):
        parts = {name: given[name][_own(at, own, batch)] for name, own in leading.items()}
        found = compute(**{**given, **parts})
        alone = not isinstance(found, tuple)
        for k, part in enumerate((found,) if alone else found):
            if results[k] is None:
                results[k] = np.empty(batch + part.shape[len(batch) :], part.dtype)
            results[k][at] = part
    return results[0] if alone else tuple(results)


def slices(batch: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield indices of leading axes that cut them into like parts of at most so many matrices.

    >>> list(slices((2, 5, 3), 9))[:2]
    [(slice(0, 1, None), slice(0, 3, None)), (slice(0, 1, None), slice(3, 6, None))]
    """
    axis, inner = len(batch), 1
    while axis > 0 and inner * batch[axis - 1] <= most:
        axis -= 1
        inner *= batch[axis]
    if axis == 0:
        yield ()
        return
    size = batch[axis - 1]
    step = -(-size // -(-size // max(1, most // inner)))
    for outer in np.ndindex(batch[: axis - 1]):
        for start in range(0, size, step):
            yield (*(slice(k, k + 1) for k in outer), slice(start, start + step))


def _own(at: tuple[slice, ...], own: tuple[int, ...], batch: tuple[int, ...]) -> tuple[slice, ...]:
    """Return an index of all leading axes for an array that has these, some of them 1 or absent."""
    shared = at[len(batch) - len(own) :]
    return tuple(
        slice(None) if size == 1 else part for size, part in zip(own, shared, strict=False)
    )
