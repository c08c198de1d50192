"""The catalogue by name: `formulas` lists it, `formula` builds one entry in one layout."""

from __future__ import annotations

from functools import lru_cache

from symattn.errors import OperationRefusedError
from symattn.notation import brief
from symattn.tags import named
from symattn.variants.attentions import ENTRIES, Entry
from symattn.variants.head_entries import HEAD_ENTRIES, HeadsEntry
from symattn.variants.known import Formula
from symattn.variants.layouts import layout_named

CATALOGUE: dict[str, Entry | HeadsEntry] = {
    entry.name: entry for entry in (*ENTRIES, *HEAD_ENTRIES)
}


def formulas() -> tuple[str, ...]:
    """Return the name of every formula in the catalogue.

    >>> "scaled_dot_product" in formulas()
    True
    """
    return tuple(CATALOGUE)


def formula(name: str, layout: str = "column", **options: bool) -> Formula:
    r"""Return a formula of the catalogue, in column or in row layout.

    >>> import symattn as sa
    >>> f = sa.formula("luong_general")
    >>> f
    luong_general:column  V Softmax(KᵀWQ)
    >>> f.scores.shape
    (m, n)
    >>> sa.formula("luong_general", layout="row")
    luong_general:row  softmax(Q Wᵀ Kᵀ) V

    Its ``source`` says where it comes from.  A few formulas leave a choice: the packed forms of
    multi-head attention come without biases as well.

    >>> print(sa.formula("packed_multi_head", layout="row", bias=False).lines["Q"])
    X @ W_Q

    Raises `UnknownNameError`, which suggests the nearest names, for an unknown formula, layout or
    choice.
    """
    entry, chosen = named("formula", name, CATALOGUE), layout_named(layout)
    for option, value in options.items():
        named("choice", option, entry.options)
        if not isinstance(value, bool):
            raise OperationRefusedError(
                f"{option}={brief(value)}", f"write {option}=True or {option}=False"
            )
    return _built(entry.name, chosen.name, tuple(sorted(options.items())))


@lru_cache(maxsize=256)
def _built(name: str, layout: str, options: tuple[tuple[str, bool], ...]) -> Formula:
    return CATALOGUE[name].build(layout_named(layout), **dict(options))
