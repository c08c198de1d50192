"""Indices: a letter that runs over an axis, the i of ``W_i`` and of the entry (i, j).

An index remembers the size of its axis, so that what it reads can be checked: `W[i]` is one matrix
of a family of h only if i runs over h.  Two indices are equal when their names and sizes are.

Invariant: an index counts from 0 and stays below its size; counting from 1 is printing.
"""

from __future__ import annotations

from typing import Any

import sympy

from symattn.meaning.form import Index
from symattn.nodes.guarded import Guarded
from symattn.nodes.sizes import size_of
from symattn.notation.names import check_name
from symattn.tags import Size


class AxisIndex(Guarded, sympy.Symbol):
    """An index over an axis: a whole number from 0 up to, and without, the size of the axis."""

    __slots__ = ("size",)

    size: Size
    """The size of the axis that the index runs over."""

    def __new__(cls, name: str, size: Any, **_assumptions: Any) -> AxisIndex:
        # SymPy's cache of symbols knows names and assumptions only, and would mix sizes up.
        symbol = sympy.Symbol.__xnew__(cls, check_name(name), integer=True, nonnegative=True)
        symbol.size = size_of(size)
        return symbol

    @property
    def place(self) -> tuple[Index, ...]:
        """Where the index reads its axis, in an index form; free until something binds it."""
        return (
            () if self.size.is_one else (Index(self.size, self.name, (self.name, str(self.size))),)
        )

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.name, self.size), {}

    def _hashable_content(self) -> tuple[Any, ...]:
        # As text: SymPy orders its operands by this, and sizes have no order.
        return (*super()._hashable_content(), str(self.size))

    def _sympyrepr(self, _printer: Any, *_args: Any) -> str:
        return f"AxisIndex({self.name!r}, {str(self.size)!r})"


def index(name: str, size: Any) -> AxisIndex:
    """Return an index over an axis of that size.

    >>> import symattn as sa
    >>> h, n = sa.dims("h n")
    >>> i = sa.index("i", h)
    >>> i.size, i == sa.index("i", h), i == sa.index("i", n)
    (Size('h'), True, False)

    The size is a tag, a positive integer, or arithmetic of them.  Raises `NameSyntaxError` if the
    name is not one, and `SizeError` for what is no size.
    """
    return AxisIndex(name, size)
