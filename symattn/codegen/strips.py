"""Strips of queries, blocks of keys, and threads that share them; generated source imports this.

A weighted sum over keys needs no row of weights as a whole: a strip of queries goes through blocks
of keys that fit into a cache, whose sums merge by addition, and no matrix of all scores is ever
made.  What is summed is another module's: `symattn.codegen.softmax_sums`, or
`symattn.codegen.plain_sums` where there is no softmax.

Invariant: what is computed, and in which order, depends on sizes alone, never on the number of
workers, so the result is the same to the last bit for any number.  NumPy is all that is needed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np

from symattn.codegen.spans import Keys

try:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingImports]
except ImportError:  # BLAS then keeps its own threads, and there is one worker
    ThreadpoolController = None

TILE = 2**17  # scores in a block: 512 KiB of float32, half of a usual L2 cache
ROWS = 256  # queries in a strip
FEW_ROWS = 128  # … where a mask by position skips keys, so that less of them is half seen
MOST_TILES = 256  # of one function of j - i that are kept
MOST_WIDTHS = 16  # of values, whose memory is kept between calls
WIDEST = 1024  # of values, whose memory is kept
FEW_PRODUCTS = 2**25  # of two numbers, below which a second worker does not pay

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

    A tile is a view of its b + w - 1 diagonals.  Equal ones are made once, as long as they are few:
    what is kept does not grow with n·m.

    >>> diagonals(lambda r: r <= 0, int)(2, 4, 1, 5)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0]])
    """
    known: dict[tuple[int, int, int], Array] = {}

    def tile(i0: int, i1: int, j0: int, j1: int) -> Array:
        place = i1 - i0, j0 - i0, j1 - i0
        found = known.get(place)
        if found is None:
            b, w = i1 - i0, j1 - j0
            r = np.arange(j0 - i1 + 1, j1 - i0, dtype=float)  # powers of integers would overflow
            values = np.asarray(f(r), dtype)  # (b + w - 1,)
            z = values.itemsize
            found = np.ndarray((b, w), values.dtype, values, (b - 1) * z, (-z, z))  # (b, w)
            if len(known) < MOST_TILES:
                known[place] = found
        return found

    return tile


def side_by_side(
    a: int, z: int, s: Array, *parts: tuple[int, Callable[[int, int, Array], object]]
) -> Array:
    """Write keys a up to z of parts that lie beside each other into s (b, w); return that.

    Each part is the number of its keys, and what writes some of them.

    >>> one, two = (lambda a, z, s, x=x: np.copyto(s, np.arange(a, z) + x) for x in (10, 20))
    >>> side_by_side(1, 5, np.empty((1, 4)), (3, one), (4, two))
    array([[11., 12., 20., 21.]])
    """
    start = 0
    for keys, write in parts:
        first, last = max(a, start), min(z, start + keys)
        if first < last:
            write(first - start, last - start, s[:, first - a : last - a])
        start += keys
    return s


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

    def rows(self, b: int) -> tuple[Array, Array, Array, Array]:
        """Return o, t, l and u of a strip of b queries."""
        return self.o[:b], self.t[:b], self.l[:b], self.u[:b]

    def block(self, b: int, w: int) -> Array:
        """Return the scores of b queries and w keys."""
        return self.s[: b * w].reshape(b, w)

    @classmethod
    def unused(cls, d_v: int, dtype: Any) -> deque[Space]:
        """Return the spaces of a width that nobody uses now."""
        key = (TILE, ROWS, FEW_ROWS, d_v, dtype)
        if key not in cls.kept and len(cls.kept) >= MOST_WIDTHS:
            cls.kept.clear()
        return cls.kept.setdefault(key, deque(maxlen=16))


class OneBlasThread:
    """Holds BLAS at one thread while any caller is inside; the last one puts its number back.

    The number is one for the whole process: callers in several threads have to be known.  A thread
    that was interrupted on its way in or out is no longer inside after its next call.
    """

    def __init__(self) -> None:
        # Made once: looking for the libraries takes a hundred times as long as setting a number.
        self.controller = ThreadpoolController() if ThreadpoolController else None
        self.lock = threading.Lock()
        self.inside: set[int] = set()
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            self.inside.add(threading.get_ident())
            if self.limit is None and self.controller is not None:
                self.limit = self.controller.limit(limits=1, user_api="blas")
                self.release()

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside.discard(threading.get_ident())
            if not self.inside:
                self.put_back()

    def put_back(self) -> None:
        """Let BLAS have the number of threads that it had before."""
        if self.limit is not None:
            self.limit.restore_original_limits()
            self.limit = None
            self.release()

    def after_fork(self) -> None:
        """Begin anew in a child, which has none of the other threads, and nobody inside."""
        self.lock = threading.Lock()
        self.inside = set()
        self.put_back()

    def release(self) -> None:
        """Let other threads set the number too: BLAS may take it from one thread alone."""
        for library in self.controller.lib_controllers if self.controller else ():
            release = getattr(library, "clear_controlling_thread", None)
            if release is not None:
                release()


one_blas_thread = OneBlasThread()
if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)


def workers_for(strips: Sequence[Strip], heads: int, d_v: int, asked: int | None) -> int:
    """Return how many threads to use: one where there is little to do, else all processors."""
    if one_blas_thread.controller is None:
        return 1
    tasks = heads * len(strips)
    if asked is None:
        scores = sum((strip.i1 - strip.i0) * (strip.j1 - strip.j0) for strip in strips)
        has_affinity = hasattr(os, "sched_getaffinity")  # not on every system
        processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        asked = 1 if heads * scores * 2 * d_v < FEW_PRODUCTS else processors
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
        with np.errstate(all="ignore"):  # of this thread
            while todo:
                try:
                    task = todo.popleft()
                except IndexError:
                    break
                work(*task, space)
        if d_v <= WIDEST:
            unused.append(space)

    def unless_stopped() -> None:
        try:
            worker()
        except BaseException:
            todo.clear()  # the others need not finish
            raise

    with one_blas_thread:
        if workers == 1:
            worker()
            return
        with ThreadPoolExecutor(workers - 1) as pool:
            try:
                others: list[Future[None]] = []
                with suppress(RuntimeError):  # no more threads are to be had: fewer do all
                    others.extend(pool.submit(unless_stopped) for _ in range(workers - 1))
                worker()
                for other in others:
                    other.result()
            except BaseException:
                todo.clear()  # an interrupt too: nobody goes on, and the pool ends
                raise


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
