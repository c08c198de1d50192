"""Attention in blocks so small that a few tokens are several of them, and the same by hand."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import strips
from tests import loops

Array = np.ndarray[Any, Any]

d_k, d_v, n, m = sa.dims("d_k d_v n m")
COLUMN = (sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m))
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))
INPUTS = {"column": COLUMN, "row": ROW}


def in_small_blocks(patch: pytest.MonkeyPatch, tile: int = 24, rows: int = 4) -> None:
    """Let a block have so many scores, and a strip so many queries."""
    patch.setattr(strips, "TILE", tile)
    patch.setattr(strips, "ROWS", rows)
    patch.setattr(strips, "FEW_ROWS", max(1, rows // 2))


def turn(layout: str, array: Array) -> Array:
    """Return rows in a layout, or its result as rows."""
    return array.swapaxes(-1, -2) if layout == "column" else array


def random_rows(queries: int, keys: int, *batch: int, seed: int = 0) -> list[Array]:
    """Queries, keys and values as rows."""
    random = np.random.default_rng(seed)
    return [random.normal(size=(*batch, *shape)) for shape in ((queries, 5), (keys, 5), (keys, 3))]


def called(f: Any, layout: str, *arrays: Array, **named: Any) -> Array:
    """Call a function of a layout with rows; return its result as rows."""
    return turn(layout, f(*(turn(layout, array) for array in arrays), **named))


def by_hand(
    q: Array,
    k: Array,
    v: Array,
    score: Callable[[int, int, float], float] = lambda i, j, s: s,
    seen: Callable[[int, int], bool] = lambda i, j: True,
) -> Array:
    """Rows of queries, keys and values: softmax over what is seen of the scaled inner products."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        js = [j for j in range(len(k)) if seen(i, j)]
        scores = [score(i, j, loops.dot(q[i], k[j]) / math.sqrt(q.shape[1])) for j in js]
        for weight, j in zip(loops.softmax_of(scores), js, strict=True):
            out[i] += weight * v[j]
    return out


def blocked(layout: str, **options: Any) -> Any:
    """Return the attention of Q, K and V in a layout that is computed in blocks."""
    inputs = INPUTS[layout]
    return sa.lambdify(inputs, sa.attention(*inputs, layout=layout, **options), plan="blocked")
