"""The two layouts, and which one an expression is in.

In column layout tokens are columns and each column of the softmax sums to one; in row layout tokens
are rows and each row does.  The layout of an expression is that of its first softmax, from the
outside in and from the left.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from symattn.meaning.form import Form
from symattn.notation.rows import Kind, Printable, Titled

LAYOUTS: Mapping[str, int] = MappingProxyType({"column": 0, "row": 1})
"""Each layout with the axis along which its softmax runs; tokens run along the other one."""

_AT_AXIS = {axis: name for name, axis in LAYOUTS.items()}


def other_layout(layout: str) -> str:
    """Return the layout that this one is not.

    >>> other_layout("row")
    'column'
    """
    return _AT_AXIS[1 - LAYOUTS[layout]]


def layout_of(expr: Printable | Form | Titled) -> str | None:
    """Return the layout of an expression, or None where no softmax tells.

    >>> import symattn as sa
    >>> n, m = sa.dims("n m")
    >>> layout_of(sa.softmax(sa.matrix("S", n, m), axis=1))
    'row'

    A formula of the catalogue knows its own.
    """
    if isinstance(expr, Titled):
        return expr.layout
    pending: list[Printable | Form] = [expr]
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        # An index form stands for a scalar and has no matrix inside.
        if id(part) in seen or isinstance(part, Form):
            continue
        seen.add(id(part))
        if part.notation.kind is Kind.SOFTMAX and part.axis is not None:
            return _AT_AXIS[part.axis]
        pending.extend(reversed(part.parts))
    return None
