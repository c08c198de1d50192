"""Names that are spelt nearly alike: what a person probably meant by one that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """The names spelt most like this one, best first; few, and none that is far off.

    >>> nearest("dot_prodct", ["dot_product", "scaled_dot_product", "alibi"])
    ('dot_product', 'scaled_dot_product')

    Capitals do not count: `q` is near `Q`.
    """
    folded: dict[str, str] = {}
    for known in names:
        folded.setdefault(known.casefold(), known)
    close = difflib.get_close_matches(name.casefold(), folded, n=n, cutoff=0.6)
    return tuple(folded[known] for known in close)
