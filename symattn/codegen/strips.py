"""Softmax-weighted sums in strips of queries and blocks of keys; generated source imports this.

``O = softmax(S) V`` needs no row of S as a whole.  With any shift c, a block B of keys gives
``l = Σ_B e^{s_j - c}`` and ``o = Σ_B e^{s_j - c} v_j``; blocks of one shift merge by addition, and
``o / l`` is the result for whatever finite c was taken.  So a strip of queries goes through blocks
of keys that fit into a cache, and no matrix of all scores is ever made.

The shift is 0 at first, since that saves looking for a maximum.  The sums tell afterwards whether
it was right: every l far from overflow and underflow, every o finite.  Where it was not (large
scores, a query without a key, NaN or an infinity somewhere), the strip is computed again with the
running maximum as its shift, which masked-out scores have no part in.

Invariant: what is computed, and in which order, depends on sizes alone, never on the number of
workers, so the result is the same to the last bit for any number.  NumPy is all that is needed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np

try:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingImports]
except ImportError:  # BLAS then keeps its own threads, and there is one worker
    ThreadpoolController = None

TILE = 2**17  # scores in a block: 512 KiB of float32, half of a usual L2 cache
ROWS = 256  # queries in a strip
FEW_ROWS = 128  # … where a mask by position skips keys, so that less of them is half seen
LEAST = 1e-3  # of a row sum without a shift: below it products with small values lose digits
MOST_WIDTHS = 16  # of values, whose memory is kept between calls
WIDEST = 1024  # of values, whose memory is kept
SMALL = 2**25  # multiplications below which a second worker does not pay

Array = np.ndarray[Any, Any]
Head = tuple[int, ...]
"""The position of one matrix in the leading axes of an array."""


class Strip(NamedTuple):
    """Queries i0 up to i1: some of them see keys j0 up to j1, all of them see full0 up to full1."""

    i0: int
    i1: int
    j0: int
    full0: int
    full1: int
    j1: int


Keys = Callable[[int, int, int], tuple[int, int, int, int]]
"""The keys, of m, that queries i0 up to i1 see (`symattn.codegen.spans`)."""


def strips_of(n: int, m: int, keys: Keys | None = None, *, entries: int = 1) -> list[Strip]:
    """Return the strips of n queries over m keys; ``entries`` are numbers computed for a score.

    >>> strips_of(3, 5)
    [Strip(i0=0, i1=3, j0=0, full0=0, full1=5, j1=5)]
    """
    rows = ROWS
    j0, _, _, j1 = keys(n // 2, n // 2 + FEW_ROWS, m) if keys else (0, 0, m, m)
    if j1 - j0 < m and (n <= 8 * ROWS or j1 - j0 <= 8 * FEW_ROWS):
        rows = FEW_ROWS  # few keys of many, or few queries: less of them is half seen
    if entries > 1:
        rows = max(1, rows // 4)
    ends = [(i0, min(i0 + rows, n)) for i0 in range(0, n, rows)]
    return [Strip(i0, i1, *(keys(i0, i1, m) if keys else (0, 0, m, m))) for i0, i1 in ends]


def blocks(
    strip: Strip, width: int, visible: Callable[[int, int], Array] | None
) -> Iterator[tuple[int, int, list[tuple[int, int, Array]]]]:
    """Yield equal blocks a…z of the keys that a strip sees, none wider than ``width``.

    With each come the ranges x…y in it of which not every query sees every key, with what they see.
    """
    found = strip.j1 - strip.j0
    if found <= 0:
        return
    step = -(-found // -(-found // width))
    for a in range(strip.j0, strip.j1, step):
        z = min(a + step, strip.j1)
        partly: list[tuple[int, int, Array]] = []
        if visible is not None:
            for x, y in ((a, min(z, strip.full0)), (max(a, strip.full1), z)):
                if x < y:
                    partly.append((x, y, visible(x, y)))
            if len(partly) == 1 and partly[0][:2] == (a, z):
                seen = partly[0][2]
                if not seen.any():
                    continue
                if len(seen) == 1:  # the same for every query: leave out what nobody sees
                    some = np.flatnonzero(seen)
                    seen = seen[:, some[0] : some[-1] + 1]
                    a, z = a + int(some[0]), a + int(some[-1]) + 1
                partly = [] if seen.all() else [(a, z, seen)]
        yield a, z, partly


def diagonals(f: Callable[[Array], Array], dtype: Any) -> Callable[[int, int, int, int], Array]:
    """Return the function of i0, i1, j0 and j1 that gives the tile f(j - i).

    A tile is a view of its b + w - 1 diagonals, and equal ones are made once.

    >>> diagonals(lambda r: r <= 0, int)(2, 4, 1, 5)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0]])
    """
    known: dict[tuple[int, int, int], Array] = {}

    def tile(i0: int, i1: int, j0: int, j1: int) -> Array:
        place = i1 - i0, j0 - i0, j1 - i0
        if place not in known:
            b, w = i1 - i0, j1 - j0
            r = np.arange(j0 - i1 + 1, j1 - i0, dtype=float)  # powers of integers would overflow
            values = np.asarray(f(r), dtype)  # (b + w - 1,)
            z = values.itemsize
            known[place] = np.ndarray((b, w), values.dtype, values, (b - 1) * z, (-z, z))  # (b, w)
        return known[place]

    return tile


# Memory, threads.


class Space:
    """The memory of one worker: for each of its strips, and for later calls of the same width."""

    kept: ClassVar[dict[Any, deque[Space]]] = {}
    """By widths: the spaces that nobody uses now."""

    def __init__(self, d_v: int, dtype: Any) -> None:
        rows, scores = max(ROWS, FEW_ROWS), max(TILE, ROWS, FEW_ROWS)
        self.s = np.empty(scores, dtype)  # scores of a block, then their exponentials
        self.o = np.empty((rows, d_v), dtype)  # sum of the products with V
        self.t = np.empty((rows, d_v), dtype)  # product of one block
        self.l = np.empty(rows, dtype)  # row sums
        self.u = np.empty(rows, dtype)  # row sums of one block
        self.one = np.ones(scores, dtype)
        self.most = np.finfo(dtype).max ** 0.5  # of row sums without a shift
        self.width = 1  # keys in a block, as the one who takes the space says

    @classmethod
    def unused(cls, d_v: int, dtype: Any) -> deque[Space]:
        """Return the spaces of a width that nobody uses now."""
        key = (TILE, ROWS, FEW_ROWS, d_v, dtype)
        if key not in cls.kept and len(cls.kept) >= MOST_WIDTHS:
            cls.kept.clear()
        return cls.kept.setdefault(key, deque(maxlen=16))


class OneBlasThread:
    """Holds BLAS at one thread while any caller is inside; the last one puts its number back.

    The number is one for the whole process: callers in several threads have to be counted.
    """

    def __init__(self) -> None:
        # Made once: looking for the libraries takes a hundred times as long as setting a number.
        self.controller = ThreadpoolController() if ThreadpoolController else None
        self.lock = threading.Lock()
        self.inside = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0 and self.controller is not None:
                self.limit = self.controller.limit(limits=1, user_api="blas")
                self.release()
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.limit is not None:
                self.limit.restore_original_limits()
                self.limit = None
                self.release()

    def release(self) -> None:
        """Let other threads set the number too: who set it last would else keep that to itself."""
        for library in self.controller.lib_controllers if self.controller else ():
            release = getattr(library, "clear_controlling_thread", None)
            if release is not None:
                release()


one_blas_thread = OneBlasThread()


def workers_for(strips: Sequence[Strip], heads: int, d_v: int, asked: int | None) -> int:
    """Return how many threads to use: one where there is little to do, else all processors."""
    if one_blas_thread.controller is None:
        return 1
    tasks = heads * len(strips)
    if asked is None:
        scores = sum((strip.i1 - strip.i0) * (strip.j1 - strip.j0) for strip in strips)
        many = hasattr(os, "sched_getaffinity")
        processors = len(os.sched_getaffinity(0)) if many else os.cpu_count() or 1
        asked = 1 if heads * scores * 2 * d_v < SMALL else processors
    return max(1, min(asked, tasks))


def run(
    work: Callable[[Head, Strip, Space], None],
    batch: tuple[int, ...],
    strips: Sequence[Strip],
    d_v: int,
    dtype: Any,
    workers: int | None,
    *,
    entries: int = 1,
) -> None:
    """Do the work of every strip of every matrix of a batch, those with most keys first."""
    heads = list(np.ndindex(batch))
    if not strips or not heads:
        return
    rows = strips[0].i1 - strips[0].i0
    width = max(1, TILE // max(1, entries) // rows)
    workers = workers_for(strips, len(heads), d_v, workers)
    longest_first = sorted(strips, key=lambda strip: strip.j0 - strip.j1)
    todo = deque((head, strip) for strip in longest_first for head in heads)
    unused = Space.unused(d_v, dtype)

    def worker() -> None:
        try:
            space = unused.pop()  # one step, as popleft is: no lock is needed
        except IndexError:
            space = Space(d_v, dtype)
        space.width = width
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of this thread
            while todo:
                try:
                    task = todo.popleft()
                except IndexError:
                    break
                try:
                    work(*task, space)
                except BaseException:
                    todo.clear()  # the others need not finish
                    raise
        if d_v <= WIDEST:
            unused.append(space)

    with one_blas_thread:
        if workers == 1:
            worker()
            return
        with ThreadPoolExecutor(workers - 1) as pool:
            others = [pool.submit(worker) for _ in range(workers - 1)]
            worker()
            for other in others:
                other.result()


def spread(*arrays: Array) -> tuple[Any, ...]:
    """Return the leading axes of some stacks of matrices together, and each with all of them.

    >>> batch, x, y = spread(np.ones((3, 1, 4, 5)), np.ones((2, 6, 5)))
    >>> batch, x.shape, y.shape
    ((3, 2), (3, 2, 4, 5), (3, 2, 6, 5))
    """
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    wide = (
        x if x.shape[:-2] == batch else np.broadcast_to(x, batch + x.shape[-2:]) for x in arrays
    )
    return batch, *wide


# One strip.


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
    o, t, l, u = space.o[:b], space.t[:b], space.l[:b], space.u[:b]
    in_range = False  # and false as long as no key is seen
    for a, z, partly in blocks(strip, space.width, visible):
        s = space.s[: b * (z - a)].reshape(b, z - a)
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
    if in_range and l.min() > LEAST and np.isfinite(o).all():
        o /= l[:, None]
        out[...] = o  # a quotient written to columns at once takes twice as long
        if lse is not None:
            np.log(l, out=lse)
        return
    _shifted_sum(scores, v, out, strip, space, visible, lse, reweigh)


def _shifted_sum(
    scores: Callable[[int, int, Array], object],
    v: Array,
    out: Array,
    strip: Strip,
    space: Space,
    visible: Callable[[int, int], Array] | None,
    lse: Array | None,
    reweigh: Callable[[int, int, Array], object] | None,
) -> None:
    """Write the same with the running maximum as the shift, and with nothing of hidden keys.

    Where a value is no finite number, it goes again through the blocks, now with the weights as
    they come out in the end: a value that has no weight has no influence.
    """
    b = strip.i1 - strip.i0
    o, t, l, u = space.o[:b], space.t[:b], space.l[:b], space.u[:b]
    top: Array = np.full((b, 1), -np.inf, o.dtype)

    def shown() -> Iterator[tuple[int, int, Array]]:
        for a, z, partly in blocks(strip, space.width, visible):
            s = space.s[: b * (z - a)].reshape(b, z - a)
            scores(a, z, s)
            for x, y, seen in partly:
                np.copyto(s[:, x - a : y - a], -np.inf, where=np.logical_not(seen))
            yield a, z, s

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
    if lse is not None:
        lse[...] = np.log(l) + _finite_base(top)[:, 0]  # −∞ for a query that sees no key
    if visible is not None or strip.j0 == strip.j1:
        l[l == 0] = 1  # a query that sees no key is zero
    elif lse is not None:
        lse[l == 0] = np.nan  # all its scores are −∞: they have no softmax
    if np.isfinite(o).all():
        o /= l[:, None]
        out[...] = o
        return
    o[...] = 0
    base = _finite_base(top)
    for a, z, s in shown():
        s -= base
        p = np.exp(s, out=s)
        p /= l[:, None]
        if reweigh is not None:
            reweigh(a, z, p)
        if visible is None:
            o += np.matmul(p, v[a:z].astype(t.dtype, copy=False), out=t)
        else:
            o += _sum_of_weighted(p, v[a:z].astype(t.dtype, copy=False), t)
    out[...] = o


def _finite_base(top: Array) -> Array:
    """Return the maximum of each row, and 0 for a row that has seen nothing: −∞ − 0 is −∞."""
    return np.where(np.isneginf(top), 0, top)


def _sum_of_weighted(p: Array, v: Array, out: Array) -> Array:
    """Write p v, where a value that is no finite number reaches only rows that give it a weight."""
    finite = np.isfinite(v)
    np.matmul(p, np.where(finite, v, 0), out=out)
    for k in np.flatnonzero(~finite.all(axis=1)):
        some = p[:, k] != 0
        out[some] += p[some, k, None] * np.where(finite[k], 0, v[k])
    return out
