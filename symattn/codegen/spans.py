"""Which keys queries see under a mask by position; generated source imports this.

A mask by position is never made as a matrix.  For a strip of queries it is enough to know between
which keys some query sees something, and between which every query sees everything: what lies
outside is skipped, what lies inside is not looked at, and only the rest is computed.
"""

from __future__ import annotations

from collections.abc import Callable

Seen = tuple[int, int, int, int]
"""The keys j0, full0, full1, j1: some queries see j0 up to j1, all of them full0 up to full1."""

Keys = Callable[[int, int, int], Seen]
"""The keys, of m, that queries i0 up to i1 see."""


def band(lo: int | None = None, hi: int | None = None) -> Keys:
    """Return the keys with lo ≤ j - i ≤ hi.

    >>> band(hi=0)(4, 6, 9)  # j ≤ i: query 5 sees keys 0 to 5, query 4 all but the last of them
    (0, 0, 5, 6)
    """

    def keys(i0: int, i1: int, m: int) -> Seen:
        j0, full0 = (0, 0) if lo is None else (i0 + lo, i1 - 1 + lo)
        full1, j1 = (m, m) if hi is None else (i0 + hi + 1, i1 + hi)
        return _ordered(j0, full0, full1, j1, m)

    return keys


def span(start: int = 0, stop: int | None = None) -> Keys:
    """Return the keys with start ≤ j < stop, the same for every query.

    >>> span(stop=3)(4, 6, 9)
    (0, 0, 3, 3)
    """

    def keys(i0: int, i1: int, m: int) -> Seen:
        j1 = m if stop is None else stop
        return _ordered(start, start, j1, j1, m)

    return keys


def somewhere(i0: int, i1: int, m: int) -> Seen:
    """Return that any key may be seen, and none is certain to be."""
    return 0, 0, 0, m


def both(first: Keys, second: Keys) -> Keys:
    """Return the keys that both see.

    >>> both(band(hi=0), span(start=2))(4, 6, 9)
    (2, 2, 5, 6)
    """

    def keys(i0: int, i1: int, m: int) -> Seen:
        (j0, full0, full1, j1), (k0, all0, all1, k1) = first(i0, i1, m), second(i0, i1, m)
        return _ordered(max(j0, k0), max(full0, all0), min(full1, all1), min(j1, k1), m)

    return keys


def either(first: Keys, second: Keys) -> Keys:
    """Return the keys that one of the two sees; keys in between may be counted as seen by some.

    >>> either(span(stop=2), band(hi=0))(4, 6, 9), either(span(stop=8), band(hi=0))(4, 6, 9)
    ((0, 0, 5, 6), (0, 0, 8, 8))
    """

    def keys(i0: int, i1: int, m: int) -> Seen:
        found = [seen for seen in (first(i0, i1, m), second(i0, i1, m)) if seen[0] < seen[3]]
        if len(found) < 2:
            return found[0] if found else (0, 0, 0, 0)
        one, other = found
        _, full0, full1, _ = max(found, key=lambda seen: seen[2] - seen[1])
        return _ordered(min(one[0], other[0]), full0, full1, max(one[3], other[3]), m)

    return keys


def _ordered(j0: int, full0: int, full1: int, j1: int, m: int) -> Seen:
    """Return 0 ≤ j0 ≤ full0 ≤ full1 ≤ j1 ≤ m, an empty range where there is no key."""
    j0 = min(m, max(0, j0))
    j1 = max(j0, min(m, j1))
    full0 = min(j1, max(j0, full0))
    return j0, full0, max(full0, min(j1, full1)), j1
