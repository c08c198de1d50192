"""Weighted sums without a softmax, block by block; generated source imports this.

Σ_j w_j v_j with weights that are computed from a query and a key is a sum over blocks of keys, with
nothing to shift and nothing to divide by: for threads, strips and blocks see
`symattn.codegen.strips`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from symattn.codegen.strips import Space, Strip, blocks

Array = np.ndarray[Any, Any]


def plain_sum(
    weights: Callable[[int, int, Array], object],
    v: Array,
    out: Array,
    strip: Strip,
    space: Space,
    visible: Callable[[int, int], Array] | None = None,
    hides: bool = True,
) -> None:
    """Write w v for one strip of queries to ``out``.

    ``weights(a, z, w)`` writes the weights of keys a up to z into w (b, w), ``visible(x, y)`` tells
    which of them are seen; v is (m, d_v) and out (b, d_v), which may be of another dtype than the
    ``space`` that is computed in.  What is not seen takes no part, whatever it is.  Without
    ``hides`` it is multiplied by 0, and 0 · NaN is NaN; then all keys are gone through.
    """
    b = strip.i1 - strip.i0
    o, t = space.o[:b], space.t[:b]

    def seen_weights() -> Iterator[tuple[Array, Array]]:
        for a, z, partly in blocks(strip, space.width, visible if hides else None):
            w = space.s[: b * (z - a)].reshape(b, z - a)
            weights(a, z, w)
            for x, y, seen in partly:
                np.copyto(w[:, x - a : y - a], 0, where=np.logical_not(seen))
            if visible is not None and not hides:
                w *= visible(a, z)
            yield w, v[a:z].astype(t.dtype, copy=False)

    o[...] = 0
    for w, values in seen_weights():
        o += np.matmul(w, values, out=t)
    if visible is not None and hides and not np.isfinite(o).all():
        o[...] = 0
        for w, values in seen_weights():
            o += sum_of_weighted(w, values, t)
    out[...] = o


def sum_of_weighted(p: Array, v: Array, out: Array) -> Array:
    """Write p v, where a value that is no finite number reaches only rows that give it a weight."""
    finite: Array = np.all(np.isfinite(v), axis=1, keepdims=True)
    np.matmul(np.where(finite[:, 0], p, 0), np.where(finite, v, 0), out=out)
    for k in np.flatnonzero(~finite):
        some = p[:, k] != 0
        out[some] += p[some, k, None] * v[k]
    return out


def all_finite(*arrays: Array) -> bool:
    """Tell whether no entry is NaN or an infinity, in no memory of the size of an array.

    >>> all_finite(np.ones((2, 3)), np.ones((0, 3))), all_finite(np.array([1, np.nan]))
    (True, False)
    """
    return all(bool(np.isfinite(x.min()) and np.isfinite(x.max())) for x in arrays if x.size)
