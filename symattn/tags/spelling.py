"""Names: what a table holds under one, and what was probably meant by one that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from symattn.errors import UnknownNameError

Row = TypeVar("Row")

_LONGEST = 80
"""Of a wrong name, as far as an error repeats it."""


def nearest(name: str, names: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """The names spelt most like this one, best first; few, and none that is far off.

    >>> nearest("dot_prodct", ["dot_product", "scaled_dot_product", "alibi"])
    ('dot_product', 'scaled_dot_product')

    Capitals do not count: `q` is near `Q`.  Where none is spelt alike, those that hold the name:

    >>> nearest("packed", ["packed_multi_head", "alibi"])
    ('packed_multi_head',)
    """
    folded: dict[str, str] = {}
    for known in names:
        folded.setdefault(known.casefold(), known)
    close = difflib.get_close_matches(name.casefold(), folded, n=n, cutoff=0.6)
    if not close and len(name) > 2:  # part of a name
        close = [known for known in folded if name.casefold() in known][:n]
    return tuple(folded[known] for known in close)


def named(kind: str, name: object, table: Mapping[str, Row]) -> Row:
    """Return what a table holds under a name.

    >>> named("layout", "row", {"column": 0, "row": 1})
    1

    Raises `UnknownNameError`: with the names that are spelt most like this one, or with all of the
    table where none is near.
    """
    if isinstance(name, str) and name in table:
        return table[name]
    if isinstance(name, str):
        shown = name[:_LONGEST]
    else:  # of what is no name at all, no contents are repeated
        shown = str(name) if isinstance(name, bool | int | None) else type(name).__name__
    close = nearest(shown, table)
    raise UnknownNameError(kind, shown, close, () if close else tuple(table))
