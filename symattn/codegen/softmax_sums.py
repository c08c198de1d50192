"""Softmax-weighted sums of one strip, block by block; generated source imports this.

``O = softmax(S) V`` needs no row of S as a whole.  With any shift c, a block B of keys gives
``l = Σ_B e^{s_j - c}`` and ``o = Σ_B e^{s_j - c} v_j``; blocks of one shift merge by addition, and
``o / l`` is the result for whatever finite c was taken.

The shift is 0 at first, since that saves looking for a maximum.  The sums tell afterwards whether
it was right: every l far from overflow and underflow, every o finite.  Where it was not (large
scores, a query without a key, NaN or an infinity somewhere), the strip is computed again with the
running maximum as its shift, which masked-out scores have no part in.

The running maximum is that of Milakov and Gimelshein 2018, Online normalizer calculation for
softmax, arXiv 1805.02867, section 3.  For strips, blocks and threads see `symattn.codegen.strips`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from symattn.codegen.plain_sums import sum_of_weighted
from symattn.codegen.strips import Space, Strip, blocks

LEAST_SUM = 1e-3  # of a row sum without a shift: below it products with small values lose digits

Array = np.ndarray[Any, Any]


def weighted_sum(
    scores: Callable[[int, int, Array], object],
    v: Array,
    out: Array,
    strip: Strip,
    space: Space,
    visible: Callable[[int, int], Array] | None = None,
    lse: Array | None = None,
    reweigh: Callable[[int, int, Array], object] | None = None,
) -> None:
    """Write softmax(s) v for one strip of queries to ``out``, and log Σ exp(s) to ``lse``.

    ``scores(a, z, s)`` writes the scores of keys a up to z into s (b, w), ``visible(x, y)`` tells
    which of them are seen, as booleans or as 0 and 1; v is (m, d_v) and out (b, d_v),
    which may be of another dtype than the ``space`` that is computed in: each block is cast.
    ``reweigh(a, z, p)`` changes exponentials p (b, w) that are summed already, a factor for each.
    """
    b = strip.i1 - strip.i0
    o, t, l, u = space.rows(b)
    in_range = False  # and false as long as no key is seen
    for a, z, partly in blocks(strip, space.width, visible):
        s = space.block(b, z - a)
        scores(a, z, s)
        p = np.exp(s, out=s)
        for x, y, seen in partly:
            p[:, x - a : y - a] *= seen
        # The first block is written where the sums stay, the others are added.
        sums, products = (u, t) if in_range else (l, o)
        np.matmul(p, space.one[: z - a], out=sums)
        if reweigh is not None:
            reweigh(a, z, p)
        np.matmul(p, v[a:z].astype(t.dtype, copy=False), out=products)
        if in_range:
            l += u
            o += t
        in_range = bool(l.max() < space.most)
        if not in_range:
            break  # too large already: the strip will be done again
    if in_range and l.min() > LEAST_SUM and np.isfinite(o).all():
        o /= l[:, None]
        out[...] = o  # a quotient written to columns at once takes twice as long
        if lse is not None:
            np.log(l, out=lse)
        return

    def shown() -> Iterator[Block]:
        for a, z, partly in blocks(strip, space.width, visible):
            s = space.block(b, z - a)
            scores(a, z, s)
            for x, y, seen in partly:
                np.copyto(s[:, x - a : y - a], -np.inf, where=np.logical_not(seen))
            yield a, z, s

    is_masked = visible is not None or strip.j0 == strip.j1
    out[...] = _shifted_sum(shown, v, space, b, lse, reweigh, is_masked=is_masked)


Block = tuple[int, int, Array]
"""Keys a up to z, and the scores of a strip for them, −∞ where a key is hidden."""


def _shifted_sum(
    shown: Callable[[], Iterator[Block]],
    v: Array,
    space: Space,
    b: int,
    lse: Array | None,
    reweigh: Callable[[int, int, Array], object] | None,
    *,
    is_masked: bool,
) -> Array:
    """Return the same of b queries with the running maximum as the shift; write log Σ exp(s).

    Hidden keys have no part in it.  ``is_masked`` tells that a query may see no key: it gets zeros.
    """
    o, t, l, u = space.rows(b)
    top: Array = np.full((b, 1), -np.inf, o.dtype)
    o[...], l[...] = 0, 0
    for a, z, s in shown():
        new = np.maximum(top, s.max(axis=1, keepdims=True))  # (b, 1)
        base = _finite_base(new)
        shrink = np.exp(top - base)
        l *= shrink[:, 0]
        o *= shrink
        s -= base
        top = new
        p = np.exp(s, out=s)
        l += np.matmul(p, space.one[: z - a], out=u)
        if reweigh is not None:
            reweigh(a, z, p)
        o += np.matmul(p, v[a:z].astype(t.dtype, copy=False), out=t)
    base = _finite_base(top)
    if lse is not None:
        lse[...] = np.log(l) + base[:, 0]  # −∞ for a query that sees no key
    if is_masked:
        l[l == 0] = 1
    elif lse is not None:
        lse[l == 0] = np.nan  # all its scores are −∞: they have no softmax
    if np.isfinite(o).all():
        o /= l[:, None]
        return o
    # A value that is no finite number counts with the weight that its key has in the end.
    o[...] = 0
    product = sum_of_weighted if is_masked else np.matmul
    for a, z, s in shown():
        s -= base
        p = np.exp(s, out=s)
        p /= l[:, None]
        if reweigh is not None:
            nothing = p == 0
            reweigh(a, z, p)
            if is_masked:
                p[nothing] = 0  # what is masked out takes no part: 0 times NaN is 0 here
        o += product(p, v[a:z].astype(t.dtype, copy=False), out=t)
    return o


def _finite_base(top: Array) -> Array:
    """Return the maximum of each row, and 0 for a row that has seen nothing: −∞ − 0 is −∞."""
    return np.where(np.isneginf(top), 0, top)
