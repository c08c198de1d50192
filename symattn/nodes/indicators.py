"""A mask as a matrix: 1 where a query may attend to a key, 0 elsewhere.

It states what a mask does to weights: ``max`` of it along the keys is 1 for a query that may
attend to any key, and 0 for one that may attend to none.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, cast

import sympy

from symattn.errors import AxisError
from symattn.meaning.form import Form, Place, Truth
from symattn.nodes.along_axis import mask_code, queries_and_keys
from symattn.nodes.arrays import ArrayContext, size_code
from symattn.nodes.core import Agreement, Arguments, Node
from symattn.nodes.masks import Mask, as_mask
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Indicator(Node):
    """The 0/1 matrix of a mask; build one with `indicator`."""

    notation = Notation(Kind.INDICATOR, Binding.ATOM)

    @classmethod
    def _accept(cls, mask: Any, rows: Any, columns: Any, axis: Any) -> Arguments:
        checked = as_mask(mask, "indicator of ")
        sizes = expression_of(size_of(rows)), expression_of(size_of(columns))
        if isinstance(axis, bool) or not isinstance(axis, Integral) or axis not in (0, 1):
            written = f"indicator({checked}, {sizes[0]}, {sizes[1]}, axis={brief(axis)})"
            fix = "axis=0, keys are rows, or axis=1, keys are columns"
            raise AxisError(written, (), "an axis is 0 or 1", fix)
        return checked, *sizes, sympy.Integer(int(axis))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        mask, rows, columns, axis = operands
        sizes = size_of(rows), size_of(columns)
        cast(Mask, mask).require(*queries_and_keys(sizes, axis), agreement)
        return sizes

    @property
    def operands(self) -> Arguments:
        """Nothing: neither a mask nor a size is an operand."""
        return ()

    @property
    def mask(self) -> Mask:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Which queries may attend to which keys."""
        return cast(Mask, self.args[0])

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The axis along which keys lie."""
        return int(cast(sympy.Integer, self.args[3]))

    def along(self, axis: int) -> Indicator:
        """Return the same mask as a matrix with keys along an axis: itself, or its transpose."""
        mask, rows, columns, own, *given = self.args
        turned = (rows, columns) if int(cast(Any, own)) == axis else (columns, rows)
        return Indicator(mask, *turned, sympy.Integer(axis), *given)

    def meaning(self, row: Place, column: Place) -> Form:
        """``[the query may attend to the key]``."""
        query, key = (column, row) if self.axis == 0 else (row, column)
        return Truth(self.mask.condition(query, key, queries_and_keys(self.sizes, self.axis)))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return an array of 0 and 1 in the dtype of the formula."""
        allowed = mask_code(self.mask, self.sizes, self.axis, context)
        rows, columns = (size_code(size, context) for size in self.sizes)
        ones = f"{context.call('ones')}(({rows}, {columns}), dtype={context.dtype})"
        return f"(({allowed}) * {ones})"


def indicator(mask: Any, rows: Any, columns: Any, *, axis: int) -> Indicator:
    """Return the matrix that is 1 where a query may attend to a key, and 0 elsewhere.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> M = sa.causal(align="bottom_right")
    >>> P = sa.softmax(sa.matrix("S", m, n), axis=0, mask=M)
    >>> allowed = sa.max(sa.indicator(M, m, n, axis=0), axis=0)
    >>> sa.prove(sa.ones(1, m) @ P, allowed).verdict
    'proved'

    ``axis`` is that along which keys lie, as in `softmax`: 0 where they are rows, 1 where they are
    columns.  Raises `MaskError`, `AlignmentError` and `AxisError` as `softmax` does.
    """
    return Indicator(mask, rows, columns, axis)
