"""The catalogue by name: `formulas` lists it, `formula` builds one entry in one layout."""

from __future__ import annotations

from functools import lru_cache

from symattn.tags import named
from symattn.variants.entries import CATALOGUE, Entry
from symattn.variants.known import Formula
from symattn.variants.layouts import Layout, layout_named


def formulas() -> tuple[str, ...]:
    """Return the name of every formula in the catalogue.

    >>> "scaled_dot_product" in formulas()
    True
    """
    return tuple(CATALOGUE)


def formula(name: str, layout: str = "column") -> Formula:
    r"""Return a formula of the catalogue, in column or in row layout.

    >>> import symattn as sa
    >>> f = sa.formula("luong_general")
    >>> f
    luong_general:column  V Softmax(KᵀWQ)
    >>> f.scores.shape
    (m, n)
    >>> sa.formula("luong_general", layout="row")
    luong_general:row  softmax(Q Wᵀ Kᵀ) V

    Its ``source`` says where it comes from.  Raises `UnknownNameError`, which suggests the nearest
    names, for an unknown formula or layout.
    """
    return _built(named("formula", name, CATALOGUE), layout_named(layout))


@lru_cache(maxsize=256)
def _built(entry: Entry, layout: Layout) -> Formula:
    return entry.build(layout)
