"""How the work of a weighted sum on a device is divided: strips of queries, heads, parts of keys.

The scores of a strip, of all heads that are computed together, take no more memory than
`SCORES_BYTES`, unless one row of scores takes more.  Sizes were chosen by counting what keeps a
large device busy; they are to be measured on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

SCORES_BYTES = 2**26  # of a strip, with all its heads
ROWS = 1024  # queries in a strip
FEW_ROWS = 512  # … where a mask by position skips keys, so that less of them is half seen
MOST_HEADS = 2**15  # in a grid, whose second axis ends at 2**16
ALIGNED = 32  # from one row of scores to the next there are a multiple of so many
THREADS = 256  # of a block, where rows are long
AT_ONCE = 8  # scores of a thread
TILE = 128  # a matrix product works on tiles of so many rows and columns, …
TILES = 128  # … and keeps a device busy with so many: with fewer, keys are split …
LEAST_KEYS = 256  # … into parts of at least so many, …
LEAST_WORK = 2**26  # … where the product of a head has so many multiplications

Keys = Callable[[int, int, int], tuple[int, int, int, int]]
"""The keys, of m, that queries i0 up to i1 see (`symattn.codegen.spans`)."""


class Strip(NamedTuple):
    """Queries i0 up to i1, some of which see keys j0 up to j1."""

    i0: int
    i1: int
    j0: int
    j1: int

    @property
    def rows(self) -> int:
        """The number of queries."""
        return self.i1 - self.i0

    @property
    def width(self) -> int:
        """The number of keys."""
        return self.j1 - self.j0

    @property
    def pitch(self) -> int:
        """How far the rows of scores are apart."""
        return -(-self.width // ALIGNED) * ALIGNED


def strips_of(n: int, m: int, keys: Keys | None, score_bytes: int) -> list[Strip]:
    """Return the strips of n queries over m keys.

    >>> strips_of(600, 700, lambda i0, i1, m: (0, 0, i0 + 1, i1), 4)
    [Strip(i0=0, i1=512, j0=0, j1=512), Strip(i0=512, i1=600, j0=0, j1=600)]
    """
    rows = FEW_ROWS if keys else ROWS
    while True:
        ends = [(i0, min(i0 + rows, n)) for i0 in range(0, n, rows)]
        seen = [keys(*strip, m) if keys else (0, 0, m, m) for strip in ends]
        strips = [Strip(*e, s[0], max(s[0], s[3])) for e, s in zip(ends, seen, strict=True)]
        row_bytes = score_bytes * max((strip.pitch for strip in strips), default=0)
        most = max(1, SCORES_BYTES // max(1, row_bytes))
        if rows <= most:
            return strips
        rows = most


def parts_of(heads: int, strip: Strip, columns: int) -> tuple[int, int]:
    """Return into how many parts the keys of a strip are split to sum values, and of what size.

    >>> parts_of(1, Strip(0, 1024, 0, 16000), 128), parts_of(64, Strip(0, 1024, 0, 16000), 128)
    ((16, 1000), (1, 16000))
    """
    tiles = -(-strip.rows // TILE) * max(1, -(-columns // TILE))
    if heads * tiles >= TILES or strip.rows * strip.width * columns < LEAST_WORK:
        return 1, strip.width
    parts = max(1, min(-(-TILES // tiles), strip.width // LEAST_KEYS))
    size = -(-strip.width // parts)
    return -(-strip.width // size), size


def threads_for(count: int) -> int:
    """Return how many threads work on so many numbers: a power of two.

    >>> threads_for(3), threads_for(100), threads_for(9999)
    (32, 128, 256)
    """
    return min(THREADS, max(32, 1 << (count - 1).bit_length()))


def heads_of(heads: int, strips: Sequence[Strip], score_bytes: int) -> int:
    """Return how many of some heads are computed together.

    >>> heads_of(64, [Strip(0, 1024, 0, 2048)], 4), heads_of(64, [Strip(0, 1, 0, 2048)], 4)
    (8, 64)
    """
    most = max(strip.rows * strip.pitch for strip in strips)
    return max(1, min(heads, MOST_HEADS, SCORES_BYTES // (score_bytes * most)))
